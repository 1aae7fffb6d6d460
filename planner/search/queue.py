"""The queue of a search: candidates with bounds, each refined by its operator while it could be better.

Operators take turns, and within a turn the most promising candidate comes first. What is left has bounds: the
least of them is what no plan of the space beats that was not made.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import NamedTuple

from planner.cost.estimate import Estimate
from planner.dataclasses import dataclass, field, replace
from planner.plan import Plan
from planner.search.assign.improve import Improver
from planner.search.candidates import Candidate, ScanReport
from planner.search.operators import OPERATORS, SearchOperator
from planner.search.request import objective_bound, objective_value

FIRST = 5
"""Candidates of least price that are refined before the bounds say which; as many plans are ranked. [-]"""


class Waiting(NamedTuple):
    """A candidate that waits for an operator, in the order in which its turn comes: numbers are unique.

    One that is ``sure`` is refined whatever its bound.
    """

    turn: float
    key: float
    number: int
    operator: SearchOperator
    candidate: Candidate
    sure: bool


@dataclass
class Queue:
    """Candidates of a scan, and the plans that were made of them."""

    bench: Improver
    """Prices plans."""
    report: ScanReport
    """What the scan found."""
    objective: str
    """What is minimised."""
    accepts: Callable[[Estimate], bool] | None = None
    """Whether a plan counts, where not all do."""
    others: tuple[float, ...] = ()
    """Objectives of the plans that other scans of the job have, among which its own are ranked."""
    before: Queue | None = None
    """Whose plans count where they are accepted, and need not be made again."""
    known: dict[Plan, Estimate] = field(default_factory=dict)
    """The plans made, each by the candidate in whose place it stands."""
    spent: Counter[str] = field(default_factory=Counter)
    """Candidates that each operator has refined."""
    _values: dict[Plan, float] = field(default_factory=dict, repr=False)
    _followed: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list), repr=False)
    _waiting: list[Waiting] = field(default_factory=list, repr=False)
    _seen: set[tuple[str, Plan]] = field(default_factory=set, repr=False)
    _done: set[tuple[str, Plan]] = field(default_factory=set, repr=False)
    _made: set[tuple[str, Plan]] = field(default_factory=set, repr=False)

    def __post_init__(self) -> None:
        if self.before is not None:
            self._seen |= self.before._made
            for place, known in self.before.known.items():
                if self.accepts is None or self.accepts(known):
                    self.take(place, known)
        operators = [operator for operator in OPERATORS if operator.takes(self.bench.scan)]
        self.followers = {one.follows: one for one in operators if one.follows}
        for operator in operators:
            for candidate in self.report.best[: FIRST if operator.leads else 0]:
                self.add(operator, candidate, float("-inf"), sure=True)
            for candidate in self.report.of(operator.name):
                self.add(operator, candidate, operator.order(candidate))

    def add(self, operator: SearchOperator, candidate: Candidate, key: float, sure: bool = False) -> None:
        """Let a candidate wait for an operator, if it did not yet."""
        if (operator.name, candidate.plan) not in self._seen:
            self._seen.add((operator.name, candidate.plan))
            one = Waiting(operator.turn, key, len(self._seen), operator, candidate, sure)
            heapq.heappush(self._waiting, one)

    def value(self, known: Estimate) -> float:
        """Return the objective of a plan at its price."""
        return objective_value(self.objective, known)

    def worth(self, bound: float) -> float:
        """Return what the objective is at least, of plans with a bound in the unit of the scan."""
        if self.bench.scan.by_memory:
            return bound
        return objective_bound(self.objective, self.bench.scan.job, bound)

    @property
    def refined(self) -> int:
        """Candidates refined: the effort so far."""
        return sum(self.spent.values())

    def fastest(self) -> float:
        """Return the least seconds of a plan; infinite where there is none. [s]"""
        return min((known.step for known in self.known.values()), default=float("inf"))

    def best(self, rank: int = 1) -> float:
        """Return the objective of the plan of some rank; infinite where there are fewer."""
        known = [*self._values.values(), *self.others]
        return heapq.nsmallest(rank, known)[-1] if len(known) >= rank else float("inf")

    def take(self, place: Plan, found: Estimate) -> None:
        """Keep a plan in the place of the candidate that it was made of, where it is better."""
        value = self.value(found)
        if value >= self._values.get(place, float("inf")):
            return
        self._values.pop(place, None)
        self.known.pop(place, None)
        place = replace(found.plan, stage_layers=place.stage_layers, prediction_apart=place.prediction_apart)
        if value < self._values.get(place, float("inf")):
            self.known[place], self._values[place] = found, value

    def run(self, beat: float | None = None, rank: int = 0, until: float = float("inf")) -> bool:
        """Refine what could be better than the best; return whether anything was refined.

        ``beat``: what is to be beaten, where the best plan turns out to be worse than its price; ``rank``:
        what could be among so many plans is refined too, by operators that look beyond the first; ``until``:
        turns up to which operators come.
        """
        left: list[Waiting] = []
        refined = 0
        beat = min([self.best() if beat is None else beat, *self.others])
        while self._waiting:
            one = heapq.heappop(self._waiting)
            operator, candidate = one.operator, one.candidate
            if operator.turn > until:
                left.append(one)
                break
            spent = self.spent[operator.name] >= operator.most(self.bench.scan)
            looks_beyond = operator.rank > 1 and not self.bench.scan.by_memory
            least = max(beat, self.best(max(rank, operator.rank))) if looks_beyond else beat
            if spent or (self.worth(candidate.bound) >= least and not one.sure):
                left.append(one)
                continue
            if not operator.supports(self.bench, candidate):
                continue
            self.spent[operator.name] += 1
            self._done.add((operator.name, candidate.plan))
            refined += 1
            full = len(self._values) >= FIRST
            if full and self.worth(operator.bound(self.bench, candidate)) >= self._wanted(operator):
                continue
            beat = min(beat, self.refine(operator, candidate))
        for one in left:
            heapq.heappush(self._waiting, one)
        return refined > 0

    def _wanted(self, operator: SearchOperator) -> float:
        """Return the objective from which a plan is neither among the first, nor refined further."""
        further = self.followers.get(operator.name)
        if further is None or further.sure:
            return self.best(FIRST)
        known, most = self._followed[further.name], further.most(self.bench.scan)
        return max(self.best(FIRST), known[most - 1] if len(known) >= most else float("inf"))

    def refine(self, operator: SearchOperator, candidate: Candidate) -> float:
        """Refine a candidate; return the least objective of its plans, infinite where there are none."""
        least = float("inf")
        self._made.add((operator.name, candidate.plan))
        for found in operator.refine(self.bench, candidate):
            if self.accepts is not None and not self.accepts(found):
                continue
            value = self.value(found)
            least = min(least, value)
            self._drop(place for place, one in self.known.items() if operator.replaces(one, found))
            self.take(candidate.plan, found)
            if (further := self.followers.get(operator.name)) is not None:
                self.add(further, replace(candidate, value=value), value, further.sure)
                insort(self._followed[further.name], value)
        return least

    def _drop(self, places: Iterable[Plan]) -> None:
        for place in list(places):
            del self.known[place], self._values[place]

    def open_bound(self) -> float:
        """Return what no plan of the space is below that was not made; infinite where none is left.

        Where a scan kept as many candidates as it may, there are others, whose bounds are no less than the
        last one's.
        """
        left = [one.candidate.bound for one in self._waiting if one.operator.proves]
        kept = [(self.report.of(one.name), one.keeps(self.bench.scan)) for one in OPERATORS if one.proves]
        return min((*left, *(own[-1].bound for own, most in kept if len(own) >= most)), default=float("inf"))

    def refine_further(self, candidates: Iterable[Candidate]) -> None:
        """Refine those of the best rows of the scan that were not."""
        for operator in (one for one in OPERATORS if one.leads):
            for candidate in candidates:
                if (operator.name, candidate.plan) not in self._done:
                    self.refine(operator, candidate)


def least_bound(report: ScanReport) -> float:
    """Return what no plan of the space is below, as far as a scan tells; infinite where there is none."""
    first = (report.of(operator.name)[:1] for operator in OPERATORS if operator.proves)
    return min((one.bound for own in first for one in own), default=float("inf"))


def least_hope(report: ScanReport) -> float:
    """Return what no plan is below that a scan has or any operator makes of its candidates."""
    return min(least_bound(report), *(own.least_bound for own in report.candidates.values()), float("inf"))
