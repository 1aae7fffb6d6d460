"""What a runner must derive from a plan, counted from the model: layers and parameters of each stage."""

from __future__ import annotations

import math

from planner.inputs.mixers.mamba2 import Mamba2
from planner.inputs.model import Attention, Block, DenseFfn, Experts, LatentAttention, ModelSpec
from planner.plan import Plan
from planner.runtimes.family import Job
from planner.runtimes.settings import Changes
from tests.validate.megatron.numerics import wanted_numerics


def split(plan: Plan, model: ModelSpec) -> list[int]:
    """Return layers for each virtual stage in the model's order; those in the middle take a remainder."""
    stages = int(plan.pp * plan.vpp)
    if plan.stage_layers is not None:
        return list(plan.stage_layers)
    share, rest = divmod(model.num_layers, stages)
    inmost = sorted(range(stages), key=lambda stage: (abs(stage - (stages - 1) / 2), stage))
    return [share + (stage in inmost[:rest]) for stage in range(stages)]


def layers_per_rank(plan: Plan, model: ModelSpec) -> list[list[int]]:
    """Return for each pipeline rank the layers of its chunks."""
    pp, layers = int(plan.pp), split(plan, model)
    return [layers[rank::pp] for rank in range(pp)]


def rank_params(plan: Plan, model: ModelSpec, *, local: bool = False) -> list[int]:
    """Return the parameters that one rank of each pipeline stage holds, vocabulary padded to 128 · tp.

    ``local`` counts as Megatron-core's local layers do, which divide the down-projections of latent attention
    over tp; those of Transformer Engine, which a training runs, replicate them.
    """
    pp, layers = int(plan.pp), split(plan, model)
    starts = [sum(layers[:stage]) for stage in range(len(layers))]
    counts = [0.0] * pp
    for stage, (start, many) in enumerate(zip(starts, layers, strict=True)):
        names = model.layers[start : start + many]
        counts[stage % pp] += sum(_block_params(model.blocks[name], plan, model) for name in names)
    tp = int(plan.tp)
    padded = math.ceil(model.vocab / (128 * tp)) * 128
    positions = model.max_positions * model.hidden if model.learned_positions and model.max_positions else 0
    counts[0] += padded * model.hidden + positions
    counts[-1] += _head(plan, model, padded)
    counts[_norm_rank(plan, model)] += model.norm_params
    if model.prediction is not None:
        extra = 2 * model.hidden * model.hidden / tp + 3 * model.norm_params
        block = _block_params(model.blocks[model.prediction.block], plan, model)
        rank = _prediction_rank(plan, model)
        counts[rank] += model.prediction.layers * (extra + block)
        if pp > 1:
            counts[rank] += padded * model.hidden
    if local:
        counts = [
            count - layers * _undivided(plan, model)
            for count, layers in zip(counts, _depths(plan, model), strict=True)
        ]
    return [round(count) for count in counts]


def _norm_rank(plan: Plan, model: ModelSpec) -> int:
    """Return the rank of the last norm: that of the last layer where prediction layers follow it."""
    if model.prediction is None:
        return int(plan.pp) - 1
    return max(stage for stage, many in enumerate(split(plan, model)) if many) % int(plan.pp)


def _prediction_rank(plan: Plan, model: ModelSpec) -> int:
    """Return the rank of the prediction layers: the last, or the one before where both have no layer."""
    *_, before, last = (1, *split(plan, model))
    return int(plan.pp) - (2 if len(split(plan, model)) > 2 and before == last == 0 else 1)


def _depths(plan: Plan, model: ModelSpec) -> list[int]:
    """Return the layers of each rank, extra prediction layers included."""
    depths = [sum(chunks) for chunks in layers_per_rank(plan, model)]
    depths[_prediction_rank(plan, model)] += model.prediction.layers if model.prediction else 0
    return depths


def _undivided(plan: Plan, model: ModelSpec) -> float:
    mixer = model.blocks[model.layers[0]].mixer
    if not isinstance(mixer, LatentAttention):
        return 0.0
    width = mixer.q_lora_rank + mixer.kv_lora_rank + mixer.qk_rope_head_dim
    return float(model.hidden * width * (1 - 1 / plan.tp))


def _head(plan: Plan, model: ModelSpec, padded: int) -> int:
    """Return the head, or the copy of tied embeddings that the last of several stages holds."""
    shared_here = model.tied_embeddings and (plan.pp == 1 or model.prediction is not None)
    return 0 if shared_here else padded * model.hidden


def _block_params(block: Block, plan: Plan, model: ModelSpec) -> float:
    mixer = block.mixer
    inside = _attention(mixer, plan, model) if isinstance(mixer, Attention) else _latent(mixer, plan, model)
    ffn = block.ffn
    rest = (
        _dense(ffn, plan.tp, model.hidden) if isinstance(ffn, DenseFfn) else _experts(ffn, plan, model.hidden)
    )
    return inside + rest + block.norms * model.norm_params


def _attention(mixer: Attention, plan: Plan, model: ModelSpec) -> float:
    qkv = (mixer.heads + 2 * mixer.kv_heads) * mixer.head_dim
    weights = (qkv + mixer.heads * mixer.head_dim) * model.hidden / plan.tp
    biases = mixer.qkv_bias * qkv / plan.tp + mixer.output_bias * model.hidden
    norms = 2 * mixer.head_dim * (2 if model.norm == "layernorm" else 1) if mixer.qk_norm == "head" else 0
    return float(weights + biases + norms + mixer.sinks * mixer.heads / plan.tp)


def _latent(mixer: LatentAttention, plan: Plan, model: ModelSpec) -> float:
    wide = mixer.heads * mixer.qk_head_dim
    down = model.hidden * (mixer.kv_lora_rank + mixer.qk_rope_head_dim) + mixer.kv_lora_rank
    up = mixer.kv_lora_rank * mixer.heads * (mixer.qk_nope_head_dim + mixer.v_head_dim)
    out = mixer.heads * mixer.v_head_dim * model.hidden + mixer.output_bias * model.hidden * plan.tp
    if not mixer.q_lora_rank:
        return float(down + (model.hidden * wide + up + out) / plan.tp)
    queries = model.hidden * mixer.q_lora_rank + mixer.q_lora_rank
    return float(down + queries + (mixer.q_lora_rank * wide + up + out) / plan.tp)


def _dense(ffn: DenseFfn, ranks: object, hidden: int) -> float:
    lanes, divisor = (2 if ffn.gated else 1), float(ranks)  # type: ignore[arg-type]
    weights = (lanes + 1) * ffn.inner * hidden / divisor
    return weights + ffn.bias * (lanes * ffn.inner / divisor + hidden)


def _experts(ffn: Experts, plan: Plan, hidden: int) -> float:
    one = _dense(DenseFfn(inner=ffn.inner, gated=ffn.gated, bias=ffn.bias), plan.etp, hidden)
    shared = (3 if ffn.gated else 2) * ffn.shared_inner * hidden / plan.tp
    gate = ffn.shared_gate * hidden
    return float(ffn.experts / plan.ep * one + shared + gate + ffn.experts * (hidden + ffn.router_bias))


def wanted(job: Job, plan: Plan) -> dict[str, object]:
    """Return what a runner on Megatron-core must derive from a plan."""
    model = job.model
    moe = any(block.ffn.kind == "moe" for block in model.blocks.values())
    return {
        "world": job.gpus,
        **{
            name: int(getattr(plan, name))
            for name in ("tp", "pp", "vpp", "cp", "dp", "micro_batch", "num_microbatches")
        },
        "ep": int(plan.ep),
        "etp": int(plan.etp) if moe else int(plan.tp),
        "expert_dp": int(plan.expert_dp) if moe else int(plan.dp * plan.cp),
        "zero_shards": int(plan.zero_shards) if plan.zero else int(plan.dp * plan.cp),
        "distributed_optimizer": plan.zero >= 1,
        "sharding": {2: "optim_grads", 3: "optim_grads_params"}.get(plan.zero, ""),
        "sequence_parallel": plan.sequence_parallel and plan.tp > 1,
        "seq_len": job.workload.seq_len,
        "recompute": None if plan.recompute == "none" else plan.recompute.partition(":")[0],
        "hosted_layers": int(plan.offload.removeprefix("activations:")) if ":" in plan.offload else 0,
        "layers": layers_per_rank(plan, model),
        "params": rank_params(plan, model, local=True),
        "adapters": rank_adapters(plan, job) if job.workload.method == "lora" else [],
        **wanted_numerics(model),
    }


def as_set(changes: Changes) -> dict[str, object]:
    """Return what a runner on Megatron-core must derive from changed traits; only what is changed is said."""
    said: dict[str, object] = {}
    for name, value in changes.items():
        if name == "attention":
            said |= {"attention": {"flash-2": "flash", "unfused": "unfused"}[str(value)]}
        elif name == "dropout":
            said |= {"dropout": (0.1, 0.1)}
        elif name in ("dp_exposed", "tp_exposed"):
            said |= {f"{name.partition('_')[0]}_overlap": value != 1.0}
        elif name in ("gradient_dtype", "reduce_dtype"):
            said |= {"reduces_in_fp32": False}
        elif name == "loss":
            said |= {"loss_kernel": "te"}
        else:
            said |= {name: value}
    return said


def rank_adapters(plan: Plan, job: Job) -> list[int]:
    """Return the trained parameters of a rank of each stage: rank · (inputs + outputs) over tp or etp."""
    model, pp, layers = job.model, int(plan.pp), split(plan, job.model)
    starts = [sum(layers[:stage]) for stage in range(len(layers))]
    widths = [0.0] * pp
    for stage, (start, many) in enumerate(zip(starts, layers, strict=True)):
        names = model.layers[start : start + many]
        widths[stage % pp] += sum(_adapted(model.blocks[name], plan, model.hidden) for name in names)
    if model.prediction is not None:
        one = _adapted(model.blocks[model.prediction.block], plan, model.hidden)
        widths[_prediction_rank(plan, model)] += model.prediction.layers * one
    return [round(job.workload.lora_rank * width) for width in widths]


def _adapted(block: Block, plan: Plan, hidden: int) -> float:
    """Return inputs and outputs of the linear layers that one rank holds a part of."""
    mixer, ffn = block.mixer, block.ffn
    pairs: list[tuple[int, int]] = []
    if isinstance(mixer, Mamba2):
        inner = mixer.heads * mixer.head_dim
        pairs = [(hidden, 2 * (inner + mixer.groups * mixer.state) + mixer.heads), (inner, hidden)]
    elif isinstance(mixer, Attention):
        wide = mixer.heads * mixer.head_dim
        pairs = [(hidden, wide + 2 * mixer.kv_heads * mixer.head_dim), (wide, hidden)]
    elif isinstance(mixer, LatentAttention):
        queries = mixer.heads * mixer.qk_head_dim
        ups = mixer.heads * (mixer.qk_nope_head_dim + mixer.v_head_dim)
        pairs = [(hidden, mixer.kv_lora_rank + mixer.qk_rope_head_dim), (mixer.kv_lora_rank, ups)]
        pairs += [(mixer.heads * mixer.v_head_dim, hidden)]
        if mixer.q_lora_rank:
            pairs += [(hidden, mixer.q_lora_rank), (mixer.q_lora_rank, queries)]
        else:
            pairs += [(hidden, queries)]
    shared, experts = _ffn_pairs(ffn, hidden) if ffn is not None else ([], [])
    return sum(map(sum, pairs + shared)) / plan.tp + sum(map(sum, experts)) / plan.etp / plan.ep


def _ffn_pairs(ffn: DenseFfn | Experts, hidden: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return inputs and outputs of the layers that every rank runs, and those of all experts."""
    lanes = 2 if ffn.gated else 1
    if isinstance(ffn, DenseFfn):
        return [(hidden, lanes * ffn.inner), (ffn.inner, hidden)], []
    many = ffn.experts
    experts = [(many * hidden, many * lanes * ffn.inner), (many * ffn.inner, many * hidden)]
    shared = [(hidden, lanes * ffn.shared_inner), (ffn.shared_inner, hidden)] if ffn.shared_inner else []
    return shared, experts
