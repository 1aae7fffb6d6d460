"""What one search has found out, for the next one of the same job: a plan is priced in full once for all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from planner.cost.estimate import Estimate, estimate
from planner.cost.step.parts import PlanParts
from planner.dataclasses import dataclass, field
from planner.inputs.hardware import Pool
from planner.plan import Plan
from planner.runtimes.family import Job, Runtime

MOST_JOBS: Final = 32
"""Jobs that are remembered: the last ones."""

MOST_PLANS: Final = 4096
"""Plans of one job whose prices are remembered; then all of them are forgotten."""

Asked = tuple[Plan, int, float]
"""A plan, the runtime by its identity, and the memory that may be used. [byte]"""


@dataclass
class Known:
    """A job for one runtime, and its plans that were priced."""

    job: Job
    runtime: Runtime
    """The job, and the runtime as it is asked for."""
    plans: dict[Asked, tuple[Runtime, Estimate]] = field(default_factory=dict)
    peaks: dict[tuple[Plan, int], tuple[Runtime, float]] = field(default_factory=dict)
    """Prices by what was asked, and bytes of the peak stage, each with the runtime, which lives as long."""


KNOWN: Final[dict[int, Known]] = {}
"""By the identity of the job, the last one last."""


def as_known(job: Job, runtime: Runtime) -> tuple[Job, Runtime]:
    """Return a job and who runs it, as an earlier search knew them where it had the same.

    Jobs of different runtimes stay different ones.
    """
    found = next((one for one in reversed(KNOWN.values()) if _same(one, job, runtime)), None)
    if found is None:
        if len(KNOWN) >= MOST_JOBS:
            del KNOWN[next(iter(KNOWN))]
        found = KNOWN[id(job)] = Known(job, runtime)
    return found.job, found.runtime


def priced(
    plan: Plan, job: Job, runtime: Runtime, memory_limit: float | None = None, parts: PlanParts | None = None
) -> Estimate:
    """Price a plan in full as `estimate` does, once for all searches of its job."""
    if (known := KNOWN.get(id(job))) is None:
        return estimate(plan, job, runtime, memory_limit, parts)
    asked = plan, id(runtime), memory_limit or float("inf")
    if (found := known.plans.get(asked)) is None:
        if len(known.plans) >= MOST_PLANS:
            known.plans.clear()
        found = known.plans[asked] = runtime, estimate(plan, job, runtime, memory_limit, parts)
    return found[1]


def peak_of(plan: Plan, job: Job, runtime: Runtime, parts: Callable[[Plan], PlanParts]) -> float:
    """Return what a plan needs on its peak stage, taken apart once for all searches of its job. [byte]"""
    if (known := KNOWN.get(id(job))) is None:
        return parts(plan).peak
    if (found := known.peaks.get((plan, id(runtime)))) is None:
        if len(known.peaks) >= MOST_PLANS:
            known.peaks.clear()
        found = known.peaks[plan, id(runtime)] = runtime, parts(plan).peak
    return found[1]


def _same(one: Known, job: Job, runtime: Runtime) -> bool:
    """Whether a job is known for a runtime, kernels and links too: they may be set beside a pool's fields."""
    pools = zip(one.job.hardware.pools, job.hardware.pools, strict=False)
    return one.job == job and one.runtime == runtime and all(_alike(*pair) for pair in pools)


def _alike(one: Pool, other: Pool) -> bool:
    return one.accelerator.kernels == other.accelerator.kernels and one.tiers == other.tiers
