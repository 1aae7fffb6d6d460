"""All jobs of a request: each scanned, and its candidates refined, the most promising job first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Final

from planner.cost.estimate import Estimate, least_seconds, parts_of
from planner.dataclasses import replace
from planner.plan import Plan
from planner.runtimes.family import Job, Runtime
from planner.search.assign.improve import Improver
from planner.search.candidates import ScanReport
from planner.search.guard import Guard
from planner.search.known import priced
from planner.search.meshes import of_further_meshes
from planner.search.operators.split import best_of
from planner.search.queue import least_bound, least_hope
from planner.search.refine import Refinement, refine, smallest
from planner.search.request import (
    Progress,
    SearchRequest,
    objective_bound,
    objective_column,
    objective_value,
    scans_of,
    why_left_out,
)
from planner.search.scan import Scan
from planner.search.settings import Variant, obeys
from planner.search.settled import with_settings
from planner.search.wanted import wanted_runtime

MOST_WANTED: Final = 3
"""Further combinations of settings for which all plans of a job are priced. [-]"""


def scan_each(
    request: SearchRequest,
    jobs: Sequence[tuple[Job, Variant]],
    progress: Progress | None = None,
    within: float = float("inf"),
) -> tuple[list[Scan], list[ScanReport]]:
    """Scan every job, by memory for plans that take at most ``within`` seconds."""
    scans = scans_of(request, jobs, within)
    reports = []
    beaten: dict[int, float] = {}
    for index, scan in enumerate(scans):
        if progress is not None:
            progress(index / len(jobs), f"{scan.job.gpus} x {scan.job.hardware.name}, {scan.runtime.name}")
        scan.beaten = beaten.get(id(scan.job), scan.beaten)
        reports.append(scan.run(objective_column(request.objective, within)))
        beaten[id(scan.job)] = scan.worst_kept(reports[-1])
    return scans, reports


def scan_widely(
    request: SearchRequest, jobs: Sequence[tuple[Job, Variant]], progress: Progress | None = None
) -> tuple[list[Scan], list[ScanReport]]:
    """Scan every job, also with the settings that its best plans want and no scan has yet."""
    scans, reports = scan_each(request, jobs, progress)
    for job in {id(job): job for job, _ in jobs}.values():
        for _ in range(MOST_WANTED):
            own = [place for place, scan in enumerate(scans) if scan.job is job]
            first = scans[own[0]]
            wanted = wanted_runtime(
                [scans[place].runtime for place in own],
                [reports[place] for place in own],
                request.open_settings(job, first.runtime),
                partial(_better, request, job),
            )
            if wanted is None:
                break
            beaten = min(scans[place].worst_kept(reports[place]) for place in own)
            scans.append(replace(first, runtime=wanted, beaten=beaten))
            reports.append(scans[-1].run(objective_column(request.objective)))
    return scans, reports


def _better(
    request: SearchRequest, job: Job, plan: Plan, runtime: Runtime, seconds: float
) -> Estimate | None:
    """Price a plan of a request; None where it may not be shown, or takes so many seconds."""
    if not obeys(plan, job, runtime).all() or least_seconds(parts := parts_of(plan, job, runtime)) >= seconds:
        return None
    known = priced(plan, job, runtime, request.memory_limit, parts)
    return known if known.step < seconds and why_left_out(known, request) is None else None


def least_memory(
    request: SearchRequest,
    asked: Sequence[tuple[Job, Runtime]],
    jobs: Sequence[tuple[Job, Variant]],
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
    timed = refine_each(timely, scans, reports, guard)
    jobs = [(scan.job, Variant(scan.runtime, scan.usual or scan.runtime, scan.beside)) for scan in scans]
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
        objective_bound(asked, scan.job, least_hope(report))
        for scan, report in zip(scans, reports, strict=True)
    ]
    several = len({id(scan.job) for scan in scans}) > 1
    found: dict[int, Refinement] = {}
    values: list[float] = []
    others: defaultdict[int, list[float]] = defaultdict(list)
    for index in sorted(range(len(scans)), key=least.__getitem__):
        scan, report = scans[index], reports[index]
        if len(values) >= top and least[index] > sorted(values)[top - 1]:
            found[index] = Refinement((), 0, least_bound(report))
            continue
        own = others[id(scan.job)]
        one = refine(scan, report, asked, top, request.memory_limit, guard, others=tuple(own))
        further = of_further_meshes((*report.best, *report.of("split")), one.plans, top)
        bench = Improver(scan, request.memory_limit)
        found[index] = replace(one, plans=(*one.plans, *(best_of(candidate, bench) for candidate in further)))
        known = [objective_value(asked, plan, guard.known_seconds(plan)) for plan in found[index].plans]
        own += known
        values += [min(known, default=float("inf"))] if several else known
    return [found[index] for index in range(len(scans))]
