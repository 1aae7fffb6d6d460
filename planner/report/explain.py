"""An estimate explained: where time and memory go, what binds, what a change would do, what it rests on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Final

import numpy as np

from planner.cost.case import Case, case_of
from planner.cost.estimate import Estimate, StageBytes
from planner.cost.job_tiers import job_tiers
from planner.cost.layer.operators import Operator
from planner.cost.traffic.rank_order import data_stride, stage_order
from planner.dataclasses import dataclass
from planner.inputs.fitted import fitted
from planner.inputs.hardware import Accelerator, Pool
from planner.inputs.kernels import GENERIC, RELATIVES
from planner.inputs.record import Sourced
from planner.inputs.shipped import data_folder
from planner.inputs.workload import Workload
from planner.inputs.yaml_file import read_yaml
from planner.plan import Plan
from planner.report.as_json import Document, estimate_document, plain
from planner.report.beside_step import beside_rows
from planner.report.communicators import communicators_record
from planner.report.explain_neighbours import Neighbour, Price, neighbours
from planner.report.limits import TIGHT, WORTH_TELLING
from planner.report.longest import longest_sequence
from planner.report.moments import moments_record
from planner.report.waterfall import Anatomy, WaterfallPart, waterfall
from planner.runtimes.traits import TRAITS
from planner.shown import Shown
from planner.units import GIB, TFLOP

EXPLAIN: Final = "planner/explain/1"


@dataclass(frozen=True)
class FactGroup:
    """Ranks that talk to each other for one axis, and the slowest links between them."""

    axis: str
    """The degree; weights are reduced over dp · cp."""
    ranks: int
    stride: int
    """Members, and the distance between neighbours in the order of ranks. [-]"""
    tier: str
    """The outermost links that it uses."""
    bandwidth: float
    """What collectives reach on them, one rank and direction. [byte/s]"""
    domain: float
    """Accelerators that these links join; infinite for a network. [-]"""


@dataclass(frozen=True)
class ExplainedFact:
    """A number that the estimate rests on."""

    name: str
    value: str
    standing: str
    source: str
    """What it is, as the profile has it, where it stands, and where it is from."""


@dataclass(frozen=True, repr=False)
class Explanation(Shown):
    """A priced plan with what explains it.

    Parameters
    ----------
    answer : Estimate
        The plan.
    neighbours : tuple of Neighbour
        What one change of each axis would do.
    """

    answer: Estimate
    neighbours: tuple[Neighbour, ...]

    @cached_property
    def anatomy(self) -> Anatomy:
        """The plan taken apart."""
        return Anatomy(self.answer)

    @cached_property
    def parts(self) -> tuple[WaterfallPart, ...]:
        """Where the step goes; the seconds add up."""
        return waterfall(self.anatomy)

    @cached_property
    def fullest(self) -> StageBytes:
        """The stage with the most memory in use."""
        return max(self.answer.stages, key=lambda stage: stage.total)


def explain(answer: Estimate, price: Price) -> Explanation:
    """Return an estimate with its explanation; ``price`` prices its neighbours."""
    return Explanation(answer, neighbours(answer, price))


def groups(answer: Estimate) -> tuple[FactGroup, ...]:
    """Return who talks to whom, innermost first; data parallelism is over dp · cp ranks, tp apart.

    A group is told with the tier that joins all of its members, whichever of its kind lies worst.
    """
    plan, tiers = answer.plan, job_tiers(answer.job.hardware.pool, answer.job.gpus)
    members = {
        "tp": (plan.tp, 1.0),
        "cp": (plan.cp, plan.tp),
        "ep": (plan.ep, plan.etp),
        "dp": (plan.dp * plan.cp, data_stride(plan, answer.runtime.traits)),
        "pp": (plan.pp, stage_order(case_of(plan, answer.job, answer.runtime), plan)[0]),
    }
    found = []
    for axis, (ranks, stride) in members.items():
        if ranks <= 1:
            continue
        tier = next((tier for tier in tiers if tier.spread(stride, ranks).domains == 1), tiers[-1])
        found.append(FactGroup(axis, int(ranks), int(stride), tier.name, tier.bandwidth, tier.domain))
    return tuple(found)


def binding(told: Explanation) -> Iterator[str]:
    """Yield what binds a plan, in words, the dearest first."""
    answer, parts = told.answer, {part.name: part.seconds for part in told.parts}
    losses = {name: seconds for name, seconds in parts.items() if name != "useful"}
    for name, seconds in sorted(losses.items(), key=lambda item: -item[1]):
        if seconds >= WORTH_TELLING * answer.step:
            meaning = next(part.meaning for part in told.parts if part.name == name)
            yield f"{meaning}: {seconds / answer.step:.0%} of the step{_where(name, answer)}"
    used = answer.peak / answer.capacity
    if used >= TIGHT:
        yield f"memory: stage {told.fullest.stage} uses {used:.0%} of the device at its {told.fullest.moment}"


def _where(name: str, answer: Estimate) -> str:
    axis = name.removesuffix("_comm")
    group = next((group for group in groups(answer) if group.axis == axis and name.endswith("_comm")), None)
    if group is None:
        return ""
    inside = f" of {group.domain:.0f}" if np.isfinite(group.domain) else ""
    return f", {group.ranks} ranks over {group.tier}{inside} at {group.bandwidth / 1e9:.0f} GB/s"


def arithmetic(answer: Estimate) -> tuple[str, ...]:
    """Return how the plan's numbers follow from one another."""
    plan, work = answer.plan, answer.job.workload
    split = plan.stage_layers or ()
    lines = [
        f"dp {plan.dp:.0f} = {answer.job.gpus} / ({_times(plan, ('tp', 'pp', 'cp'))})",
        f"micro-batches {plan.num_microbatches:.0f} = {work.global_batch} / "
        f"(micro_batch {plan.micro_batch:.0f} × dp {plan.dp:.0f})",
        f"tokens of a step {work.tokens_per_step:,} = {work.global_batch:,} × {work.seq_len:,}",
    ]
    if plan.pp > 1:
        lines.append(f"layers {sum(split)} = {' + '.join(map(str, split))}" if len(split) <= 16 else
                     f"layers {sum(split)} over {len(split)} virtual stages")  # fmt: skip
    if plan.ep * plan.etp > 1:
        lines.append(
            f"expert data parallel {plan.expert_dp:.0f} = ({_times(plan, ('tp', 'cp', 'dp'))}) / "
            f"({_times(plan, ('ep', 'etp'))})"
        )
    if plan.zero:
        lines.append(
            f"zero {plan.zero} over {plan.zero_shards:.0f} of dp {plan.dp:.0f} × cp {plan.cp:.0f} ranks"
        )
    rate = answer.peak_rate / TFLOP
    flops = answer.model_flops / answer.job.gpus / TFLOP
    lines.append(
        f"MFU {answer.mfu:.1%} = {flops:,.1f} TFLOP of the model / {answer.step:.4g} s / {rate:,.0f} TFLOP/s"
    )
    return tuple(lines)


def _times(plan: Plan, names: tuple[str, ...]) -> str:
    return " × ".join(f"{name} {getattr(plan, name):.0f}" for name in names)


def operator_rows(told: Explanation) -> tuple[str, tuple[Document, ...]]:
    """Return the commonest layer of the stage that is told, and the figures of its operators."""
    anatomy = told.anatomy
    names = {
        piece[0]: count
        for piece, count in anatomy.counts().items()
        if piece[0] in told.answer.job.model.blocks
    }
    name = max(names, key=lambda block: names[block])
    operators, shapes = anatomy.layers[name].operators, anatomy.pricers[name].products
    whole = sum(float(op.forward + op.backward) for op in operators)
    return name, tuple(_operator_row(op, shapes.get(op.name), whole, anatomy) for op in operators)


def _operator_row(op: Operator, shape: Any, whole: float, anatomy: Anatomy) -> Document:
    forward, backward, flops = float(op.forward), float(op.backward), float(op.flops)
    return {
        "operator": op.name,
        "module": op.module,
        "rows": shape[0] if shape else None,
        "inputs": shape[1] if shape else None,
        "outputs": shape[2] if shape else None,
        "forward_s": forward,
        "backward_s": backward,
        "share": (forward + backward) / whole,
        "forward_tflops": flops / forward / TFLOP if flops else None,
        "forward_peak_share": flops / forward / anatomy.case.peak_rate if flops else None,
        "saved_bytes": float(op.saved + op.kept),
        "extrapolated": bool(float(op.extrapolated)),
    }


def facts(answer: Estimate) -> tuple[ExplainedFact, ...]:
    """Return the numbers of the profile that the price rests on, with their standing and source."""
    pool = answer.job.hardware.pool
    case = Anatomy(answer).case
    found = [
        ExplainedFact(name, value.text, value.standing, value.source)
        for name, value in _sourced(pool, case.precision.peak)
    ]
    found.append(_curves(pool.accelerator))
    runtime = answer.runtime.name
    owners = (("runtime", runtime), ("era", runtime), ("accelerator", pool.accelerator.name))
    for scope, owner in owners:
        for constant in fitted(scope, owner):
            if not _matters(constant.name, case):
                continue
            text = f"{constant.value:.4g} (± {constant.standard_error:.0%})"
            source = f"{constant.rows} measured runs: {constant.source}"
            found.append(ExplainedFact(f"{owner} {constant.name}", text, "fitted", source))
    return tuple(found)


def _matters(constant: str, case: Case) -> bool:
    """Whether a fitted constant of a runtime may count for a plan: not of parts that its job has not."""
    subject = TRAITS[constant].subject if constant in TRAITS else ""
    return {"experts": case.has_experts, "adapters": case.method.adapts}.get(subject, True)


def _curves(device: Accelerator) -> ExplainedFact:
    """Return whose kernel curves stand for the device: its own, measured ones, or those of a relative."""
    folder = data_folder("hardware_profiles") / "curves"
    own = not device.curves and (folder / f"{device.name}.yaml").is_file()
    name = device.name if own else device.curves or RELATIVES.get(device.arch, GENERIC)
    shipped = folder / f"{name}.yaml"
    if not shipped.is_file():
        return ExplainedFact("kernel curves", name, "measured", name)
    source = str(read_yaml(shipped).get("source", ""))
    return ExplainedFact(
        "kernel curves", name if own else f"those of {name}", "fitted" if own else "estimated", source
    )


def _sourced(pool: Pool, precision: str) -> Iterator[tuple[str, Sourced]]:
    device, node = pool.accelerator, pool.node
    values: dict[str, Sourced | None] = {
        f"dense peak {precision}": device.peak[precision],
        "memory visible": device.memory_visible,
        "memory of its driver": device.memory_driver,
        "memory bandwidth": device.memory_bandwidth,
        "share held in training": device.training_share,
        f"{node.scaleup.link} rate": node.scaleup.bandwidth,
        f"{node.scaleup.link} efficiency": node.scaleup.efficiency,
        f"{node.scaleup.link} latency": node.scaleup.latency,
        "network port": node.nic_rate,
        "network efficiency": pool.network.efficiency if pool.network else None,
        "network latency": pool.network.latency if pool.network else None,
        "rated power": device.power,
        "price": pool.price_per_hour,
    }
    yield from ((name, value) for name, value in values.items() if value is not None)


def as_defaults(answer: Estimate) -> Mapping[str, Any]:
    """Return the values of a plan file that are the planner's defaults, whoever chose them."""
    pairs: tuple[tuple[Any, Any, tuple[str, ...]], ...] = (
        (Workload(), answer.job.workload, ("precision", "optimizer", "method", "imbalance")),
        (Plan(), answer.plan, ("recompute", "cp_method", "schedule", "offload", "sequence_parallel")),
    )
    return {
        name: getattr(default, name)
        for default, chosen, names in pairs
        for name in names
        if getattr(default, name) == getattr(chosen, name)
    }


def explain_document(told: Explanation) -> Document:
    """Return an explanation as JSON."""
    answer, anatomy = told.answer, told.anatomy
    layer, operators = operator_rows(told)
    document: Document = plain(
        {
            "schema": EXPLAIN,
            "estimate": estimate_document(answer, as_defaults(answer)),
            "stage": anatomy.parts.slowest,
            "waterfall": [
                {"part": part.name, "meaning": part.meaning, "time_s": part.seconds,
                 "share": part.seconds / answer.step, "hidden_s": part.hidden}
                for part in told.parts
            ],
            "binds": list(binding(told)),
            "moments": moments_record(answer),
            "arithmetic": list(arithmetic(answer)),
            "beside_step": beside_rows(anatomy),
            "communicators": communicators_record(answer),
            "longest_seq_len": longest_sequence(answer),
            "groups": [
                {"axis": group.axis, "ranks": group.ranks, "stride": group.stride, "tier": group.tier,
                 "domain": group.domain, "bandwidth_bytes_per_s": group.bandwidth}
                for group in groups(answer)
            ],
            "neighbours": [neighbour_row(neighbour, answer) for neighbour in told.neighbours],
            "operators": {"layer": layer, "rows": list(operators)},
            "facts": [vars(fact) for fact in facts(answer)],
        }
    )  # fmt: skip
    return document


def neighbour_row(neighbour: Neighbour, answer: Estimate) -> Document:
    """Return what a change would do, beside the plan as it is."""
    other = neighbour.answer
    priced = other if isinstance(other, Estimate) else None
    return {
        "axis": neighbour.axis,
        "from": neighbour.before,
        "to": neighbour.after,
        "legal": not other.violations,
        "feasible": other.feasible,
        "refused": neighbour.refused,
        "step_time_s": priced.step if priced else None,
        "change": priced.step / answer.step - 1 if priced else None,
        "peak_gib": priced.peak / GIB if priced else None,
        "oom_probability": priced.oom_probability if priced else None,
        "peak_change_gib": (priced.peak - answer.peak) / GIB if priced else None,
    }
