"""The search: space, scan, refinement in the order of bounds, baselines, and what would fit."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from planner.cost.estimate import Estimate
from planner.cost.kinds import unmeasured_kinds
from planner.dataclasses import dataclass, replace
from planner.runtimes.family import Job, Runtime
from planner.search.assign.improve import Improver, solver_record
from planner.search.baselines import baselines
from planner.search.beyond import requests_beyond
from planner.search.candidates import ScanReport
from planner.search.earned import Led, best_without, led_by, not_beyond, on_paper, with_earned_lead
from planner.search.guard import Guard, Ranking
from planner.search.idle import Fewer, does_as_well, on_fewer
from planner.search.meshes import of_further_meshes
from planner.search.nearest import nearest_that_fits
from planner.search.operators.split import best_of
from planner.search.proof import proof_clause, space_of
from planner.search.queue import least_bound
from planner.search.refine import Refinement, refine, smallest
from planner.search.request import (
    SearchRequest,
    objective_bound,
    objective_column,
    objective_key,
    objective_value,
    scans_of,
    why_left_out,
)
from planner.search.scan import Scan
from planner.search.settings import scanned_runtimes, spared_runtimes
from planner.search.settled import with_settings
from planner.search.ties import with_careful_lead
from planner.shown import Shown

Progress = Callable[[float, str], None]
"""Function of (share done, what is being done)."""


@dataclass(frozen=True, repr=False)
class SearchResult(Shown):
    """Ranked plans and an account of the search.

    Parameters
    ----------
    plans : tuple of Estimate
        The best that are safe, best first: one of each mesh while there are such.
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
    played : tuple of (float or None)
        For each of the plans, and then of the baselines, its step played event by event, where that is far
        from its price: by that it is ranked. [s]
    left_out : tuple of (str or None)
        Why each of the baselines is not among the plans, whatever it takes.
    variants : tuple of tuple of Estimate
        For each of the plans, others of its mesh that are within 1% of it.
    measured : Estimate, optional
        The best refined plan of kinds that measured runs have, where the first plan is of one without any.
    on_paper : tuple of Estimate
        Plans that are better than the first by less than the doubt about their kinds, best first.
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
    played: tuple[float | None, ...] = ()
    left_out: tuple[str | None, ...] = ()
    variants: tuple[tuple[Estimate, ...], ...] = ()
    measured: Estimate | None = None
    on_paper: tuple[Estimate, ...] = ()


def search(
    request: SearchRequest, progress: Progress | None = None, instead: SearchRequest | None = None
) -> SearchResult:
    """Rank the plans of a request; where no plan can use as many accelerators, those on fewer.

    Parameters
    ----------
    request : SearchRequest
        What is asked.
    progress : callable, optional
        Told the share done and the step at hand.
    instead : SearchRequest, optional
        Answered where no legal plan of the first fits, before it is worked out what would.

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
    result, reports = _found(request, progress, beside=True)
    if instead is not None and result.valid and not result.plans:
        other = search_counts(instead, advise=False)
        if other.plans:
            return other
    result = _advised(request, result, reports)
    if result.plans and len(request.gpu_counts) == 1 and request.objective == "time":
        result = replace(result, fewer=does_as_well(request, result.plans[0]))
    return replace(result, elapsed=time.perf_counter() - started)


def found_plans(request: SearchRequest, advise: bool = True) -> SearchResult:
    """Rank the plans of a request as `search` does, without baselines or a smaller number that does as well.

    Where nothing fits it is worked out what would, if ``advise`` says so.
    """
    started = time.perf_counter()
    result, reports = _found(request, None, beside=False)
    result = _advised(request, result, reports) if advise else result
    return replace(result, elapsed=time.perf_counter() - started)


def _found(
    request: SearchRequest, progress: Progress | None, beside: bool
) -> tuple[SearchResult, list[ScanReport]]:
    """Return the plans of a request, on fewer accelerators or with more offloaded where it has none."""
    result, reports = _searched(request, progress, beside)
    if not result.valid and (smaller := on_fewer(request)) is not None:
        other, _ = _searched(smaller, progress, beside)
        result = other if other.plans else result
    beyond = (_searched(one, progress, beside)[0] for one in requests_beyond(request))
    result = result if result.plans else next((other for other in beyond if other.plans), result)
    return result, reports


def search_counts(
    request: SearchRequest, progress: Progress | None = None, advise: bool = True, beside: bool = True
) -> SearchResult:
    """Rank the plans of a request that use all accelerators of one of its counts.

    Where there are none, it is worked out what would do if ``advise`` says so; ``beside`` asks for baselines.
    """
    result, reports = _searched(request, progress, beside)
    return _advised(request, result, reports) if advise else result


def _advised(request: SearchRequest, result: SearchResult, reports: list[ScanReport]) -> SearchResult:
    return result if result.plans else replace(result, nearest=nearest_that_fits(request, reports))


def _searched(
    request: SearchRequest, progress: Progress | None, beside: bool
) -> tuple[SearchResult, list[ScanReport]]:
    """Return the plans of a request without advice, and what its scans saw."""
    started = time.perf_counter()
    asked = list(request.jobs())
    jobs = [
        (job, one)
        for job, runtime in asked
        for one in scanned_runtimes(job, runtime, request.open_settings(job, runtime))
    ]
    guard, within, fastest = Guard(), float("inf"), list[Estimate]()
    if request.objective == "memory":
        scans, reports, refined, fastest = least_memory(request, asked, jobs, progress, guard)
        within = min((plan.step for plan in fastest), default=within) * request.slowdown
    else:
        scans, reports = scan_widely(request, jobs, progress)
        refined = refine_each(request, scans, reports, guard)
    plans = [plan for refinement in refined for plan in refinement.plans if not plan.violations]
    found = (*with_settings(request, asked, plans, guard, within), *fastest)
    plans = [plan for plan in found if plan.step <= within]
    shown = guard.different(plans, request.top, partial(objective_key, request.objective))
    best = next(iter(shown.plans), None)
    then = (guard.seconds,) if request.objective == "memory" else ()
    shown = with_careful_lead(shown, partial(_value, request, guard), *then)
    safe = [plan for plan in plans if why_left_out(plan, request) is None]
    key = partial(objective_key, request.objective)
    shown, better = _led(request, shown, safe, guard) if request.objective != "memory" else (shown, ())
    ranked = list(shown.plans)
    measured = best_without(unmeasured_kinds, ranked[0], safe, guard, key) if ranked else None
    known = tuple(baselines(request, *_lead_job(ranked, asked))) if beside else ()
    result = SearchResult(
        plans=shown.plans,
        variants=shown.variants,
        baselines=known,
        enumerated=sum(report.enumerated for report in reports),
        valid=sum(report.valid for report in reports),
        fits=sum(report.fits for report in reports),
        priced=sum(report.valid - report.skipped for report in reports),
        close=sum(report.close for report in reports),
        removed=dict(sum((report.removed for report in reports), Counter[str]()).most_common()),
        nearest=None,
        elapsed=time.perf_counter() - started,
        scan=sum(report.seconds for report in reports),
        optimality=_optimality(ranked, best, refined, request, scans, guard, within),
        played=tuple(guard.far(plan) for plan in [*ranked, *(plan for _, plan in known)]),
        left_out=tuple(why_left_out(plan, request) for _, plan in known),
        measured=measured,
        on_paper=better,
    )
    return result, reports


def _led(request: SearchRequest, shown: Ranking, safe: Sequence[Estimate], guard: Guard) -> Led:
    """Return the ranking that the best plan leads which earns it, and what is better on paper."""
    key, value = partial(objective_key, request.objective), partial(_value, request, guard)
    if (earned := with_earned_lead(shown, safe, value, guard, key)) is shown:
        return shown, ()
    lead, known = earned.plans[0], guard.known_seconds
    rest = guard.different(not_beyond(lead, safe, lambda one: key(one, known(one))[0]), request.top, key)
    return led_by(lead, rest, value), on_paper(lead, shown, value)


def _value(request: SearchRequest, guard: Guard, plan: Estimate) -> float:
    """Return the objective of a plan, played."""
    return objective_value(request.objective, plan, guard.seconds(plan))


def scan_each(
    request: SearchRequest,
    jobs: Sequence[tuple[Job, Runtime]],
    progress: Progress | None = None,
    within: float = float("inf"),
) -> tuple[list[Scan], list[ScanReport]]:
    """Scan every job, by memory for plans that take at most ``within`` seconds."""
    scans = scans_of(request, jobs, within)
    reports = []
    for index, (scan, (job, runtime)) in enumerate(zip(scans, jobs, strict=True)):
        if progress is not None:
            progress(index / len(jobs), f"{job.gpus} x {job.hardware.name}, {runtime.name}")
        reports.append(scan.run(objective_column(request.objective, within)))
    return scans, reports


def scan_widely(
    request: SearchRequest, jobs: Sequence[tuple[Job, Runtime]], progress: Progress | None = None
) -> tuple[list[Scan], list[ScanReport]]:
    """Scan every job; one whose best plan waits for its host also with what spares it that."""
    scans, reports = scan_each(request, jobs, progress)
    more: list[tuple[Job, Runtime]] = []
    for scan, report in zip(scans, reports, strict=True):
        if report.best:
            best = Improver(scan, request.memory_limit).price(report.best[0].plan)
            settings = request.open_settings(scan.job, scan.runtime)
            more += [(scan.job, one) for one in spared_runtimes(best, settings)]
    spared = scan_each(request, [one for one in more if one not in jobs])
    return [*scans, *spared[0]], [*reports, *spared[1]]


def least_memory(
    request: SearchRequest,
    asked: Sequence[tuple[Job, Runtime]],
    jobs: Sequence[tuple[Job, Runtime]],
    progress: Progress | None,
    guard: Guard,
) -> tuple[list[Scan], list[ScanReport], list[Refinement], list[Estimate]]:
    """Search every job for time, and then for the least memory among plans nearly as fast as the fastest.

    A plan that the search for time finds is never left out for one that needs more. Settings may make a plan
    faster, so the scan takes plans by the fastest without them.

    Returns
    -------
    tuple of (list of Scan, list of ScanReport, list of Refinement, list of Estimate)
        The fourth are the plans of the search for time, the best with their settings.
    """
    timely = replace(request, objective="time")
    scans, reports = scan_widely(timely, jobs, progress)
    timed, jobs = refine_each(timely, scans, reports, guard), [(scan.job, scan.runtime) for scan in scans]
    found = [[plan for plan in one.plans if why_left_out(plan, request) is None] for one in timed]
    plain = [plan for plans in found for plan in plans]
    loose = min((plan.step for plan in plain), default=float("inf")) * request.slowdown
    scans, reports = scan_each(request, jobs, progress, loose)
    refined = [
        smallest(scan, report, request.top, known, request.memory_limit)
        for scan, report, known in zip(scans, reports, found, strict=True)
    ]
    return scans, reports, refined, with_settings(timely, asked, plain, guard, float("inf"))


def refine_each(
    request: SearchRequest, scans: Sequence[Scan], reports: Sequence[ScanReport], guard: Guard | None = None
) -> list[Refinement]:
    """Refine the plans of several jobs, the most promising job first.

    A job whose best cannot be among the answers found so far, by its bounds, is left as it is: the best of
    each job comes before the others of any.
    """
    asked, top, guard = request.objective, request.top, guard or Guard()
    least = [
        objective_bound(asked, scan.job, least_bound(report))
        for scan, report in zip(scans, reports, strict=True)
    ]
    several = len({id(scan.job) for scan in scans}) > 1
    found: dict[int, Refinement] = {}
    values: list[float] = []
    for index in sorted(range(len(scans)), key=least.__getitem__):
        scan, report = scans[index], reports[index]
        if len(values) >= top and least[index] > sorted(values)[top - 1]:
            found[index] = Refinement((), 0, least_bound(report))
            continue
        one = refine(scan, report, asked, top, request.memory_limit, guard)
        further = of_further_meshes((*report.best, *report.of("split")), one.plans, top)
        bench = Improver(scan, request.memory_limit)
        found[index] = replace(one, plans=(*one.plans, *(best_of(candidate, bench) for candidate in further)))
        known = (objective_value(asked, plan, guard.known_seconds(plan)) for plan in found[index].plans)
        values += [min(known, default=float("inf"))] if several else known
    return [found[index] for index in range(len(scans))]


def _lead_job(ranked: list[Estimate], jobs: list[tuple[Job, Runtime]]) -> tuple[Job, Runtime]:
    """Return the job of the best plan with its runtime as it is asked for, or the first one."""
    lead = ranked[0] if ranked else None
    return next(
        (
            (job, runtime)
            for job, runtime in jobs
            if lead is not None and job is lead.job and runtime.name == lead.runtime.name
        ),
        jobs[0],
    )


def _optimality(
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
