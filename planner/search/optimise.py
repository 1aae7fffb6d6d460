"""The search: space, scan, refinement in the order of bounds, baselines, and what would fit."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from planner.cost.estimate import Estimate
from planner.runtimes._family import Job, Runtime
from planner.search.assign.improve import solver_record
from planner.search.baselines import baselines
from planner.search.idle import Fewer, does_as_well, on_fewer
from planner.search.nearest import nearest_that_fits
from planner.search.refine import Refinement, refine
from planner.search.request import Request, objective_bound, objective_column, objective_value, scan_of
from planner.search.scan import Scan, ScanReport

Progress = Callable[[float, str], None]
"""Function of (share done, what is being done)."""


@dataclass(frozen=True)
class SearchResult:
    """Ranked plans and an account of the search.

    Parameters
    ----------
    plans : tuple of Estimate
        The best that are safe, best first.
    baselines : tuple of (str, Estimate)
        What one would do without a search.
    enumerated, valid, fits, priced, close : int
        Cells of the grid, legal plans, those that fit, those priced in full, and those that fit but were left
        out because they may run out of memory.
    removed : mapping
        Cells by the rule that removed them.
    nearest : mapping, optional
        What would fit, where nothing does.
    elapsed, scan : float
        Time of the search, and of pricing. [s]
    optimality : mapping
        Method, whether the best is proved best, bound, gap, and over which space.
    fewer : Fewer, optional
        A smaller number of accelerators on which a step takes no longer than the best plan's.
    """

    plans: tuple[Estimate, ...]
    baselines: tuple[tuple[str, Estimate], ...]
    enumerated: int
    valid: int
    fits: int
    priced: int
    close: int
    removed: Mapping[str, int]
    nearest: Mapping[str, object] | None
    elapsed: float
    scan: float
    optimality: Mapping[str, object]
    fewer: Fewer | None = None


def search(request: Request, progress: Progress | None = None) -> SearchResult:
    """Rank the plans of a request; where no plan can use as many accelerators, those on fewer.

    Parameters
    ----------
    request : Request
        What is asked.
    progress : callable, optional
        Told the share done and the step at hand.

    Returns
    -------
    SearchResult
        Plans, or, where nothing fits, what would.

    Raises
    ------
    InputError
        If a technique's name is unknown.
    """
    started = time.perf_counter()
    result = search_counts(request, progress)
    if not result.valid and (smaller := on_fewer(request)) is not None:
        other = search_counts(smaller, progress)
        result = other if other.plans else result
    if result.plans and len(request.gpu_counts) == 1 and request.objective == "time":
        result = replace(result, fewer=does_as_well(request, result.plans[0]))
    return replace(result, elapsed=time.perf_counter() - started)


def search_counts(request: Request, progress: Progress | None = None) -> SearchResult:
    """Rank the plans of a request that use all accelerators of one of its counts."""
    started = time.perf_counter()
    jobs = list(request.jobs())
    scans, reports = [], []
    for index, (job, runtime) in enumerate(jobs):
        if progress is not None:
            progress(index / len(jobs), f"{job.gpus} x {job.hardware.name}, {runtime.name}")
        scans.append(scan_of(request, job, runtime))
        reports.append(scans[-1].run(objective_column(request.objective)))
    refined = refine_each(request, scans, reports)
    plans = [plan for refinement in refined for plan in refinement.plans if not plan.violations]
    ranked = sorted(plans, key=lambda plan: objective_value(request.objective, plan))[: request.top]
    lead = _lead_job(ranked, jobs)
    removed: Counter[str] = Counter()
    for report in reports:
        removed.update(report.removed)
    return SearchResult(
        plans=tuple(ranked),
        baselines=tuple(baselines(request, *lead)),
        enumerated=sum(report.enumerated for report in reports),
        valid=sum(report.valid for report in reports),
        fits=sum(report.fits for report in reports),
        priced=sum(report.valid for report in reports),
        close=sum(report.close for report in reports),
        removed={rule: count for rule, count in removed.most_common() if count},
        nearest=None if ranked else nearest_that_fits(request, reports),
        elapsed=time.perf_counter() - started,
        scan=sum(report.seconds for report in reports),
        optimality=_optimality(ranked, refined, request.objective),
    )


def refine_each(request: Request, scans: Sequence[Scan], reports: Sequence[ScanReport]) -> list[Refinement]:
    """Refine the plans of several jobs, the most promising job first.

    A job none of whose plans can be among the answers found so far, by its bounds, is left as it is.
    """
    asked, top = request.objective, request.top
    least = [
        objective_bound(asked, scan.job, report.least_bound)
        for scan, report in zip(scans, reports, strict=True)
    ]
    found: dict[int, Refinement] = {}
    values: list[float] = []
    for index in sorted(range(len(scans)), key=least.__getitem__):
        scan, report = scans[index], reports[index]
        if len(values) >= top and least[index] > sorted(values)[top - 1]:
            found[index] = Refinement((), 0, report.least_bound, proved=True)
            continue
        found[index] = refine(scan, report, asked, top, request.memory_limit, request.uniform)
        values += [objective_value(asked, plan) for plan in found[index].plans]
    return [found[index] for index in range(len(scans))]


def _lead_job(ranked: list[Estimate], jobs: list[tuple[Job, Runtime]]) -> tuple[Job, Runtime]:
    """Return the job of the best plan, or the first one."""
    return (ranked[0].job, ranked[0].runtime) if ranked else jobs[0]


def _optimality(ranked: list[Estimate], refined: list[Refinement], objective: str) -> dict[str, object]:
    """Say how good the best plan is proved to be, and over which space."""
    with_split = "its default split"
    if ranked and all(one.any_split for one in refined if one.plans):
        with_split += " or, where its layers can be assigned, another one"
    over = (
        f"every legal plan of the grid that is safe in memory with {with_split}: the refined ones with "
        "the splits of layers that were tried, the others with any; bounds hold within the cost model"
    )
    if not ranked:
        none = dict.fromkeys(("bound_s", "gap", "model_bound_s"))
        return {"method": "scan", "proved": False, **none, "over": over, "refined": 0}
    count = sum(refinement.refined for refinement in refined)
    if objective != "time" or len(refined) > 1:
        bound = min(refinement.bound for refinement in refined)
        proved = all(refinement.proved for refinement in refined)
    else:
        bound, proved = refined[0].bound, refined[0].proved
    best = ranked[0].step
    bound = min(bound, best)
    lead = next((one.improvement for one in refined if ranked[0] in one.plans and one.improvement), None)
    return {
        "method": "scan, then candidates refined in the order of their bounds",
        "proved": proved,
        "bound_s": min(bound, *(one.floor for one in refined if one.plans)),
        "gap": max(0.0, 1.0 - bound / best),
        "over": over,
        "model_bound_s": bound,
        "refined": count,
        "solver": solver_record(lead, ranked[0].error_band) if lead is not None else None,
    }
