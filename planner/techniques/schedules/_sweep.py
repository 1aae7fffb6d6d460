"""The Zero Bubble heuristic: orders of forward, input and weight gradient under a limit on activations.

Micro-batch by micro-batch, the gradients run up the ranks and the next forwards down, so that all arrivals
are known; weight gradients go into the gaps. A few settings are tried and the shortest span kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

from planner.techniques.schedules._family import Kind, Orders, Pass, PassTimes

LEAST_GAPS = (0.1, 0.5, 1.0)
SLACK = 1e-9


@dataclass(frozen=True)
class Setting:
    """One try.

    Parameters
    ----------
    warm_up : tuple of int
        Forwards of each rank before its first gradient.
    least_gap : float
        Share of a weight gradient's time that a gap must have to take one. [-]
    level : bool
        Whether a weight gradient also goes into any gap that would make this rank the idlest.
    """

    warm_up: tuple[int, ...]
    least_gap: float
    level: bool


def shortest_order(pp: int, microbatches: int, times: PassTimes, limit: float) -> Orders:
    """Return the order with the shortest span among the settings tried.

    Parameters
    ----------
    pp, microbatches : int
        Ranks and micro-batches.
    times : PassTimes
        Times of a rank's slice, and the share of activations kept for weight gradients.
    limit : float
        Activations that a rank may hold, in micro-batches.
    """
    tries = [sweep(pp, microbatches, times, limit, setting) for setting in settings(pp, times, limit)]
    return min(tries, key=lambda done: (round(done.span, 9), round(max(done.clock), 9))).orders()


def settings(pp: int, times: PassTimes, limit: float) -> Iterator[Setting]:
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
        yield Setting(warm_up, least_gap, level)


def sweep(pp: int, microbatches: int, times: PassTimes, limit: float, setting: Setting) -> Sweep:
    """Lay all passes out under one setting."""
    done = Sweep(pp, microbatches, times, limit, setting)
    for rank in range(pp):
        for _ in range(min(microbatches, setting.warm_up[rank])):
            done.forward(rank)
    for microbatch in range(microbatches):
        for rank in reversed(range(pp)):
            done.gradient(rank, microbatch)
        for rank in range(pp):
            done.forward(rank)
    for rank in range(pp):
        while done.waiting[rank]:
            done.weight(rank)
    return done


class Sweep:
    """Clocks, memory and passes of all ranks while an order is laid out."""

    def __init__(self, pp: int, microbatches: int, times: PassTimes, limit: float, setting: Setting) -> None:
        self.pp, self.microbatches, self.times = pp, microbatches, times
        self.limit, self.setting = limit, setting
        self.clock = [0.0] * pp
        self.begin = [0.0] * pp
        self.idle = [0.0] * pp
        self.held = [0.0] * pp
        self.waiting = [0] * pp
        self.weights_done = [0] * pp
        self.forward_ends: list[list[float]] = [[] for _ in range(pp)]
        self.gradient_ends: list[list[float]] = [[] for _ in range(pp)]
        self.written: list[list[Pass]] = [[] for _ in range(pp)]

    @property
    def span(self) -> float:
        """Longest time from first start to last end on one rank."""
        return max(end - begin for end, begin in zip(self.clock, self.begin, strict=True))

    def orders(self) -> Orders:
        """Return the passes of all ranks."""
        return tuple(map(tuple, self.written))

    def forward(self, rank: int) -> None:
        """Run the next forward of a rank, if its input exists and memory allows."""
        microbatch = len(self.forward_ends[rank])
        if microbatch == self.microbatches or (rank and len(self.forward_ends[rank - 1]) == microbatch):
            return
        while self.held[rank] + 1 > self.limit + SLACK and self.waiting[rank]:
            self.weight(rank)
        if self.held[rank] + 1 > self.limit + SLACK:
            return
        arrival = self.forward_ends[rank - 1][microbatch] + self.times.hop if rank else 0.0
        self._fill(rank, arrival)
        self.held[rank] += 1
        self.forward_ends[rank].append(self._run(rank, "F", microbatch, self.times.forward, arrival))

    def gradient(self, rank: int, microbatch: int) -> None:
        """Run the next input gradient of a rank."""
        last = rank == self.pp - 1
        arrival = (
            self.forward_ends[rank][microbatch]
            if last
            else self.gradient_ends[rank + 1][microbatch] + self.times.hop
        )
        self._fill(rank, arrival)
        self.held[rank] -= 1 - self.times.kept_share
        self.waiting[rank] += 1
        self.gradient_ends[rank].append(self._run(rank, "B", microbatch, self.times.input_gradient, arrival))

    def weight(self, rank: int) -> None:
        """Run the oldest weight gradient that waits on a rank."""
        self._run(rank, "W", self.weights_done[rank], self.times.weight_gradient, 0.0)
        self.weights_done[rank] += 1
        self.waiting[rank] -= 1
        self.held[rank] -= self.times.kept_share

    def _fill(self, rank: int, arrival: float) -> None:
        """Put weight gradients into the gap before ``arrival``."""
        whole = self.times.weight_gradient
        while self.waiting[rank] and arrival - self.clock[rank] >= whole - SLACK:
            self.weight(rank)
        gap = arrival - self.clock[rank]
        if gap <= SLACK or not self.waiting[rank]:
            return
        worst = self.setting.level and self.idle[rank] + gap > max(self.idle) + SLACK
        if gap >= self.setting.least_gap * whole or worst:
            self.weight(rank)

    def _run(self, rank: int, kind: Kind, microbatch: int, span: float, arrival: float) -> float:
        start = max(self.clock[rank], arrival)
        if self.written[rank]:
            self.idle[rank] += start - self.clock[rank]
        else:
            self.begin[rank] = start
        self.written[rank].append(Pass(kind, rank, microbatch))
        self.clock[rank] = start + span
        return self.clock[rank]
