"""The exchange of time and memory, and of accelerators and speed: the best plan at each limit and count."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from planner.cost.estimate import Estimate
from planner.dataclasses import dataclass, field, replace
from planner.report.as_json import Document, plain, plan_record
from planner.report.layout import layout
from planner.report.page import Page, Table, significant
from planner.search.optimise import search_counts
from planner.search.request import SearchRequest
from planner.units import GIB

Tell = Callable[[float, str], None]
"""Told the share done and what is being done."""


@dataclass
class Patience:
    """Time for several searches: one that would take too long is left out, and named."""

    seconds: float = float("inf")
    """For all of them, the first of which is always made. [s]"""
    now: Callable[[], float] = time.monotonic
    """A clock. [s]"""
    left_out: list[str] = field(default_factory=list)
    """What there was no time for."""
    _asked: list[float] = field(default_factory=list)

    def allows(self, what: str) -> bool:
        """Say whether one more search that takes as long as the longest so far ends in time."""
        self._asked.append(self.now())
        ends = self._asked
        longest = max((end - start for start, end in pairwise(ends)), default=0.0)
        if len(ends) == 1 or ends[-1] - ends[0] + longest <= self.seconds:
            return True
        self.left_out.append(what)
        return False


def halves(points: int) -> Sequence[int]:
    """Return 1 to ``points``, the last first and then what halves the gaps, so that any part is spread out.

    Examples
    --------
    >>> halves(8)
    (8, 4, 2, 6, 1, 3, 5, 7)
    """
    step = 1 << (points - 1).bit_length()
    order = [points]
    while step > 1:
        order += range(step // 2, points, step)
        step //= 2
    return tuple(dict.fromkeys(order))


def memory_front(
    request: SearchRequest,
    points: int,
    tell: Tell,
    patience: Patience | None = None,
    known: Iterable[Estimate] = (),
) -> tuple[Estimate, ...]:
    """Return the fastest plan at each of ``points`` limits of memory, from the least that fits to all.

    Every one is on the front of time and memory: none of the plans found needs less and is faster. Plans that
    several limits share stand once; those that are ``known`` already are in it, where nothing beats them.
    """
    patience = patience or Patience()
    if not patience.allows("time against memory"):
        return ()
    tell(0.0, "the least memory that fits")
    plain_request = replace(request, objective="time", top=1)
    slowest = replace(plain_request, objective="memory", slowdown=float("inf"))
    least = search_counts(slowest, advise=False, beside=False).plans
    fitting = [plan for plan in known if plan.feasible]
    if not least:
        return tuple(undominated(fitting))
    most = request.clusters[0].pool.accelerator.memory_usable
    most = min(most, request.memory_limit or most)
    found = [least[0], *fitting]
    for number, point in enumerate(halves(points), start=1):
        limit = least[0].peak + (most - least[0].peak) * point / points
        what = f"the fastest plan in {limit / GIB:.0f} GiB"
        if not patience.allows(what):
            continue
        tell(number / (points + 1), what)
        found += search_counts(replace(plain_request, memory_limit=limit), advise=False, beside=False).plans
    return tuple(undominated(found))


def undominated(plans: Iterable[Estimate]) -> list[Estimate]:
    """Return the plans that no other beats in time and memory, the fastest first."""
    kept: list[Estimate] = []
    for plan in sorted(plans, key=lambda plan: (plan.step, plan.peak)):
        if not kept or plan.peak < kept[-1].peak:
            kept.append(plan)
    return kept


def best_at_counts(
    request: SearchRequest,
    counts: Iterable[int],
    tell: Tell,
    patience: Patience | None = None,
    known: Iterable[Estimate] = (),
) -> tuple[Estimate, ...]:
    """Return the fastest plan on each number of accelerators on which one fits, in their order.

    A plan that is ``known`` already counts where the search finds none as fast.
    """
    patience = patience or Patience()
    best: list[Estimate] = []
    fitting = [plan for plan in known if plan.feasible]
    for gpus in counts:
        what = f"the fastest plan on {gpus:,} accelerators"
        if not patience.allows(what):
            continue
        tell(0.0, what)
        asked = replace(request, gpu_counts=(gpus,), objective="time", top=1)
        mine = [plan for plan in fitting if plan.job.gpus == gpus]
        best += sorted(
            (*search_counts(asked, advise=False, beside=False).plans, *mine), key=lambda plan: plan.step
        )[:1]
    return tuple(best)


def front_page(front: Iterable[Estimate]) -> Page:
    """Return a front for people."""
    rows = tuple(
        {
            "layout": layout(plan.plan),
            "s/step": significant(plan.step),
            "GiB": f"{plan.peak / GIB:.1f}",
        }
        for plan in front
    )
    return ["Time against memory, the fastest plan at each limit:", Table(rows)] if rows else []


def front_document(front: Iterable[Estimate]) -> list[Document]:
    """Return a front as JSON."""
    rows: list[Document] = plain(
        [
            {
                "layout": layout(plan.plan),
                "plan": plan_record(plan.plan),
                "step_time_s": plan.step,
                "peak_gib": plan.peak / GIB,
            }
            for plan in front
        ]
    )
    return rows
