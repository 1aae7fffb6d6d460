"""Blocks said by their parts, and the ends of a diffusion transformer: operators, messages, FLOPs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from planner.cost.layer.attention_core import CoreSize, attention_outside, attention_seconds
from planner.cost.layer.context_exchange import leg_exchange
from planner.cost.layer.context_parallel import gathered_bytes, legs
from planner.cost.layer.exchange import ACTIVATION_BYTES, NO_EXCHANGE, Exchange
from planner.cost.layer.heads import head_ranks
from planner.cost.layer.operators import Operator, Pricer, stitched_time
from planner.formulas import elementwise as traffic
from planner.formulas.attention import attention_flops
from planner.inputs.block_parts import CorePart, Part, PointwisePart, ProductPart, Rows
from planner.inputs.diffusion import Diffusion
from planner.inputs.model import Attention, ModelSpec
from planner.numeric import Num

MODULE: Final = "parts"
"""The module of all parts but attention's core: recompute of modules names none of them."""

NOTHING_KEPT: Final = frozenset({"add", "rotary", "table", "loss"})
"""Operators whose backward needs none of their input."""


def diffusion_of(model: ModelSpec) -> Diffusion:
    """Return what a diffusion transformer has in place of a vocabulary."""
    if model.diffusion is None:
        raise AssertionError(f"{model.name} is no diffusion transformer")
    return model.diffusion


def sample_rows(diffusion: Diffusion, seq_len: float, rows: Rows) -> float:
    """Rows of a whole sample, of which ``seq_len`` are what attention over it sees. [-]"""
    text = float(diffusion.text_tokens)
    inside = text if diffusion.text == "joint" else 0.0
    own = {"latents": seq_len - inside, "all": seq_len, "text": text, "sample": 1.0}
    return own[rows] if rows != "frame-text" else text * diffusion.frames


def _split(diffusion: Diffusion, rows: Rows) -> bool:
    """Whether ranks that share a sequence share such rows; text that is attended to is whole on each."""
    return rows in ("latents", "all", "frame-text") or (rows == "text" and diffusion.text == "joint")


def local_rows(pricer: Pricer, rows: Rows) -> Num:
    """Rows of a micro-batch on a rank. [-]"""
    diffusion = diffusion_of(pricer.case.model)
    whole = pricer.plan.micro_batch * sample_rows(diffusion, float(pricer.case.workload.seq_len), rows)
    return whole / pricer.plan.cp if _split(diffusion, rows) else whole


def part_operators(pricer: Pricer, parts: Sequence[Part]) -> list[Operator]:
    """Price parts in order."""
    return [_priced(pricer, part, f"{part.kind}_{place}") for place, part in enumerate(parts)]


def _priced(pricer: Pricer, part: Part, name: str) -> Operator:
    if isinstance(part, CorePart):
        return core_operator(pricer, part, name)
    rows = local_rows(pricer, part.rows)
    if isinstance(part, PointwisePart):
        return _pointwise(pricer, part, name, rows)
    saved = ACTIVATION_BYTES * rows * part.inputs * part.keeps
    return pricer.linear(name, MODULE, rows, float(part.inputs), float(part.outputs), saved, part.bias)


def _pointwise(pricer: Pricer, part: PointwisePart, name: str, rows: Num) -> Operator:
    kernels = pricer.case.traits.kernels
    elements = rows * part.width
    moved = {
        "norm": traffic.NORM[True],
        "modulate": traffic.MODULATE[kernels.compiled],
        "gate": traffic.GATE[kernels.compiled],
        "activation": traffic.PLAIN[True],
        "rotary": traffic.ROTARY[True] if kernels.compiled else traffic.ROTARY_HALVES,
        "add": traffic.RESIDUAL[kernels.compiled],
        "loss": traffic.SQUARED_ERROR,
        "table": traffic.NOTHING,
    }[part.kind]
    wide = 2.0 if part.fp32 else 1.0
    saved = 0.0 if part.kind in NOTHING_KEPT else ACTIVATION_BYTES * wide * elements
    moved = moved._replace(forward=wide * moved.forward, backward=wide * moved.backward)
    operator = pricer.elementwise(name, MODULE, elements, moved, saved=saved, params=float(part.params))
    return operator.with_values(forward=0.0, backward=0.0) if part.kind == "table" else operator


def core_parts(model: ModelSpec) -> tuple[CorePart, ...]:
    """Return every kind of attention of a diffusion transformer."""
    diffusion = diffusion_of(model)
    parts = [*diffusion.first, *(part for block in model.blocks.values() for part in block.parts)]
    return tuple(dict.fromkeys(part for part in parts if isinstance(part, CorePart)))


def mixer_of(core: CorePart) -> Attention:
    """Return attention of such heads, as methods of context parallelism see it."""
    return Attention(heads=core.heads, kv_heads=core.heads, head_dim=core.head_dim, causal=False)


def keys_of(diffusion: Diffusion, core: CorePart, seq_len: float) -> float:
    """Keys that a query sees: of all rows, of its frame, or of its place in every frame. [-]"""
    whole = sample_rows(diffusion, seq_len, "text" if core.keys == "frame-text" else core.keys)
    return {None: whole, "space": whole / diffusion.frames, "time": float(diffusion.frames)}[core.axis]


def is_shared(diffusion: Diffusion, core: CorePart) -> bool:
    """Whether ranks that share a sequence have to exchange something for attention: not for whole text."""
    return core.keys != "frame-text" and _split(diffusion, core.keys)


def core_operator(pricer: Pricer, core: CorePart, name: str) -> Operator:
    """Price the core of attention; it keeps queries, keys, values and its result.

    Within an axis a rank computes whole sequences, as many fewer as ranks share the sample. Over all rows it
    computes its part of the queries, or of the heads, as the method of context parallelism has it.
    """
    case, plan = pricer.case, pricer.plan
    diffusion, seq_len = diffusion_of(case.model), float(case.workload.seq_len)
    queries, keys = local_rows(pricer, core.queries), local_rows(pricer, core.keys)
    visible = keys_of(diffusion, core, seq_len)
    length = visible if core.axis else sample_rows(diffusion, seq_len, core.queries)
    shared = is_shared(diffusion, core)
    shares: Num = 1.0
    if shared and not core.axis:
        shares = head_ranks(case, plan, mixer_of(core))
    share = 1.0 if core.axis else shares / plan.cp
    sequences = queries / length if core.axis else plan.micro_batch
    ring = plan.cp / shares if shared and not core.axis else 1.0
    heads, size, kernel = core.heads / shares, float(core.head_dim), case.attention_kernel
    rows = sequences * heads
    forward, backward, statistics = attention_seconds(
        case, kernel, CoreSize(rows, length, share, visible, size)
    )
    stitching = stitched_time(case.traits, ring, length * share, visible)
    slow = stitching / (case.derate * case.traits.attention.share)
    outside = attention_outside(case, kernel, visible, size) * slow
    return Operator(
        name,
        "core_attn",
        forward=forward * slow,
        backward=backward * slow,
        kept=ACTIVATION_BYTES * 2.0 * (queries + keys) * core.width,
        saved=statistics,
        result=gathered_bytes(case, plan, queries, mixer_of(core)) if shared else 0.0,
        flops=attention_flops(sequences, heads, length * share, visible, size),
        outside_forward=outside * forward,
        outside_backward=outside * backward,
    )


def parts_exchange(pricer: Pricer, parts: Iterable[Part], operators: Sequence[Operator]) -> Exchange:
    """Price what attention sends between the ranks that share a sample. [s], [byte]"""
    found, diffusion = NO_EXCHANGE, diffusion_of(pricer.case.model)
    for part, operator in zip(parts, operators, strict=True):
        if isinstance(part, CorePart) and is_shared(diffusion, part):
            rows = local_rows(pricer, part.queries)
            for leg in legs(pricer.case, pricer.plan, rows, mixer_of(part)):
                found = found + leg_exchange(pricer.case, leg, operator)
    return found


def diffusion_end(pricer: Pricer, first: bool) -> tuple[list[Operator], Exchange]:
    """Price what stands before the first block, or after the last."""
    diffusion = diffusion_of(pricer.case.model)
    parts = diffusion.first if first else diffusion.last
    operators = part_operators(pricer, parts)
    return operators, parts_exchange(pricer, parts, operators)


def parts_flops(diffusion: Diffusion, parts: Iterable[Part], seq_len: float) -> float:
    """FLOPs of the products of one sample, forward. [FLOP]"""
    total = 0.0
    for part in parts:
        if isinstance(part, ProductPart):
            total += 2.0 * sample_rows(diffusion, seq_len, part.rows) * part.inputs * part.outputs
        elif isinstance(part, CorePart):
            queries, keys = sample_rows(diffusion, seq_len, part.queries), keys_of(diffusion, part, seq_len)
            total += float(attention_flops(1.0, part.heads, queries, keys, part.head_dim))
    return total


def diffusion_flops(model: ModelSpec, seq_len: float) -> float:
    """FLOPs of one sample forward and backward, twice the forward's; all of it learns. [FLOP]"""
    diffusion = diffusion_of(model)
    parts = [*diffusion.first, *diffusion.last]
    parts += [part for name in model.layers for part in model.blocks[name].parts]
    return 3.0 * parts_flops(diffusion, parts, seq_len)
