"""Plans that do not fit with nearly equal stages: whether another split would fit, or what is missing."""

from __future__ import annotations

from planner.plan import Plan
from planner.runtimes.family import Job, Runtime
from planner.search.assign.decompose import check_excess
from planner.search.assign.plan_costs import PlanCosts, excess_columns, plan_costs
from planner.search.assign.problem import NoAssignment
from planner.search.assign.room import StageRoom
from planner.units import GIB


def missing_memory(plan: Plan, job: Job, runtime: Runtime, limit: float) -> NoAssignment | None:
    """Return what no split of a plan's layers over its stages can do without; None where one fits.

    Parameters
    ----------
    plan, job, runtime : Plan, Job, Runtime
        A scalar plan that `is_assignable`, with its recompute choice.
    limit : float
        Bytes that a rank may be predicted to use. [byte]
    """
    return _missing(plan_costs(plan, job, runtime, [plan.recompute], limit))


def _missing(costs: PlanCosts) -> NoAssignment | None:
    try:
        check_excess(excess_columns(costs), costs.problem.capacity)
    except NoAssignment as error:
        return error
    return None


def missing_record(missing: NoAssignment) -> dict[str, object]:
    """Return where an assignment fails, what there is, and the least that would do. [GiB]"""
    return {"stage": missing.stage, "has_gib": missing.capacity / GIB, "needs_gib": missing.needed / GIB}


def fits_somehow(costs: PlanCosts) -> bool:
    """Whether some split of a plan's layers over its stages fits."""
    fits = StageRoom.of(costs).fits
    return _missing(costs) is None if fits is None else fits
