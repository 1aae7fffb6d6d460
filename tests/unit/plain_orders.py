"""Searched and greedy orders laid out the plain way: every setting to its end, one queue of events."""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Sequence

from planner.techniques.schedules._sweep import SLACK, SweepSetting, settings
from planner.techniques.schedules.family import Kind, Orders, Pass, PassTimes


def plain_shortest_order(pp: int, microbatches: int, times: PassTimes, limit: float) -> Orders:
    """Play every setting to its end."""
    tries = [plain_sweep(pp, microbatches, times, limit, setting) for setting in settings(pp, times, limit)]
    return min(tries, key=lambda done: (round(done.span, 9), round(max(done.clock), 9))).orders()


def plain_sweep(
    pp: int, microbatches: int, times: PassTimes, limit: float, setting: SweepSetting
) -> PlainSweep:
    """Lay all passes out under one setting."""
    done = PlainSweep(pp, microbatches, times, limit, setting)
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


class PlainSweep:
    """Clocks, memory and passes of all ranks while an order is laid out."""

    def __init__(
        self, pp: int, microbatches: int, times: PassTimes, limit: float, setting: SweepSetting
    ) -> None:
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


_Key = tuple[Kind, int, int]
"""A pass as a key; a plain tuple is made in a fraction of a record's time."""


def plain_fill_idle(fixed: Sequence[Sequence[Pass]], route: int, limit: float = math.inf) -> Orders:
    """Play the passes in their fixed order; weight gradients that are missing run when a rank idles.

    Parameters
    ----------
    fixed : sequence of sequence of Pass
        For each rank, all forwards and gradients and some weight gradients, in their order.
    route : int
        Chunks that a micro-batch visits.
    limit : float
        Activations of chunks that a rank may hold; at the limit a forward lets a weight gradient go first.
    """
    player = PlainPlayer(fixed, route, limit)
    while player.events:
        player.step()
    return tuple(map(tuple, player.written))


class PlainPlayer:
    """Clock of all ranks; a rank that cannot go on is parked under the pass it waits for."""

    def __init__(self, fixed: Sequence[Sequence[Pass]], route: int, limit: float) -> None:
        self.fixed, self.route, self.limit = fixed, route, limit
        self.placed = {item for passes in fixed for item in passes if item.kind == "W"}
        self.held = [0] * len(fixed)
        self.written: list[list[Pass]] = [[] for _ in fixed]
        self.spare: list[deque[Pass]] = [deque() for _ in fixed]
        self.position = [0] * len(fixed)
        self.ends: dict[_Key, int] = {}
        self.parked: dict[_Key, int] = {}
        self.events = [(0, rank) for rank in range(len(fixed))]

    def step(self) -> None:
        """Let the rank with the earliest clock run one pass, or wait."""
        now, rank = heapq.heappop(self.events)
        if self.position[rank] == len(self.fixed[rank]):
            self.written[rank] += self.spare[rank]
            return
        item = self.fixed[rank][self.position[rank]]
        source = self._source(item)
        ready = 0 if source is None else self.ends.get(source)
        full = item.kind == "F" and self.held[rank] >= self.limit and self.spare[rank]
        if ready is not None and ready <= now and not full:
            self.position[rank] += 1
            self._run(rank, item, now)
        elif self.spare[rank]:
            self._run(rank, self.spare[rank].popleft(), now)
        elif ready is not None:
            heapq.heappush(self.events, (ready, rank))
        elif source is not None:
            self.parked[source] = rank

    def _run(self, rank: int, item: Pass, now: int) -> None:
        self.written[rank].append(item)
        self.ends[item] = now + 1
        heapq.heappush(self.events, (now + 1, rank))
        kind, chunk, microbatch = item
        if kind == "F":
            self.held[rank] += 1
        elif kind == "W":
            self.held[rank] -= 1
        elif kind == "B" and (weight := Pass("W", chunk, microbatch)) not in self.placed:
            self.spare[rank].append(weight)
        if item in self.parked:
            heapq.heappush(self.events, (now + 1, self.parked.pop(item)))

    def _source(self, item: Pass) -> _Key | None:
        """Return the pass of another chunk that must end first."""
        kind, chunk, microbatch = item
        if kind == "F":
            return ("F", chunk - 1, microbatch) if chunk % self.route else None
        if kind == "B":
            last = (chunk + 1) % self.route == 0
            return ("F", chunk, microbatch) if last else ("B", chunk + 1, microbatch)
        return None
