"""The formulas behind an estimate: for each term the equation, the numbers put in, and where it is from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from planner.cost.estimate import Estimate
from planner.cost.flops import product_weights
from planner.cost.layer.attention_core import keys_of
from planner.cost.layer.communication import message_bytes
from planner.cost.layer.exchange import ACTIVATION_BYTES
from planner.cost.layer.heads import head_ranks
from planner.cost.memory.fit import oom_probability
from planner.cost.traffic.data_parallel import exchanged_bytes, shard_bytes
from planner.cost.traffic.shard_groups import groups
from planner.dataclasses import asdict, dataclass, replace
from planner.formulas.attention import AttentionCurve, attention_forward_seconds
from planner.formulas.collectives import Tier, ring_seconds
from planner.formulas.gemm import GemmCurve, gemm_compute_seconds, gemm_memory_seconds, gemm_seconds
from planner.formulas.messages import shared_seconds, tier_seconds
from planner.formulas.model_flops import model_flops
from planner.formulas.overlap import exposed_seconds
from planner.formulas.pipeline import Pipe
from planner.inputs.model import Experts
from planner.report.as_json import Document, plain
from planner.report.formula_text import FormulaText, formula_text
from planner.report.page import Page
from planner.report.waterfall import Anatomy
from planner.techniques.optimizers.family import step_traffic
from planner.techniques.schedules.family import InRounds
from planner.units import DIMENSIONS, show

FORMULAS: Final = "planner/formulas/1"

CURVE_UNITS: Final = {"rate": "FLOP/s", "bandwidth": "byte/s", "launch": "s", "operand_bytes": "byte"}
LONGEST: Final = 1e12
"""From here on whole numbers are told with an exponent."""


@dataclass(frozen=True)
class Use:
    """One formula with the numbers that an estimate puts in."""

    term: str
    """The term of the step, or figure, that it stands behind."""
    what: str
    """Which case of it is shown, and how it enters the step."""
    function: Callable[..., Any]
    """The formula."""
    inputs: Mapping[str, Any]
    """Its arguments."""

    @property
    def result(self) -> float:
        """What the formula gives."""
        return float(self.function(**self.inputs))

    @property
    def text(self) -> FormulaText:
        """What its docstring says, and that of the pipeline where it takes one."""
        text = formula_text(self.function)
        if any(isinstance(value, Pipe) for value in self.inputs.values()):
            return replace(text, units=formula_text(Pipe).units | text.units)
        return text


def terms_of(answer: Estimate) -> tuple[Use, ...]:
    """Return the formulas of an estimate, term by term."""
    anatomy = Anatomy(answer)
    return tuple(
        use
        for made in (
            _products,
            _attention,
            _tensor,
            _context,
            _experts,
            _messages,
            _bubble,
            _data,
            _copies,
            _optimizer,
            _figures,
        )
        for use in made(anatomy)
    )


def _block(anatomy: Anatomy) -> str:
    """Return the kind of layer that the stage told has most of."""
    blocks = anatomy.answer.job.model.blocks
    counts = {piece[0]: count for piece, count in anatomy.counts().items() if piece[0] in blocks}
    return max(counts, key=lambda name: counts[name])


def _products(anatomy: Anatomy) -> Iterator[Use]:
    name = _block(anatomy)
    layer = anatomy.layers[name]
    shapes = anatomy.pricers[name].products
    op = max((op for op in layer.operators if op.name in shapes), key=lambda op: float(op.forward))
    rows, inputs, outputs = shapes[op.name]
    curve = anatomy.case.kernels.gemm[anatomy.case.precision.linear]
    sizes = {"m": rows, "n": outputs, "k": inputs, "curve": curve}
    what = f"{op.name}, the largest product of a {name} layer, forward"
    yield Use("compute", f"{what}: arithmetic", gemm_compute_seconds, sizes)
    yield Use("compute", f"{what}: memory", gemm_memory_seconds, sizes)
    yield Use(
        "compute",
        f"{what}; divided by {anatomy.case.derate:.4g}, what training holds of it",
        gemm_seconds,
        sizes,
    )


def _attention(anatomy: Anatomy) -> Iterator[Use]:
    case, plan = anatomy.case, anatomy.answer.plan
    if case.attention_kernel.keeps_scores:
        return
    name = _block(anatomy)
    mixer = case.model.blocks[name].attention
    if mixer is None:
        return
    shares = float(head_ranks(case, plan, mixer))
    local = float(np.ceil(mixer.heads / plan.tp))
    heads = local / shares
    seq = float(case.workload.seq_len)
    inputs = {
        "batch": 1.0,
        "heads": plan.micro_batch * heads,
        "seq_q": seq * (shares / plan.cp),
        "visible": float(keys_of(mixer, seq, case.workload.attended_tokens)),
        "head_dim": sum(mixer.core_widths) / 2,
        "curve": case.kernels.attention_for(round(sum(mixer.core_widths) / 2)),
        "shared": local / max(mixer.kv_heads / plan.tp, 1.0),
    }
    yield Use(
        "compute",
        f"attention of a {name} layer, forward, before what training holds",
        attention_forward_seconds,
        inputs,
    )


def _tensor(anatomy: Anatomy) -> Iterator[Use]:
    case, plan = anatomy.case, anatomy.answer.plan
    if plan.tp <= 1:
        return
    nbytes = ACTIVATION_BYTES * float(anatomy.pricers[_block(anatomy)].tokens) * case.model.hidden
    inputs = {"nbytes": nbytes, "ranks": plan.tp, "stride": 1.0, "tiers": case.tensor_tiers}
    what = "one gather or reduce-scatter of a micro-batch's activations, 2 bytes each"
    yield Use("tp_comm", what, ring_seconds, inputs)


def _context(anatomy: Anatomy) -> Iterator[Use]:
    case, name = anatomy.case, _block(anatomy)
    if anatomy.answer.plan.cp <= 1 or not case.context.overlaps:
        return
    alone = float(anatomy.unhidden.layers[name].exchanges.cp.forward)
    core = next((op for op in anatomy.layers[name].operators if op.module == "core_attn"), None)
    if core is None:
        return
    inputs = {
        "communication": alone,
        "window": float(core.forward),
        "exposed_share": case.context_exposed(case.context),
    }
    yield Use(
        "cp_comm", f"{case.context.name} beside the attention of one layer, forward", exposed_seconds, inputs
    )


def _experts(anatomy: Anatomy) -> Iterator[Use]:
    case, plan = anatomy.case, anatomy.answer.plan
    ffn = case.model.blocks[_block(anatomy)].ffn
    if not isinstance(ffn, Experts) or plan.ep <= 1:
        return
    token = ACTIVATION_BYTES * float(anatomy.pricers[_block(anatomy)].local_tokens) * case.model.hidden
    what, nbytes = "one dispatch or combine of a layer's tokens", token * case.workload.imbalance
    beside = case.traits.experts.neighbours
    formula, message = case.dispatcher.sent(nbytes, ffn.picks, ffn.experts, plan.ep, beside)
    links = {"ranks": plan.ep, "stride": plan.etp, "tiers": case.tiers}
    yield Use("ep_comm", what, formula, {**message, **links})


def _messages(anatomy: Anatomy) -> Iterator[Use]:
    case, plan = anatomy.case, anatomy.answer.plan
    if plan.pp <= 1:
        return
    tokens = case.rank_tokens(plan)
    nbytes = message_bytes(case, plan, tokens)
    for place, count in anatomy.parts.ranks[anatomy.parts.slowest].messages.items():
        tier = case.tiers[place]
        what = f"one message between stages over {tier.name}; {count:.0f} for each micro-batch"
        if tier.shared:
            inputs = {"nbytes": nbytes, "tier": tier, "senders": case.job.gpus / plan.pp}
            yield Use("pp_comm", what, shared_seconds, inputs)
        else:
            yield Use("pp_comm", what, tier_seconds, {"nbytes": nbytes, "tier": tier})


def _bubble(anatomy: Anatomy) -> Iterator[Use]:
    case, plan = anatomy.case, anatomy.answer.plan
    if plan.pp <= 1 or anatomy.parts.is_played:
        return
    others = float(np.sum(anatomy.parts.passes.micro) - np.max(anatomy.parts.passes.micro)) / (plan.pp - 1)
    costs = {"forward": 0.0, "weight_gradient": 0.0}
    for piece, count in anatomy.parts.totals.items():
        for field in costs:
            costs[field] += float(count) * float(getattr(anatomy.parts.costs[piece], field))
    everything = float(np.sum(anatomy.parts.passes.micro))
    forward, weight = (others * costs[field] / everything for field in ("forward", "weight_gradient"))
    pipe = Pipe(plan.pp, plan.vpp, plan.num_microbatches, forward, others - forward - weight, weight)
    what = f"{case.schedule.name}, whose other stages take their mean time"
    form = case.schedule.bubble_seconds
    if isinstance(form, InRounds):
        per_round = form.per_round(pipe.pp, pipe.m)
        yield Use("bubble", what, form.formula, {"pipe": pipe, "per_round": per_round})
    elif formula_text(form).equation:
        yield Use("bubble", what, form, {"pipe": pipe})


def _data(anatomy: Anatomy) -> Iterator[Use]:
    case, plan = anatomy.case, anatomy.answer.plan
    if plan.dp * plan.cp <= 1:
        return
    held, stage = anatomy.parts.passes.weights, anatomy.parts.slowest
    group = groups(case, plan, held.on(stage))[0]
    ranks = group.shards if group.shards > 1 else group.replicas
    stride = group.stride if group.shards > 1 else group.stride * group.shards
    shared = {
        "ranks": float(ranks),
        "stride": float(stride),
        "tiers": case.tiers,
        "messages": float(group.messages),
    }
    nbytes = float(group.params) * (shard_bytes(case) if group.shards > 1 else case.reduce_bytes)
    times = "" if group.shards > 1 else ", of which an all-reduce has two"
    yield Use(
        "dp_comm", f"one pass over the gradients of a rank outside experts{times}", ring_seconds,
        {"nbytes": nbytes, **shared},
    )  # fmt: skip
    if case.sharding.shards_optimizer:
        nbytes = float(group.gathered)
        yield Use(
            "dp_comm", "one gather of the weights of a rank outside experts", ring_seconds,
            {"nbytes": nbytes, **shared},
        )  # fmt: skip


def _copies(anatomy: Anatomy) -> Iterator[Use]:
    case, plan = anatomy.case, anatomy.answer.plan
    copies = case.schedule.weight_copies
    if copies == 1.0:
        return
    group = groups(case, plan, anatomy.parts.passes.weights.on(anatomy.parts.slowest))[0]
    inputs = {
        "nbytes": float(exchanged_bytes(case, group)), "ranks": copies,
        "stride": float(group.apart), "tiers": case.tiers,
        "messages": float(group.messages),
    }  # fmt: skip
    what = "one of two passes over the gradients that ranks with copies of the same stages reduce"
    yield Use("dp_comm", what, ring_seconds, inputs)


def _optimizer(anatomy: Anatomy) -> Iterator[Use]:
    case = anatomy.case
    inputs = {
        "kept_bytes": case.optimizer_bytes,
        "gradient_bytes": case.gradient_bytes,
        "weight_bytes": case.weight_bytes,
        "reads_weight": case.reads_weight,
    }
    rate = show(case.kernels.stream_for("optimizer").bandwidth, "byte/s")
    what = f"{case.optimizer.name}, bytes moved for each weight of a rank, at {rate}"
    yield Use("optimizer", what, step_traffic, inputs)


def _figures(anatomy: Anatomy) -> Iterator[Use]:
    answer, case, name = anatomy.answer, anatomy.case, _block(anatomy)
    block = case.model.blocks[name]
    mixer, seq = block.attention, case.workload.seq_len
    width = mixer.heads * sum(mixer.core_widths) if mixer else 0
    window = mixer.reach if mixer else None
    inputs = {
        "tokens": float(case.workload.tokens_per_step),
        "weights": product_weights(block, case.model.hidden),
        "attention_width": float(width),
        "keys": min(seq, window or seq) / 2,
    }
    if block.recurrent is None and (window is None or window >= seq):
        yield Use("mfu", f"one {name} layer of {case.model.num_layers}, the whole batch", model_flops, inputs)
    spread = case.traits.allocator.memory_spread
    memory = {"total": answer.peak, "capacity": answer.capacity, "spread": spread}
    yield Use("memory", "the chance that the peak stage runs out", oom_probability, memory)


def formulas_document(uses: Sequence[Use]) -> Document:
    """Return formulas as JSON."""
    document: Document = plain({"schema": FORMULAS, "formulas": [_row(use) for use in uses]})
    return document


def _row(use: Use) -> Document:
    text = use.text
    return {
        "term": use.term,
        "what": use.what,
        "formula": f"{use.function.__module__}.{use.function.__name__}",
        "equation": text.equation,
        "inputs": {name: _value(value) for name, value in use.inputs.items()},
        "units": text.units,
        "result": use.result,
        "source": text.source,
    }


def _value(value: Any) -> Any:
    """Return a number as it is, and a curve or the links by their own numbers."""
    if isinstance(value, Tier):
        return {
            "name": value.name,
            "domain": value.domain,
            "bandwidth": value.bandwidth,
            "latency": value.latency,
        }
    if isinstance(value, Pipe):
        return asdict(value)
    if isinstance(value, tuple):
        return [_value(item) for item in value]
    if isinstance(value, GemmCurve):
        names = (
            "rate",
            "half_k",
            "half_mn",
            "wave_weight",
            "multiprocessors",
            "launch",
            "bandwidth",
            "operand_bytes",
        )
        return {name: getattr(value, name) for name in names}
    if isinstance(value, AttentionCurve):
        lengths = ("half_keys", "shared_half_keys", "half_queries")
        return {name: getattr(value, name) for name in ("rate", *lengths, "launch")}
    return value


def formulas_page(uses: Sequence[Use]) -> Page:
    """Return formulas for people: the equation, the numbers put in, the result and the source."""
    page: Page = []
    for use in uses:
        text = use.text
        lines = [f"{use.term}: {use.what}", f"  {text.summary}"]
        lines += [f"  {text.equation}"] if text.equation else []
        lines += [f"  with {name} {_told(name, value, text)}" for name, value in use.inputs.items()]
        lines += [
            f"  = {_unit(use.result, text.units.get('return', ''))}",
            f"  from {text.source or use.function.__module__}",
        ]
        page.append("\n".join(lines))
    return page


def _told(name: str, value: Any, text: FormulaText) -> str:
    value = (value,) if isinstance(value, Tier) else value
    if isinstance(value, tuple):
        return "; ".join(
            f"{tier.name} {show(tier.bandwidth, 'byte/s')}, {show(tier.latency, 's')}" for tier in value
        )
    shown = _value(value)
    if isinstance(shown, Mapping):
        units = CURVE_UNITS | text.units
        named = ((key, _unit(float(number), units.get(key, ""))) for key, number in shown.items())
        return ", ".join(f"{key.replace('_', ' ')} {number}" for key, number in named)
    return _unit(float(value), text.units.get(name, ""))


def _unit(value: float, unit: str) -> str:
    """Return a number in its unit; counts have none."""
    if unit in DIMENSIONS and unit != "-":
        return show(value, unit)
    whole = f"{value:,.0f}" if value == int(value) and abs(value) < LONGEST else f"{value:.4g}"
    return f"{whole}{'' if unit in ('', '-') else f' {unit}'}"
