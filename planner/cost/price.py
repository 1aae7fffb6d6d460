"""A plan's price, or the rules that it breaks where it has none."""

from __future__ import annotations

from planner.cost.case import case_of
from planner.cost.estimate import Estimate, estimate
from planner.cost.legal import all_rules, degree_rules
from planner.dataclasses import dataclass, field
from planner.errors import UnsupportedPlan
from planner.plan import Plan
from planner.rules import Violation, violations
from planner.runtimes.family import Job, Runtime


@dataclass(frozen=True)
class Unpriced:
    """A plan without a price: its degrees do not cut the model, the batch or the cluster into whole parts."""

    job: Job
    runtime: Runtime
    plan: Plan
    violations: tuple[Violation, ...]
    capacity: float
    feasible: bool = field(default=False, init=False)

    def error(self, label: object = "") -> UnsupportedPlan:
        """Return the error that says why, a line for each rule; ``label`` names the plan."""
        head = f"{label}: " if label else ""
        reasons = (f"{head}{fault.rule}: {fault.found}; needs {fault.expected}" for fault in self.violations)
        return UnsupportedPlan("\n".join(reasons))


def price(plan: Plan, job: Job, runtime: Runtime, memory_limit: float | None = None) -> Estimate | Unpriced:
    """Return the estimate of a plan, or the rules that it breaks where it has no price."""
    if not violations(degree_rules(plan, job, runtime)):
        return estimate(plan, job, runtime, memory_limit)
    broken = {item.rule: item for item in violations(all_rules(plan, case_of(plan, job, runtime)))}
    usable = job.hardware.pool.accelerator.memory_usable
    return Unpriced(job, runtime, plan, tuple(broken.values()), min(usable, memory_limit or usable))
