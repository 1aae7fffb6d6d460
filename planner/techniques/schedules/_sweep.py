"""The Zero Bubble heuristic: orders of forward, input and weight gradient under a limit on activations.

Micro-batch by micro-batch, the gradients run up the ranks and the next forwards down, so that all arrivals
are known; weight gradients go into the gaps. A few settings are tried and the shortest span kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import product

from planner.dataclasses import dataclass, field
from planner.techniques.schedules.family import Kind, Orders, Pass, PassTimes

LEAST_GAPS = (0.1, 0.5, 1.0)
SLACK = 1e-9

CLEARLY = 1e-6
"""Share of a span by which a try must be behind to be given up: far more than rounding. [-]"""


@dataclass(frozen=True)
class SweepSetting:
    """One try."""

    warm_up: tuple[int, ...]
    """Forwards of each rank before its first gradient."""
    least_gap: float
    """Share of a weight gradient's time that a gap must have to take one. [-]"""
    level: bool
    """Whether a weight gradient also goes into any gap that would make this rank the idlest."""


def shortest_order(pp: int, microbatches: int, times: PassTimes, limit: float) -> Orders:
    """Return the order with the shortest span among the settings tried.

    ``times``: times of a rank's slice, and the share of activations kept for weight gradients; ``limit``:
    activations that a rank may hold, in micro-batches.

    Notes
    -----
    A setting that would have decided as another one did everywhere is not played again, and one that is
    already behind the best is given up.
    """
    work = microbatches * (times.forward + times.input_gradient + times.weight_gradient)
    best: OrderSweep | None = None
    played: set[SweepSetting] = set()
    for setting in (every := list(settings(pp, times, limit))):
        if setting in played:
            continue
        done = OrderSweep(pp, microbatches, times, limit, setting, every)
        most = math.inf if best is None else best.span + max(CLEARLY * best.span, 2 * SLACK) - work
        finished = done.play(most)
        played.update(done.alike)
        if finished and (best is None or done.rating < best.rating):
            best = done
    return () if best is None else best.orders()


def settings(pp: int, times: PassTimes, limit: float) -> Iterator[SweepSetting]:
    """Yield the settings to try: as far ahead as 1F1B, as ZB-H2, or as a rank has time for."""
    step, back = times.forward + times.hop, times.input_gradient + times.hop
    room = int(limit + SLACK)

    def until_first_gradient(rank: int) -> int:
        wait = (pp - 1 - rank) * (step + back) + times.forward
        return int(wait / times.forward + SLACK)

    leads: tuple[Callable[[int], int], ...] = (
        lambda rank: pp - rank,
        lambda rank: 2 * (pp - rank) - 1,
        until_first_gradient,
    )
    warm_ups = {
        tuple(max(1, pp - rank, min(room - rank, lead(rank))) for rank in range(pp)): None for lead in leads
    }
    for warm_up, least_gap, level in product(warm_ups, LEAST_GAPS, (False, True)):
        yield SweepSetting(warm_up, least_gap, level)


@dataclass(slots=True)
class Rank:
    """Clock, memory and passes of one rank while an order is laid out."""

    clock: float = 0.0
    begin: float = 0.0
    idle: float = 0.0
    """Times of its last end and first start, and what it has idled in between."""
    held: float = 0.0
    """Activations held, in micro-batches."""
    waiting: int = 0
    """Weight gradients that could run."""
    forward_ends: list[float] = field(default_factory=list)
    gradient_ends: list[float] = field(default_factory=list)
    """Ends of its passes, by micro-batch."""
    kinds: list[Kind] = field(default_factory=list)
    """Its passes; each kind takes the micro-batches in their order."""

    def run(self, kind: Kind, span: float, arrival: float) -> float:
        """Append a pass, as early as its input has arrived; return its end."""
        start = arrival if arrival > self.clock else self.clock
        if self.kinds:
            self.idle += start - self.clock
        else:
            self.begin = start
        self.kinds.append(kind)
        self.clock = start + span
        return self.clock

    def passes(self, chunk: int) -> tuple[Pass, ...]:
        """Return the passes with their micro-batches."""
        counts: dict[Kind, int] = {"F": 0, "B": 0, "W": 0}
        script: list[Pass] = []
        for kind in self.kinds:
            script.append(Pass(kind, chunk, counts[kind]))
            counts[kind] += 1
        return tuple(script)


class OrderSweep:
    """Lays all passes out under one setting.

    ``pp``, ``microbatches``, ``times`` and ``limit``: as for `shortest_order`; ``others``: those that
    may come to the same.
    """

    def __init__(
        self,
        pp: int,
        microbatches: int,
        times: PassTimes,
        limit: float,
        setting: SweepSetting,
        others: Sequence[SweepSetting],
    ) -> None:
        self.microbatches, self.times, self.limit, self.setting = microbatches, times, limit, setting
        self.ranks = [Rank() for _ in range(pp)]
        self.alike = [other for other in others if other.warm_up == setting.warm_up]

    def play(self, most_idle: float) -> bool:
        """Lay the passes out; give up, and say False, as soon as a rank has idled longer than that."""
        ranks, places = self.ranks, range(len(self.ranks))
        for place in places:
            for _ in range(min(self.microbatches, self.setting.warm_up[place])):
                self._forward(place)
        for microbatch in range(self.microbatches):
            for place in reversed(places):
                self._gradient(place, microbatch)
            for place in places:
                self._forward(place)
            if max([rank.idle for rank in ranks]) > most_idle:
                return False
        for rank in ranks:
            while rank.waiting:
                self._weight(rank)
        return True

    @property
    def span(self) -> float:
        """Longest time from first start to last end on one rank."""
        return max(rank.clock - rank.begin for rank in self.ranks)

    @property
    def rating(self) -> tuple[float, float]:
        """Span and makespan, to be small."""
        return round(self.span, 9), round(max(rank.clock for rank in self.ranks), 9)

    def orders(self) -> Orders:
        """Return the passes of all ranks."""
        return tuple(rank.passes(place) for place, rank in enumerate(self.ranks))

    def _forward(self, place: int) -> None:
        """Run the next forward of a rank, if its input exists and memory allows."""
        rank = self.ranks[place]
        microbatch, arrival = len(rank.forward_ends), 0.0
        if microbatch == self.microbatches:
            return
        if place:
            before = self.ranks[place - 1].forward_ends
            if len(before) == microbatch:
                return
            arrival = before[microbatch] + self.times.hop
        while rank.held + 1 > self.limit + SLACK:
            if not rank.waiting:
                return
            self._weight(rank)
        if rank.waiting:
            self._fill(rank, arrival)
        rank.held += 1
        rank.forward_ends.append(rank.run("F", self.times.forward, arrival))

    def _gradient(self, place: int, microbatch: int) -> None:
        """Run the next input gradient of a rank."""
        rank, times = self.ranks[place], self.times
        if place == len(self.ranks) - 1:
            arrival = rank.forward_ends[microbatch]
        else:
            arrival = self.ranks[place + 1].gradient_ends[microbatch] + times.hop
        if rank.waiting:
            self._fill(rank, arrival)
        rank.held -= 1 - times.kept_share
        rank.waiting += 1
        rank.gradient_ends.append(rank.run("B", times.input_gradient, arrival))

    def _weight(self, rank: Rank) -> None:
        """Run the oldest weight gradient that waits on a rank."""
        rank.run("W", self.times.weight_gradient, 0.0)
        rank.waiting -= 1
        rank.held -= self.times.kept_share

    def _fill(self, rank: Rank, arrival: float) -> None:
        """Put weight gradients into the gap before ``arrival``."""
        whole = self.times.weight_gradient
        while rank.waiting and arrival - rank.clock >= whole - SLACK:
            self._weight(rank)
        gap = arrival - rank.clock
        if gap <= SLACK or not rank.waiting:
            return
        idlest = rank.idle + gap > max([one.idle for one in self.ranks]) + SLACK

        def takes(setting: SweepSetting) -> bool:
            return gap >= setting.least_gap * whole or (setting.level and idlest)

        taken = takes(self.setting)
        if len(self.alike) > 1:
            self.alike = [other for other in self.alike if takes(other) == taken]
        if taken:
            self._weight(rank)
