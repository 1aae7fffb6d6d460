"""Refinement: better plans out of candidates, until no bound that is left is below the best."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

from planner.cost.estimate import Estimate
from planner.dataclasses import dataclass, replace
from planner.plan import Plan
from planner.search.assign.improve import Improvement, Improver
from planner.search.candidates import ScanReport
from planner.search.earned import is_backed
from planner.search.guard import Guard, Key
from planner.search.meshes import of_further_meshes
from planner.search.operators import OPERATORS
from planner.search.queue import FIRST, Queue
from planner.search.request import objective_bound, objective_key
from planner.search.scan import Scan

BACKED: Final = 0.5
"""Effort for plans that runs stand behind where another one is the best, over that for all. [-]"""


@dataclass(frozen=True)
class Refinement:
    """The refined plans of one job, and what is proved of the first."""

    plans: tuple[Estimate, ...]
    """Best first, by their prices and, where known, their played steps."""
    refined: int
    """Candidates refined."""
    open_bound: float
    """Seconds, or bytes where memory is asked for, that no candidate which was not refined can beat by the
    closed forms; infinite where there is none."""
    best: float = float("inf")
    """Seconds by which the first plan is ranked; infinite where there is none. [s]"""
    improvement: Improvement | None = None
    """What assignment did for the best plan, where it ran."""
    floor: float = 0.0
    """Seconds that no refined plan can beat, however it is played. [s]"""

    @property
    def bound(self) -> float:
        """Seconds that no plan of the space can beat by the closed forms. [s]"""
        return min(self.open_bound, self.best)

    @property
    def proved(self) -> bool:
        """Whether the fastest plan is proved fastest: no other one is left whose bound is below it."""
        return bool(self.plans) and self.open_bound >= self.best


def refine(
    scan: Scan,
    report: ScanReport,
    objective: str,
    top: int,
    memory_limit: float | None = None,
    guard: Guard | None = None,
    before: Queue | None = None,
    others: tuple[float, ...] = (),
) -> Refinement:
    """Refine candidates until the next bound is no better than the best plan.

    What is found and proved of the best plan does not depend on how many are asked for: further plans are
    refined after it.

    Parameters
    ----------
    scan, report : Scan, ScanReport
        The scan and what it found.
    objective : str
        What the ranking minimises.
    top : int
        Plans to return at least, where there are so many.
    memory_limit : float, optional
        Device memory that may be used. [byte]
    guard : Guard, optional
        Plays the best plan: where its price is far from its played step, the search goes on.
    before : Queue, optional
        One that made plans of all kinds, where those count that measured runs stand behind.
    others : tuple of float
        Objectives of the plans that other scans of the job have, among which these are ranked.
    """
    guard = guard or Guard()
    if objective_bound(objective, scan.job, 1.0) == float("inf"):
        objective = "time"
    counts = None if before is None else is_backed
    bench = Improver(scan, memory_limit) if before is None else before.bench.anew(scan)
    queue = Queue(bench, report, objective, counts, others, before)
    queue.run(until=OPERATORS[0].turn)
    uniform, started = queue.fastest(), time.perf_counter()
    queue.run(until=OPERATORS[-1].turn - 0.5)
    improvement = _improvement(queue, uniform, started) if scan.uneven else None
    queue.run()
    if not queue.known:
        return Refinement((), queue.refined, queue.open_bound())
    key = partial(objective_key, objective)
    leader = _leader(queue, guard, key)
    refined, floor, open_bound = queue.refined, floor_of(queue.known), queue.open_bound()
    queue.run(rank=top)
    queue.refine_further(report.best[FIRST:top])
    plans = list(queue.known.values())
    if report.backed is not None and not is_backed(leader):
        known = {plan.plan for plan in plans}
        less = replace(scan, keep=max(FIRST, int(scan.keep * BACKED)))
        own = refine(less, report.backed, objective, 1, memory_limit, guard, queue)
        plans += [plan for plan in own.plans if plan.plan not in known]
    return Refinement(
        tuple(sorted(plans, key=lambda plan: key(plan, guard.known_seconds(plan)))),
        refined,
        open_bound,
        guard.seconds(leader),
        improvement,
        floor,
    )


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
    bench = Improver(scan, memory_limit)
    queue = Queue(bench, report, "memory")
    first = [*report.best[: max(top, FIRST)], *of_further_meshes(report.best, (), top)]
    defaults = (bench.price(replace(candidate.plan, stage_layers=scan.split)) for candidate in first)
    for one in filter(bench.is_offered, (*defaults, *known)):
        queue.take(one.plan, one)
    queue.run()
    plans = tuple(sorted(queue.known.values(), key=lambda plan: (plan.peak, plan.step)))
    best = plans[0].step if plans else float("inf")
    return Refinement(plans, len(plans), queue.open_bound(), best, floor=floor_of(queue.known))


def _improvement(queue: Queue, uniform: float, started: float) -> Improvement | None:
    """Return what assignment did for the fastest plan; None where there is none."""
    if not queue.known:
        return None
    first = min(queue.known.values(), key=lambda known: known.step)
    bench, scan = queue.bench, queue.bench.scan
    if first.runtime != scan.runtime.as_run(first.plan, scan.job):
        bench = Improver(replace(scan, runtime=first.runtime), bench.memory_limit)
    solution = bench.bound(first.plan)
    ends = first.time.dp_comm + first.time.optimizer + first.time.offload
    return Improvement(uniform, first.step, solution, first.step - ends, time.perf_counter() - started)


def _leader(queue: Queue, guard: Guard, key: Key) -> Estimate:
    """Return the best plan, played: candidates that its price alone would beat are refined too.

    Where prices turn out to be wrong, that holds for the first few plans and not the best alone.
    """
    most = 1
    while True:
        shown = guard.ranked(queue.known.values(), most, key)
        if most == 1 and any(guard.known_seconds(known) != known.step for known in queue.known.values()):
            most = FIRST
            continue
        best = min([key(shown[-1], guard.seconds(shown[-1]))[0], *queue.others])
        if queue.worth(queue.open_bound()) >= best or not queue.run(beat=best):
            return shown[0]


def floor_of(done: Mapping[Plan, Estimate]) -> float:
    """Seconds that no refined plan can beat, however it is played; 0 where there is none. [s]"""
    return min((plan.floor for plan in done.values()), default=0.0)
