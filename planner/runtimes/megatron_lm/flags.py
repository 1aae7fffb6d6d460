"""From a plan to the arguments of ``pretrain_gpt.py``, every degree stated and nothing left to a default."""

from __future__ import annotations

import math
from typing import Final

from planner.formulas.pipeline import round_microbatches
from planner.inputs.mixers.gated_delta import GatedDelta
from planner.inputs.model import Attention, LatentAttention, ModelSpec
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.runtimes.family import Job
from planner.runtimes.megatron_lm.architecture import Architecture, architecture
from planner.runtimes.megatron_lm.context import context_flags
from planner.runtimes.megatron_lm.hybrid import hybrid_flags, is_hybrid
from planner.runtimes.megatron_lm.layout import is_even, layout_string, pattern
from planner.runtimes.megatron_lm.numerics import activation_flags, numeric_flags, position_kind, router_flags
from planner.runtimes.megatron_lm.offload import activation_flags as hosted_flags
from planner.runtimes.megatron_lm.offload import module_flags, optimizer_share
from planner.runtimes.megatron_lm.recompute import MODULES, granularity
from planner.runtimes.megatron_lm.run_flags import loop_flags
from planner.runtimes.megatron_lm.sharding_rules import OPTIMIZERS, precision_aware
from planner.runtimes.megatron_lm.sparse import indexer_flags
from planner.runtimes.megatron_lm.table import PRECISION, SHARDING, degree_flags
from planner.runtimes.offered import stage_layers
from planner.runtimes.training_run import TrainingRun, run_of

VOCAB_MULTIPLE: Final = 128
"""Megatron-LM pads the vocabulary to a multiple of this times tp. [element]"""

FSDP_DTYPES_SINCE: Final = "0.17"
FSDP_VERSION_SINCE: Final = "0.20"
"""Releases since which Megatron-FSDP takes dtypes of gradients, and has a second version; all 0.NN."""

MUON_SHARDS_SINCE: Final = "0.18"
"""Release since which ``muon`` takes ``--use-distributed-optimizer`` (``megatron/training/arguments.py``)."""

MUON_OVERLAPS_SINCE: Final = "0.17"
"""Release since which ``dist_muon`` takes overlapped messages."""


def arguments(plan: Plan, job: Job, version: str) -> tuple[str, ...]:
    """Return the arguments of ``pretrain_gpt.py`` that real and smoke runs share, for a legal scalar plan."""
    model, work, run = job.model, job.workload, run_of(job)
    arch = architecture(model)
    return (
        *model_flags(model, work, arch),
        *vocabulary_flags(plan, model),
        *_mixer_flags(model, arch),
        *_expert_flags(model, arch, work),
        *parallel_flags(plan, job, arch),
        *sharding_flags(plan, work, version),
        *recompute_flags(plan),
        *hosted_flags(plan),
        *module_flags(plan),
        *precision_flags(work),
        *optimizer_flags(plan, work, version, run),
        *loop_flags(plan, work, run),
    )


def shape_flags(model: ModelSpec, work: Workload, arch: Architecture) -> tuple[str, ...]:
    """Return the flags of a model's shape and numerics, its vocabulary left out."""
    return (*model_flags(model, work, arch), *_mixer_flags(model, arch), *_expert_flags(model, arch, work))


def padded_vocab(vocab: int, tp: float) -> int:
    """Return the vocabulary with the rows that Megatron-LM adds so that it divides by tp. [element]

    Examples
    --------
    >>> padded_vocab(128256, 8)
    129024
    """
    multiple = VOCAB_MULTIPLE * int(tp)
    return math.ceil(vocab / multiple) * multiple


def model_flags(model: ModelSpec, work: Workload, arch: Architecture) -> list[str]:
    """Return the flags of width, depth, norms, positions and biases."""
    ffn = arch.dense or arch.experts
    positions = max(work.seq_len, model.position_rows or model.max_positions or 0)
    flags = [
        *(() if is_hybrid(model) else ("--num-layers", str(model.num_layers))),
        *("--hidden-size", str(model.hidden)),
        *("--ffn-hidden-size", str(ffn.inner if ffn else 4 * model.hidden)),
        *("--num-attention-heads", str(arch.mixer.heads)),
        *("--seq-length", str(work.seq_len)),
        *("--max-position-embeddings", str(positions)),
        *("--normalization", "RMSNorm" if model.norm == "rmsnorm" else "LayerNorm"),
        *("--position-embedding-type", position_embedding(model, arch)),
        *("--attention-dropout", "0.0", "--hidden-dropout", "0.0"),
    ]
    switches = {
        "--disable-bias-linear": arch.biases != "all",
        "--add-qkv-bias": arch.biases == "qkv",
        "--untie-embeddings-and-output-weights": not model.tied_embeddings,
    }
    flags += activation_flags(model, arch)
    flags += [flag for flag, wanted in switches.items() if wanted] + numeric_flags(model, arch)
    if model.prediction is not None:
        flags += ["--mtp-num-layers", str(model.prediction.layers)]
        flags += ["--mtp-use-repeated-layer"] if model.prediction.repeated else []
    return flags


def position_embedding(model: ModelSpec, arch: Architecture) -> str:
    """Return Megatron-core's name of how positions enter the model."""
    return position_kind(model, any(arch.rotary), isinstance(arch.mixer, LatentAttention))


def vocabulary_flags(plan: Plan, model: ModelSpec) -> list[str]:
    """Return the flags of the vocabulary, its padding stated so that no tokenizer changes the shapes."""
    return [
        *("--vocab-size", str(model.vocab)),
        *("--make-vocab-size-divisible-by", str(VOCAB_MULTIPLE)),
        *("--padded-vocab-size", str(padded_vocab(model.vocab, float(plan.tp)))),
    ]


def _mixer_flags(model: ModelSpec, arch: Architecture) -> list[str]:
    mixer = arch.mixer
    flags = ["--attention-backend", "auto"]
    if isinstance(mixer, Attention):
        flags += ["--kv-channels", str(mixer.head_dim)]
        if mixer.kv_heads != mixer.heads:
            flags += ["--group-query-attention", "--num-query-groups", str(mixer.kv_heads)]
        flags += ["--qk-layernorm"] if mixer.qk_norm == "head" else []
        flags += ["--softmax-type", "learnable"] if mixer.sinks else []
        flags += ["--attention-output-gate"] if mixer.output_gate else []
    else:
        flags += _latent_flags(model, mixer)
    if isinstance(arch.recurrent, GatedDelta):
        flags += _delta_flags(arch.recurrent, arch.linear)
    if arch.window is not None:
        flags += ["--window-size", f"{arch.window - 1},0"]
        flags += [] if all(arch.windowed) else ["--window-attn-skip-freq", pattern(arch.windowed)]
    if any(arch.rotary) and not all(arch.rotary):
        flags += ["--no-rope-freq", pattern(not rotary for rotary in arch.rotary)]
    return flags


def _delta_flags(mixer: GatedDelta, linear: tuple[bool, ...]) -> list[str]:
    return [
        *("--experimental-attention-variant", "gated_delta_net", "--linear-attention-freq", pattern(linear)),
        *("--linear-conv-kernel-dim", str(mixer.conv_kernel)),
        *("--linear-num-key-heads", str(mixer.key_heads)),
        *("--linear-num-value-heads", str(mixer.value_heads)),
        *("--linear-key-head-dim", str(mixer.key_head_dim)),
        *("--linear-value-head-dim", str(mixer.head_dim)),
    ]


def _latent_flags(model: ModelSpec, mixer: LatentAttention) -> list[str]:
    scaling = model.numerics.rope_scaling
    kind = "yarn" if scaling is not None and scaling.kind == "yarn" else "rope"
    return [
        *("--multi-latent-attention", "--qk-layernorm"),
        # of no effect here, but the default's width must come out whole (training/arguments.py)
        *(("--kv-channels", str(mixer.qk_nope_head_dim)) if model.hidden % mixer.heads else ()),
        *(("--q-lora-rank", str(mixer.q_lora_rank)) if mixer.q_lora_rank else ()),
        *("--kv-lora-rank", str(mixer.kv_lora_rank)),
        *("--qk-head-dim", str(mixer.qk_nope_head_dim)),
        *("--qk-pos-emb-head-dim", str(mixer.qk_rope_head_dim)),
        *("--v-head-dim", str(mixer.v_head_dim)),
        *("--rope-type", kind, "--no-rope-fusion"),
        *indexer_flags(mixer.indexer),
    ]


def _expert_flags(model: ModelSpec, arch: Architecture, work: Workload) -> list[str]:
    experts = arch.experts
    if experts is None:
        return []
    flags = [
        *("--num-experts", str(experts.experts)),
        *("--moe-router-topk", str(experts.topk)),
        *("--moe-ffn-hidden-size", str(experts.inner)),
        *(() if is_hybrid(model) else ("--moe-layer-freq", pattern(arch.expert))),
        *("--moe-router-dtype", "fp32"),
        *("--moe-token-dispatcher-type", "alltoall"),
        *("--moe-grouped-gemm", "--moe-permute-fusion"),
    ]
    if experts.shared_inner:
        flags += ["--moe-shared-expert-intermediate-size", str(experts.shared_inner)]
    if experts.latent:
        flags += ["--moe-latent-size", str(experts.latent)]
    flags += router_flags(model, arch)
    switches = {
        "--moe-shared-expert-gate": experts.shared_gate,
        "--moe-router-padding-for-quantization": work.precision not in ("bf16", "fp16"),
    }
    return flags + [flag for flag, wanted in switches.items() if wanted]


def parallel_flags(plan: Plan, job: Job, arch: Architecture) -> list[str]:
    """Return the degrees, the pipeline's cut and the method of context parallelism."""
    model = job.model
    flags = degree_flags(plan, "tp", "pp", "cp")
    if arch.experts is not None or plan.ep > 1:
        flags += degree_flags(plan, "ep", "etp")
    flags += ["--sequence-parallel"] if plan.sequence_parallel and plan.tp > 1 else []
    flags += context_flags(plan, job)
    if is_hybrid(model):
        flags += hybrid_flags(plan, model)
    elif not is_even(plan, model):
        flags += ["--pipeline-model-parallel-layout", layout_string(plan, model)]
    elif plan.vpp > 1:
        flags += ["--num-layers-per-virtual-pipeline-stage", str(stage_layers(plan, model)[0])]
    if plan.vpp > 1:
        group = round_microbatches(plan.pp, plan.num_microbatches)
        flags += ["--microbatch-group-size-per-virtual-pipeline-stage", f"{group:.0f}"]
    return flags


def sharding_flags(plan: Plan, work: Workload, version: str) -> list[str]:
    """Return what data parallelism shards, how gradients travel, and what of it is overlapped."""
    flags = ["--overlap-grad-reduce"]
    if old_muon(work, version):
        overlaps = plan.zero >= 1 and version >= MUON_OVERLAPS_SINCE
        flags = ["--overlap-grad-reduce", "--overlap-param-gather"] if overlaps else []
    elif plan.zero >= 1:
        flags += ["--use-distributed-optimizer", "--overlap-param-gather"]
        flags += ["--num-distributed-optimizer-instances", f"{plan.dp * plan.cp / plan.zero_shards:.0f}"]
    gradient = work.gradient_dtype or "fp32"
    flags += _fsdp_flags(plan, gradient, version) if plan.zero >= 2 else ["--ckpt-format", "torch_dist"]
    if gradient == "fp32":
        return [*flags, "--accumulate-allreduce-grads-in-fp32"]
    return [*flags, *(() if work.precision == "fp16" else ("--grad-reduce-in-bf16",))]


def _fsdp_flags(plan: Plan, gradient: str, version: str) -> list[str]:
    flags = ["--use-megatron-fsdp", "--no-gradient-accumulation-fusion", "--ckpt-format", "fsdp_dtensor"]
    flags += ["--data-parallel-sharding-strategy", SHARDING[plan.zero]]
    if version >= FSDP_DTYPES_SINCE:
        flags += ["--megatron-fsdp-main-grads-dtype", gradient, "--megatron-fsdp-grad-comm-dtype", gradient]
    return flags + (["--megatron-fsdp-version", "1"] if version >= FSDP_VERSION_SINCE else [])


def recompute_flags(plan: Plan) -> list[str]:
    """Return what is rebuilt in backward."""
    wanted = granularity(plan.recompute)
    if wanted is None:
        return []
    if not wanted.whole:
        modules = [MODULES[module] for module in wanted.modules]
        return ["--recompute-granularity", "selective", "--recompute-modules", *modules]
    method, layers = ("uniform", 1) if wanted.layers is None else ("block", wanted.layers // int(plan.vpp))
    flags = ["--recompute-granularity", "full", "--recompute-method", method]
    return [*flags, "--recompute-num-layers", str(layers)]


def precision_flags(work: Workload) -> list[str]:
    """Return the number formats of products."""
    return ["--fp16" if work.precision == "fp16" else "--bf16", *PRECISION[work.precision]]


def old_muon(work: Workload, version: str) -> bool:
    """Whether a release calls Muon with shared states ``dist_muon``, and refuses distributed optimizers."""
    return work.optimizer == "muon" and version < MUON_SHARDS_SINCE


def optimizer_flags(plan: Plan, work: Workload, version: str, run: TrainingRun) -> list[str]:
    """Return the optimizer, where it lives and in which formats."""
    name = OPTIMIZERS[work.optimizer]
    if plan.zero >= 1 and old_muon(work, version):
        name = "dist_muon"
    flags = ["--optimizer", name, "--weight-decay", repr(run.weight_decay), "--clip-grad", repr(run.clip)]
    flags += ["--adam-beta1", repr(run.beta1), "--adam-beta2", repr(run.beta2)] if name == "adam" else []
    flags += ["--muon-tp-mode", "duplicated"] if work.optimizer == "muon" else []
    if precision_aware(plan, work):
        state = work.state_dtype or "fp32"
        flags += ["--use-precision-aware-optimizer", "--exp-avg-dtype", state, "--exp-avg-sq-dtype", state]
        flags += ["--main-params-dtype", work.master_dtype or "fp32"]
    if share := optimizer_share(plan.offload):
        flags += ["--optimizer-cpu-offload", "--optimizer-offload-fraction", repr(share)]
        flags += ["--overlap-cpu-optimizer-d2h-h2d"]
    return flags
