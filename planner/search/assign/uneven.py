"""Plans that do not fit with nearly equal stages: whether another split would fit, or what is missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from planner.plan import Plan
from planner.runtimes._family import Job, Runtime
from planner.search.assign.decompose import check_excess
from planner.search.assign.plan_costs import PlanCosts, excess_columns, plan_costs
from planner.search.assign.problem import NoAssignment
from planner.search.assign.room import StageRoom
from planner.search.candidates import Candidate
from planner.units import GIB

MOST_UNEVEN = 512
"""Candidates whose split is looked for, since nearly equal stages do not fit."""


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


@dataclass(frozen=True)
class Uneven:
    """Plans that fit with some split, though not with nearly equal stages, and what became of the others.

    Parameters
    ----------
    fitting : dict
        Those that fit with some split, in the order of their bounds, with what their layers cost.
    dropped : int
        Candidates that fit with no split.
    closest : tuple of (Plan, NoAssignment), optional
        Of these the one that misses least.
    open_bound : float
        Bound of the first candidate that was not looked at; infinite where all were. [s]
    """

    fitting: dict[Plan, PlanCosts] = field(default_factory=dict)
    dropped: int = 0
    closest: tuple[Plan, NoAssignment] | None = None
    open_bound: float = float("inf")


def uneven_plans(
    tight: Sequence[Candidate], job: Job, runtime: Runtime, limit: float, best: float, keep: int
) -> Uneven:
    """Look for splits of candidates whose bound is below ``best``.

    Parameters
    ----------
    tight : sequence of Candidate
        Candidates that fit in the mean over their stages, by their bounds; ``keep`` of them at most.
    job, runtime : Job, Runtime
        What is planned and who runs it.
    limit : float
        Bytes that a rank may be predicted to use. [byte]
    best : float
        Seconds that are to be beaten. [s]
    keep : int
        Candidates that would have been kept, had there been as many.
    """
    hopeful = [candidate for candidate in tight if candidate.bound < best]
    looked = hopeful[:MOST_UNEVEN]
    full = len(tight) >= keep and len(hopeful) == len(tight)
    left = hopeful[MOST_UNEVEN:][:1] or (hopeful[-1:] if full else [])
    fitting: dict[Plan, PlanCosts] = {}
    dropped = 0
    closest: tuple[Plan, NoAssignment] | None = None
    for candidate in looked:
        plan = candidate.plan
        costs = plan_costs(plan, job, runtime, [plan.recompute], limit)
        room = StageRoom.of(costs)
        missing = _missing(costs) if room.fits is None else None
        if room.fits or (room.fits is None and missing is None):
            fitting[plan] = costs
            continue
        dropped += 1
        if closest is None or not room.misses_as_much(closest[1].needed - closest[1].capacity):
            missing = missing or _missing(costs)
            if missing is not None and (closest is None or missing.needed < closest[1].needed):
                closest = (plan, missing)
    return Uneven(fitting, dropped, closest, left[0].bound if left else float("inf"))
