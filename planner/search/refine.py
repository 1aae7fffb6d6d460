"""Refinement: give promising candidates the best split of their layers, in the order of their bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from planner.cost.case import case_of
from planner.cost.estimate import Estimate, estimate
from planner.cost.layout import piece_costs, priced_layers
from planner.cost.stages import ENDS, weighted_split
from planner.plan import Plan
from planner.search.assign.improve import Improvement, Improver, improve
from planner.search.scan import Candidate, Scan, ScanReport

MOST_REFINED = 256
"""Candidates refined at most: about a millisecond each."""


@dataclass(frozen=True)
class Refinement:
    """The best plans of one job, and what is proved of the first.

    Parameters
    ----------
    plans : tuple of Estimate
        Best first.
    refined : int
        Candidates refined.
    bound : float
        Seconds that no plan of the space can beat by the closed forms. [s]
    proved : bool
        Whether the best plan is proved best.
    improvement : Improvement, optional
        What assignment did for the best plan, where it ran.
    any_split : bool
        Whether the proof is over plans that are safe in memory with any split of their layers, not only with
        the default one.
    floor : float
        Seconds that no refined plan can beat, however it is played. [s]
    """

    plans: tuple[Estimate, ...]
    refined: int
    bound: float
    proved: bool
    improvement: Improvement | None = None
    any_split: bool = False
    floor: float = 0.0


def balanced(plan: Plan, scan: Scan) -> Plan | None:
    """Return the plan split to make the slowest stage fastest; None where nothing is to split."""
    if plan.pp == 1 or plan.vpp > 1 or scan.split is not None:
        return None
    case = case_of(plan, scan.job, scan.runtime)
    model = case.model
    pieces = [(name, case.recompute.layers > 0) for name in model.blocks]
    ends = [("embedding", False), ("head", False), *([("prediction", False)] if model.prediction else [])]
    costs = piece_costs(case, plan, priced_layers(case, plan, [*pieces, *ends]), [*pieces, *ends])
    seconds = {name: float(cost.seconds) for (name, _), cost in costs.items()}
    last = seconds["head"]
    if model.prediction is not None:
        extra = seconds["prediction"] + seconds[model.prediction.block] + seconds["head"]
        last += model.prediction.layers * extra
    weights = tuple(seconds[name] for name in model.layers if name not in ENDS)
    split = weighted_split(weights, int(plan.pp), last, first=seconds["embedding"])
    return replace(plan, stage_layers=split)


def best_of(candidate: Candidate, scan: Scan, memory_limit: float | None) -> Estimate:
    """Return the better of a candidate's default split and its balanced one."""
    plan = replace(candidate.plan, stage_layers=scan.split)
    default = estimate(plan, scan.job, scan.runtime, memory_limit)
    other = balanced(candidate.plan, scan)
    if other is None or other.stage_layers == default.plan.stage_layers:
        return default
    uneven = estimate(other, scan.job, scan.runtime, memory_limit)
    safe = uneven.feasible and uneven.peak <= scan.limit
    return uneven if safe and uneven.step < default.step else default


def refine(
    scan: Scan,
    report: ScanReport,
    objective: str,
    top: int,
    memory_limit: float | None = None,
    uniform: bool = True,
) -> Refinement:
    """Refine candidates until the next bound is no better than the best plan.

    Parameters
    ----------
    scan, report : Scan, ScanReport
        The scan and what it found.
    objective : str
        What the ranking minimises.
    top : int
        Plans to return.
    memory_limit : float, optional
        Device memory that may be used. [byte]
    uniform : bool
        Whether all stages keep one recompute choice for all of their layers, and nearly equal layers; if not,
        the best plans are assigned by the solver too.

    Returns
    -------
    Refinement
        Plans, best first.
    """
    done: dict[Plan, Estimate] = {}
    for candidate in report.best[:top]:
        done[candidate.plan] = best_of(candidate, scan, memory_limit)
    if objective == "memory" or not (done or report.tight):
        plans = sorted(done.values(), key=lambda plan: plan.peak)
        least = report.best[0].bound if report.best else 0.0
        return Refinement(tuple(plans), len(done), least, bool(done), floor=floor_of(done))
    best = min((plan.step for plan in done.values()), default=float("inf"))
    open_bound = float("inf")
    for candidate in report.promising:
        if candidate.bound >= best or len(done) >= MOST_REFINED:
            open_bound = candidate.bound
            break
        if candidate.plan not in done:
            done[candidate.plan] = best_of(candidate, scan, memory_limit)
            best = min(best, done[candidate.plan].step)
    if open_bound == float("inf") and len(report.promising) >= scan.keep:
        open_bound = report.promising[-1].bound
    improvement = None
    if not uniform:
        improver = Improver(scan, memory_limit)
        done, improvement = improve(improver, done, report.squeezed, top, report.tight)
    if not done:
        return Refinement((), 0, 0.0, False)
    plans = sorted(done.values(), key=lambda plan: plan.step)[:top]
    best = min(best, plans[0].step)
    uneven = improvement.uneven if improvement is not None else None
    return Refinement(
        tuple(plans),
        len(done),
        min(open_bound, best),
        open_bound >= best,
        improvement,
        any_split=uneven is not None and uneven.open_bound >= best and scan.split is None,
        floor=floor_of(done),
    )


def floor_of(done: Mapping[Plan, Estimate]) -> float:
    """Seconds that no refined plan can beat, however it is played; 0 where there is none. [s]"""
    return min((plan.floor for plan in done.values()), default=0.0)
