"""What one change of each axis of a plan would do: the neighbours, priced."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from planner.cost.estimate import Estimate
from planner.cost.price import Unpriced
from planner.dataclasses import dataclass, replace
from planner.plan import MESH, Plan
from planner.runtimes.family import Runtime
from planner.techniques.schedules import PLAIN, SCHEDULES, plain_schedule

Price = Callable[[Plan], Estimate | Unpriced]
"""Prices a plan of the same job, or tells which rules it breaks."""

CHANGED: Final = (*MESH, "micro_batch")
"""Degrees that are halved and doubled; dp follows."""

RECOMPUTES: Final = ("none", "selective", "full")


@dataclass(frozen=True)
class Neighbour:
    """A plan that differs in one axis."""

    axis: str
    before: str
    after: str
    """What is changed, from what to what."""
    answer: Estimate | Unpriced
    """Its price, or the rules that it breaks."""

    @property
    def refused(self) -> str:
        """The first rule that it breaks, and what it found; empty where it is legal."""
        broken = self.answer.violations
        return f"{broken[0].rule}: {broken[0].found}" if broken else ""


def neighbours(answer: Estimate, price: Price) -> tuple[Neighbour, ...]:
    """Price every plan that is one change away; what cannot divide the accelerators is left out."""
    found = []
    for axis, after in _changes(answer):
        before = getattr(answer.plan, axis)
        plan = changed(answer, axis, after)
        if plan is not None:
            found.append(Neighbour(axis, _word(before), _word(after), price(plan)))
    return tuple(found)


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float | int) else str(value)


def _changes(answer: Estimate) -> Iterator[tuple[str, Any]]:
    plan, runtime = answer.plan, answer.runtime
    experts = bool(answer.job.model.expert_kinds)
    silent = set() if experts else {"ep", "etp"}
    silent |= set() if plan.pp > 1 else {"vpp"}
    for axis in CHANGED:
        if axis not in silent:
            degree = float(getattr(plan, axis))
            yield from ((axis, value) for value in (degree / 2, degree * 2) if value == int(value) >= 1)
    yield from (("recompute", name) for name in RECOMPUTES if name != plan.recompute)
    yield from (("zero", stage) for stage in runtime.zero_stages if stage != plan.zero)
    if plan.tp > 1:
        yield "sequence_parallel", not plan.sequence_parallel
    if plan.cp > 1:
        yield from (("cp_method", name) for name in runtime.cp_methods if name != plan.cp_method)
    if plan.pp > 1:
        yield from (("schedule", name) for name in _other_schedules(plan, runtime))
    yield from (("offload", name) for name in runtime.offloads if name != plan.offload)


def _other_schedules(plan: Plan, runtime: Runtime) -> Iterator[str]:
    """Yield the schedules of a runtime that run with the same stages, chunks and micro-batches."""
    degrees = plan.pipeline
    for name in runtime.schedules:
        if name != plan.schedule and not SCHEDULES[name].supports(*degrees):
            yield name


def changed(answer: Estimate, axis: str, value: Any) -> Plan | None:
    """Return the plan with one axis changed and what follows; None where dp would be no whole number."""
    old, job = answer.plan, answer.job
    plan = replace(old, **{axis: value})
    dp = job.gpus / (plan.tp * plan.pp * plan.cp)
    if dp != int(dp):
        return None
    if (plan.pp, plan.vpp) != (old.pp, old.vpp):
        plan = replace(plan, stage_layers=None, **_pipeline(plan, answer.runtime))
    whole = old.zero == 0 or old.zero_shards == old.dp * old.cp
    shards = dp * plan.cp if whole else min(old.zero_shards, dp * plan.cp)
    passes = float(job.workload.global_batch // (plan.micro_batch * dp))
    return replace(
        plan,
        dp=dp,
        num_microbatches=passes,
        zero_shards=shards if plan.zero else 1.0,
        sequence_parallel=plan.sequence_parallel and bool(plan.tp > 1),
    )


def _pipeline(plan: Plan, runtime: Runtime) -> dict[str, Any]:
    """Return chunks and schedule for the stages: one chunk where there is one stage."""
    vpp = plan.vpp if plan.pp > 1 else 1.0
    wanted = plain_schedule(vpp)
    keep = plan.schedule not in PLAIN and plan.pp > 1
    return {"vpp": vpp, "schedule": plan.schedule if keep or wanted not in runtime.schedules else wanted}
