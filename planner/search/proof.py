"""What a search has proved of its best plan: the gap, over which space, and in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from planner.cost.estimate import Estimate
from planner.search.assign.improve import solver_record
from planner.search.guard import Guard
from planner.search.refine import Refinement
from planner.search.request import SearchRequest, objective_bound, objective_value
from planner.search.scan import Scan
from planner.units import rounded

BETTER: Final = {
    "time": "faster",
    "cost": "cheaper",
    "memory": "smaller in memory",
    "energy": "lower in energy",
}
"""What a plan is that is better by an objective."""


def proof_clause(objective: str, gap: float) -> str:
    """Say how good the best plan is proved to be, by an objective or any, in one clause."""
    most = f"more than {rounded(gap)} " if gap else ""
    return f"no plan in this space that fits is {most}{BETTER.get(objective, 'better')}"


def space_of(scans: Sequence[Scan], within: float, chosen: bool) -> str:
    """Say over which space a proof holds."""
    other = any(scan.uneven and scan.split is None for scan in scans)
    split = " or, where its layers can be assigned, another one" if other else ""
    timely = f" and takes at most {within:.4g} s" if within < float("inf") else ""
    tried = "splits and settings" if chosen else "splits"
    return (
        f"every legal plan of the grid that is safe in memory with its default split{split}{timely}; for "
        f"refined plans, the {tried} that were tried"
    )


def optimality(
    ranked: list[Estimate],
    fastest: Estimate | None,
    refined: list[Refinement],
    request: SearchRequest,
    scans: Sequence[Scan],
    guard: Guard,
    within: float,
) -> dict[str, object]:
    """Say how good the first plan is proved to be, and over which space.

    The first may be a more careful one than the ``fastest`` of its choice, with which it ties.

    The gap is of the objective; the bounds are the seconds of the best plan less that share, so that of
    several counts or clusters none is compared by its seconds alone.
    """
    over = space_of(scans, within, request.settings is not None)
    if not ranked or fastest is None:
        none = dict.fromkeys(("bound_s", "gap", "played_bound_s"))
        return {"method": "scan", "proved": False, "proof": None, **none, "over": over, "refined": 0}
    seconds = guard.seconds(ranked[0])
    known = objective_value(request.objective, ranked[0], seconds) < float("inf")
    asked = request.objective if known else "time"
    best = objective_value(asked, ranked[0], seconds)
    least = [
        objective_bound(asked, scan.job, one.open_bound) if one.open_bound < float("inf") else float("inf")
        for scan, one in zip(scans, refined, strict=True)
    ]
    if asked == "memory":
        least = [one.open_bound for one in refined]
    known_best = objective_value(asked, fastest, guard.seconds(fastest))
    gap = max(0.0, 1.0 - min([*least, known_best]) / best)
    lead = next((one.improvement for one in refined if ranked[0] in one.plans and one.improvement), None)
    return {
        "method": "scan, then candidates refined in the order of their bounds",
        "proved": gap == 0.0,
        "proof": proof_clause(asked, gap),
        "bound_s": seconds * (1.0 - gap),
        "gap": gap,
        "within_s": within if within < float("inf") else None,
        "over": over,
        "played_bound_s": min(one.floor for one in refined if one.plans),
        "refined": sum(refinement.refined for refinement in refined),
        "solver": solver_record(lead, ranked[0].error_band) if lead is not None else None,
    }
