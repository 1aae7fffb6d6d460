"""What Accelerate and transformers accept: FSDP2, tensor and context parallelism, no pipeline."""

from __future__ import annotations

import numpy as np

from planner.inputs.model import Experts, LatentAttention, ModelSpec
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.rules import Rule, divides
from planner.runtimes.family import Job, Runtime
from planner.runtimes.hub.chunks import chunk_rules
from planner.runtimes.hub.config import adapted_rule, architecture, unwritten_rules, whole_layer_rules
from planner.runtimes.hub.masked import masked_rule
from planner.runtimes.offered import (
    dtype_rules,
    exactly,
    is_plain_causal,
    mesh_shard_rule,
    one_dtype_rule,
    sequence_rule,
    technique_rules,
    unsplit_sequence_rule,
    whole_offload_rules,
    width_rules,
)
from planner.techniques.optimizers import OPTIMIZERS

DTYPES = dict.fromkeys(("state_dtype", "master_dtype", "gradient_dtype"), ("fp32", "bf16"))
"""Parameters, gradients and states have the dtype in which the script loads the weights."""


def fsdp_rules(plan: Plan, job: Job, runtime: Runtime) -> list[Rule]:
    """Return what a plan must keep to run on FSDP2 through Accelerate."""
    model, work = job.model, job.workload
    return [
        *technique_rules(plan, job, runtime),
        *dtype_rules(work, DTYPES),
        *_one_dtype(work),
        *whole_offload_rules(plan),
        exactly("no-pipeline", "pp", plan.pp, 1.0, "Accelerate has no pipeline"),
        exactly("no-virtual-stages", "vpp", plan.vpp, 1.0, "Accelerate has no pipeline"),
        Rule(
            "no-stage-layers",
            plan.stage_layers is None or len(plan.stage_layers) == 1,
            lambda: ("stage layers", "one stage", "no split"),
        ),
        exactly("no-expert-parallel", "ep", plan.ep, 1.0, "Accelerate has no expert-parallel mesh axis"),
        Rule(
            "quantised-base-is-unsplit",
            (work.method != "qlora") | (np.equal(plan.tp, 1) & np.equal(plan.cp, 1)),
            lambda: (f"qlora with {plan.slug}", "4-bit weights whole or sharded: tp 1, cp 1", "tp 1, cp 1"),
        ),
        adapted_rule(model, work),
        masked_rule(model, work),
        *_mesh_rules(plan),
        *_tensor_rules(plan, model),
        *_context_rules(plan, model, work.seq_len),
        *unwritten_rules(plan, model, ("tp", "cp")),
        *whole_layer_rules(plan, model),
        *chunk_rules(job),
    ]


def _one_dtype(work: Workload) -> list[Rule]:
    """Return the rules that weights, gradients and states have one dtype, adapters' among them float32."""
    quantised = OPTIMIZERS[work.optimizer].quantised
    names = [name for name in DTYPES if not (quantised and name == "state_dtype")]
    kinds = {getattr(work, name) or "fp32" for name in names}
    return [
        one_dtype_rule(work, names, "in which the weights are loaded"),
        Rule(
            "bf16-weights-compute-in-bf16",
            kinds != {"bf16"} or work.precision == "bf16",
            lambda: (f"weights in bf16 with precision {work.precision}", "precision bf16", "precision bf16"),
        ),
        Rule(
            "adapters-in-fp32",
            work.method == "full" or kinds == {"fp32"},
            lambda: (f"{work.method} in bf16", "adapters in fp32 beside weights in bf16", "no dtypes given"),
        ),
        Rule(
            "quantised-states-have-no-dtype",
            not quantised or work.state_dtype is None,
            lambda: (
                f"state dtype {work.state_dtype} of {work.optimizer}",
                "none: they are in 8 bits",
                "none given",
            ),
        ),
    ]


def diffusion_rules(plan: Plan, job: Job, runtime: Runtime) -> list[Rule]:
    """Return what a diffusion transformer must keep to be trained by FSDP2.

    References
    ----------
    .. [1] diffusers 0.42.1, ``models/attention_dispatch.py``: rings and exchange of heads of its
       ``ContextParallelConfig`` are autograd functions; none of its training scripts sets one.
    .. [2] X. Zhao et al., arXiv:2403.10266: dynamic sequence parallelism is that of VideoSys, with ZeRO.
    """
    return [
        *technique_rules(plan, job, runtime),
        *dtype_rules(job.workload, DTYPES),
        *_one_dtype(job.workload),
        *whole_offload_rules(plan),
        exactly("no-virtual-stages", "vpp", plan.vpp, 1.0, "there is no pipeline"),
        *_mesh_rules(plan),
    ]


def setting_rules(plan: Plan, job: Job, runtime: Runtime) -> list[Rule]:
    """Return the rules on what is set; none of a release whose files are not written.

    References
    ----------
    .. [1] Accelerate, ``docs/source/concept_guides/context_parallelism.md``: SDPA is the only attention.
    """
    if runtime.release and runtime.release not in runtime.versions:
        return []
    kernel = runtime.traits.attention.kernel
    return [
        Rule(
            "context-runs-own-attention",
            np.equal(plan.cp, 1) | (kernel == "flash-2"),
            lambda: (
                f"attention {kernel} with cp {plan.cp:g}",
                "PyTorch's own, flash-2",
                "--set attention=flash-2",
            ),
        )
    ]


def _mesh_rules(plan: Plan) -> list[Rule]:
    shard = plan.zero_shards / plan.cp
    several = plan.tp * plan.cp * plan.dp > 1
    mixed = np.greater(plan.tp * plan.cp, 1)
    replicated = np.greater(plan.dp * plan.cp, plan.zero_shards)
    return [
        mesh_shard_rule(plan),
        Rule(
            "fsdp-has-shards",
            (plan.zero == 0) | np.logical_not(several) | np.greater(plan.zero_shards, 1),
            lambda: (
                f"zero {plan.zero} over {plan.zero_shards:g} shards",
                "two shards or more: FSDP needs an axis to shard over",
                "zero 0" if plan.dp * plan.cp == 1 else f"zero shards {plan.dp * plan.cp:g}",
            ),
        ),
        Rule(
            "replicas-of-shards",
            (plan.zero == 0) | np.logical_not(mixed & replicated) | np.greater(shard, 1),
            lambda: (
                f"dp_shard {shard:g} under tp {plan.tp:g}, cp {plan.cp:g} and several replicas",
                "dp_shard of 2 or more where replicas meet tensor or context parallelism",
                f"zero shards {plan.dp * plan.cp:g}",
            ),
        ),
        Rule(
            "ddp-alone",
            (plan.zero > 0) | (np.equal(plan.cp, 1) & (np.equal(plan.tp, 1) | np.equal(plan.dp, 1))),
            lambda: (
                f"zero 0 with tp {plan.tp:g}, cp {plan.cp:g}, dp {plan.dp:g}",
                "plain data parallelism alone: tp and cp 1",
                "zero 3",
            ),
        ),
    ]


def _tensor_rules(plan: Plan, model: ModelSpec) -> list[Rule]:
    blocks = [model.blocks[name] for name in dict.fromkeys(model.layers)]
    experts = any(isinstance(block.ffn, Experts) for block in blocks)
    latent = any(isinstance(block.mixer, LatentAttention) for block in blocks)
    rules = [
        *width_rules(plan, model),
        unsplit_sequence_rule(plan, "the tensor-parallel plans keep activations whole"),
        exactly(
            "experts-follow-tp",
            "etp",
            plan.etp,
            plan.tp if experts else 1.0,
            "tensor parallelism splits every expert" if experts else "there are no experts",
        ),
    ]
    if latent or architecture(model) == "gpt2":
        why = "the tensor-parallel plan of this architecture leaves attention whole"
        rules.append(exactly("attention-splits", "tp", plan.tp, 1.0, why))
    return rules


def _context_rules(plan: Plan, model: ModelSpec, seq_len: int) -> list[Rule]:
    rules = [
        sequence_rule(seq_len, np.where(np.greater(plan.cp, 1), 2 * plan.cp, 1), "2 · cp"),
        Rule(
            "context-needs-shards",
            np.equal(plan.cp, 1) | (plan.zero > 0) & divides(plan.cp, plan.zero_shards),
            lambda: (f"cp {plan.cp:g} with zero {plan.zero}", "FSDP2 under context parallelism", "zero 3"),
        ),
    ]
    if not is_plain_causal(model):
        rules.append(exactly("context-is-causal", "cp", plan.cp, 1.0, "ring attention here is plain causal"))
    return rules
