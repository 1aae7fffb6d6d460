"""The search: all jobs of a request scanned and refined, ranked, beside baselines and what would fit."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from functools import partial

from planner.cost.estimate import Estimate
from planner.cost.kinds import unmeasured_kinds
from planner.dataclasses import replace
from planner.runtimes.family import Job, Runtime
from planner.search.baselines import baselines
from planner.search.beyond import requests_beyond
from planner.search.candidates import ScanReport
from planner.search.earned import Led, best_without, led_by, not_beyond, on_paper, with_earned_lead
from planner.search.every_job import least_memory, refine_each, scan_widely
from planner.search.guard import Guard, Ranking
from planner.search.idle import does_as_well, on_fewer
from planner.search.nearest import nearest_that_fits
from planner.search.planless import planless
from planner.search.proof import optimality
from planner.search.request import Progress, SearchRequest, objective_key, objective_value, why_left_out
from planner.search.result import SearchResult
from planner.search.scan import Scan
from planner.search.settings import variants
from planner.search.settled import with_settings
from planner.search.ties import with_careful_lead

Seen = tuple[list[Scan], list[ScanReport]]
"""The scans of a request, and what each saw."""


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
    result, seen = _found(request, progress, beside=True)
    if instead is not None and result.valid and not result.plans:
        other = search_counts(instead, advise=False)
        if other.plans:
            return other
    result = _advised(request, result, seen)
    if result.plans and len(request.gpu_counts) == 1 and request.objective == "time":
        result = replace(result, fewer=does_as_well(request, result.plans[0]))
    return replace(result, elapsed=time.perf_counter() - started)


def found_plans(request: SearchRequest, advise: bool = True) -> SearchResult:
    """Rank the plans of a request as `search` does, without baselines or a smaller number that does as well.

    Where nothing fits it is worked out what would, if ``advise`` says so.
    """
    started = time.perf_counter()
    result, seen = _found(request, None, beside=False)
    result = _advised(request, result, seen) if advise else result
    return replace(result, elapsed=time.perf_counter() - started)


def _found(request: SearchRequest, progress: Progress | None, beside: bool) -> tuple[SearchResult, Seen]:
    """Return the plans of a request, on fewer accelerators or with more offloaded where it has none."""
    result, seen = _searched(request, progress, beside)
    if not result.valid and (smaller := on_fewer(request)) is not None:
        other, _ = _searched(smaller, progress, beside)
        result = other if other.plans else result
    beyond = (_searched(one, progress, beside)[0] for one in requests_beyond(request))
    result = result if result.plans else next((other for other in beyond if other.plans), result)
    return result, seen


def search_counts(
    request: SearchRequest, progress: Progress | None = None, advise: bool = True, beside: bool = True
) -> SearchResult:
    """Rank the plans of a request that use all accelerators of one of its counts.

    Where there are none, it is worked out what would do if ``advise`` says so; ``beside`` asks for baselines.
    """
    result, seen = _searched(request, progress, beside)
    return _advised(request, result, seen) if advise else result


def _advised(request: SearchRequest, result: SearchResult, seen: Seen) -> SearchResult:
    return result if result.plans else replace(result, nearest=nearest_that_fits(request, *seen))


def _searched(request: SearchRequest, progress: Progress | None, beside: bool) -> tuple[SearchResult, Seen]:
    """Return the plans of a request without advice, and what its scans saw."""
    started = time.perf_counter()
    asked = list(request.jobs())
    jobs = [
        (job, one)
        for job, runtime in asked
        for one in variants(job, runtime, request.open_settings(job, runtime))
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
        optimality=optimality(ranked, best, refined, request, scans, guard, within),
        played=tuple(guard.far(plan) for plan in [*ranked, *(plan for _, plan in known)]),
        left_out=tuple(why_left_out(plan, request) for _, plan in known),
        measured=measured,
        on_paper=better,
        planless=planless(asked, scans, reports, ranked, request.oom_risk),
    )
    return result, (scans, reports)


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
