"""The plans of least memory: candidates of the scan, with activations on the host and other splits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from planner.cost.estimate import Estimate
from planner.plan import Plan
from planner.search.assign.improve import Improver
from planner.search.candidates import Candidate, ScanReport
from planner.search.hosted import most_hosted
from planner.search.meshes import of_further_meshes
from planner.search.refine import FIRST, MOST_HOSTED, Refinement, apart, balanced, floor_of
from planner.search.scan import KEEP_HOSTED, Scan

MOST_SPLIT = 128
"""Candidates given other splits at most: some milliseconds each."""


def smallest(
    scan: Scan,
    report: ScanReport,
    top: int,
    known: Iterable[Estimate] = (),
    memory_limit: float | None = None,
) -> Refinement:
    """Return the plans that need the least memory among those that are in time.

    The scan has seen every default split. Of the candidates that could need less with activations on the
    host, or with another split, those of least bound are refined until no bound is below the best.

    Parameters
    ----------
    scan, report : Scan, ScanReport
        The scan by memory and what it found.
    top : int
        Plans to return at least, where there are so many.
    known : iterable of Estimate
        Plans of the same job that were refined for time.
    memory_limit : float, optional
        Device memory that may be used. [byte]

    Returns
    -------
    Refinement
        Plans, that of least memory first.
    """
    improver = Improver(scan, memory_limit)
    first = [*report.best[: max(top, FIRST)], *of_further_meshes(report.best, (), top)]
    defaults = (improver.price(replace(candidate.plan, stage_layers=scan.split)) for candidate in first)
    found = {
        one.plan: one for one in (*defaults, *known) if improver.is_safe(one) and one.step <= scan.within
    }
    hosts = partial(_hosted, improver)
    left = _refine(found, report.hosted, hosts, MOST_HOSTED, len(report.hosted) >= KEEP_HOSTED)
    splits = partial(_split, improver)
    more = len(report.tight) >= scan.keep_tight
    left = min(left, _refine(found, report.tight, splits, MOST_SPLIT, more))
    plans = tuple(sorted(found.values(), key=lambda plan: (plan.peak, plan.step)))
    best = plans[0].step if plans else float("inf")
    return Refinement(plans, len(plans), float("inf"), best, floor=floor_of(found), open_bytes=left)


def _refine(
    found: dict[Plan, Estimate],
    candidates: Sequence[Candidate],
    made: Callable[[Candidate], Iterator[Estimate]],
    most: int,
    more: bool,
) -> float:
    """Add refined candidates while they could need less than the best; return what others need at least.

    Parameters
    ----------
    found : dict
        Plans known, to which better ones are added.
    candidates : sequence of Candidate
        By what they need at least.
    made : callable
        Yields the plans of a candidate that are safe and in time.
    most : int
        Candidates refined at most.
    more : bool
        Whether the scan may have seen more of them than it kept.
    """
    best = min((one.peak for one in found.values()), default=float("inf"))
    for place, candidate in enumerate(candidates):
        if candidate.value >= best:
            return float("inf")
        if place >= most:
            return candidate.value
        for one in made(candidate):
            found[one.plan] = one
            best = min(best, one.peak)
    return candidates[-1].value if more else float("inf")


def _hosted(improver: Improver, candidate: Candidate) -> Iterator[Estimate]:
    """Yield a candidate with as many layers on the host as it has time for."""
    if (one := most_hosted(improver, candidate, improver.scan.within)) is not None:
        yield one


def _split(improver: Improver, candidate: Candidate) -> Iterator[Estimate]:
    """Yield a candidate with the splits that refinement tries."""
    for plan in (balanced(candidate.plan, improver.scan), apart(candidate.plan, improver.scan)):
        if plan is not None:
            one = improver.price(plan)
            if improver.is_safe(one) and one.step <= improver.scan.within:
                yield one
