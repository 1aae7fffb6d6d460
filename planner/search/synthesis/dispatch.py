"""List scheduling: ranks take what is ready, gradients first, and weight gradients where they would idle.

A try has a setting; the settings differ in how far forwards may run ahead, in how short a gap still takes a
weight gradient, and in who goes first.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from itertools import product
from typing import Final

from planner.dataclasses import dataclass
from planner.search.synthesis.problem import FORWARD, INPUT_GRADIENT, SLACK, OrderProblem, Words

LEAST_GAPS: Final = (0.0, 0.25, 0.5, 1.0)
FEW_GAPS: Final = (0.0, 0.5, 1.0)
DEEP_FIRST: Final = ((True, True), (True, False), (False, True), (False, False))


@dataclass(frozen=True)
class DispatchSetting:
    """One try."""

    leads: tuple[int, ...]
    """Most micro-batches between forward and input gradient of every chunk."""
    least_gap: float = 0.5
    """Share of a weight gradient's time that a gap must have to take one. [-]"""
    level: bool = False
    """Whether a weight gradient also goes into any gap that would make this rank the idlest."""
    free_early: bool = False
    """Whether a weight gradient goes first where memory keeps a forward waiting, whatever else is ready."""
    forward_first: bool = False
    """Whether forwards go before gradients."""
    deep_first: tuple[bool, bool] = (True, True)
    """Whether, of several chunks on a rank, the last goes first: among forwards, among gradients."""
    reserve: bool = True
    """Whether a forward leaves room for the same micro-batch in later chunks of the rank. Then no rank ever
    waits for room for ever."""


def settings(problem: OrderProblem) -> Iterator[DispatchSetting]:
    """Yield the settings to try, the likely ones first."""
    one = problem.chunks == problem.pp
    tries = product(
        _leads(problem),
        (False,) if one else (True, False),
        (False, True),
        LEAST_GAPS if one else FEW_GAPS,
        (False, True) if one else (False,),
        DEEP_FIRST[:1] if one else DEEP_FIRST,
        (False, True) if one else (False,),
    )
    for leads, reserve, early, gap, level, deep, forward_first in tries:
        yield DispatchSetting(leads, gap, level, early, forward_first, deep, reserve or one)


def _leads(problem: OrderProblem) -> list[tuple[int, ...]]:
    """Return how far ahead forwards may run: until a gradient can be back, as memory allows, as others do."""
    m, count = problem.microbatches, problem.chunks
    trips = [0.0]
    for chunk in reversed(range(count)):
        gradient = problem.input_gradient[chunk + 1] if chunk + 1 < count else 0.0
        trips.append(trips[-1] + problem.forward[chunk] + 2 * problem.latencies[chunk] + gradient)
    back = [
        int(trip / max(span, SLACK * trips[-1]) + SLACK) if trips[-1] else 1
        for trip, span in zip(reversed(trips[1:]), problem.forward, strict=True)
    ]
    tables = [
        [lead + 1 for lead in back],
        back,
        [m] * count,
        [2 * (count - chunk) - 1 for chunk in range(count)],
        [count - chunk for chunk in range(count)],
    ]
    return list(dict.fromkeys(tuple(max(1, min(m, lead)) for lead in table) for table in tables))


def dispatch(problem: OrderProblem, setting: DispatchSetting) -> Words | None:
    """Return the order of one try; None where ranks wait for room for ever."""
    run = _Dispatch(problem, setting)
    while run.events:
        clock, rank = heapq.heappop(run.events)
        run.step(rank, clock)
    return None if any(run.left) else run.words


class _Dispatch:
    """Clocks, memory and arrivals of all ranks while an order is laid out."""

    def __init__(self, problem: OrderProblem, setting: DispatchSetting) -> None:
        self.problem, self.setting = problem, setting
        self.arrivals: list[list[float]] = [[] for _ in problem.spans]
        self.arrivals[0] = [0.0] * problem.microbatches
        self.done = [0] * len(problem.spans)
        self.held = [0.0] * problem.pp
        self.idle = [0.0] * problem.pp
        self.clocks = [0.0] * problem.pp
        self.parked = [False] * problem.pp
        self.words: Words = [[] for _ in range(problem.pp)]
        self.left = [3 * problem.microbatches * len(chunks) for chunks in problem.on_rank]
        self.events = [(0.0, rank) for rank in range(problem.pp)]
        self.rooms = self._rooms()
        self.turns = [self._turns(chunks) for chunks in problem.on_rank]

    def _rooms(self) -> list[float]:
        """Return what a rank may hold at most before a forward of every chunk."""
        rooms = []
        for chunk, rank in enumerate(self.problem.ranks):
            later = self.problem.on_rank[rank] if self.setting.reserve else (chunk,)
            need = sum(self.problem.saved[other] for other in later if other >= chunk)
            rooms.append(self.problem.limits[rank] * (1.0 + SLACK) - need)
        return rooms

    def _turns(self, chunks: tuple[int, ...]) -> list[int]:
        """Return forwards and input gradients of a rank, those that go first at the front."""
        deep_forward, deep_gradient = self.setting.deep_first
        forwards = sorted((3 * chunk for chunk in chunks), reverse=deep_forward)
        gradients = sorted((3 * chunk + INPUT_GRADIENT for chunk in chunks), reverse=deep_gradient)
        return forwards + gradients if self.setting.forward_first else gradients + forwards

    def step(self, rank: int, clock: float) -> None:
        """Let a rank run one pass, wait for an arrival, or park until a message comes."""
        if not self.left[rank]:
            return
        ready, following, blocked = self._look(rank, clock)
        waiting = self._weight_gradient(rank)
        if waiting >= 0 and blocked and (ready < 0 or self.setting.free_early):
            ready = waiting
        if ready < 0 and waiting >= 0 and self._fills(rank, following - clock, waiting):
            ready = waiting
        if ready >= 0:
            self._run(rank, ready, clock)
        elif following < math.inf:
            self.idle[rank] += following - clock if self.words[rank] else 0.0
            heapq.heappush(self.events, (following, rank))
        else:
            self.parked[rank] = True
            self.clocks[rank] = clock

    def _look(self, rank: int, clock: float) -> tuple[int, float, bool]:
        """Return the pass that is ready, the next arrival known, and whether memory blocks a forward."""
        following, blocked, now = math.inf, False, clock * (1.0 + SLACK)
        for code in self.turns[rank]:
            microbatch = self.done[code]
            if microbatch >= len(self.arrivals[code]):
                continue
            arrival = self.arrivals[code][microbatch]
            if code % 3 == FORWARD:
                chunk = code // 3
                if microbatch - self.done[code + 1] >= self.setting.leads[chunk]:
                    continue
                if self.held[rank] > self.rooms[chunk]:
                    blocked = blocked or arrival <= now
                    continue
            if arrival <= now:
                return code, arrival, blocked
            following = min(following, arrival)
        return -1, following, blocked

    def _weight_gradient(self, rank: int) -> int:
        """Return the weight gradient of the chunk where most of them wait; -1 where none does."""
        best, most = -1, 0
        for chunk in self.problem.on_rank[rank]:
            waiting = self.done[3 * chunk + 1] - self.done[3 * chunk + 2]
            if waiting > most:
                best, most = 3 * chunk + 2, waiting
        return best

    def _fills(self, rank: int, gap: float, code: int) -> bool:
        """Say whether a weight gradient goes into a gap."""
        if gap >= self.setting.least_gap * self.problem.spans[code]:
            return True
        return self.setting.level and self.idle[rank] + gap > max(self.idle)

    def _run(self, rank: int, code: int, clock: float) -> None:
        end = clock + self.problem.spans[code]
        self.words[rank].append(code)
        self.done[code] += 1
        self.left[rank] -= 1
        self.held[rank] += self.problem.changes[code]
        heapq.heappush(self.events, (end, rank))
        target, latency = self.problem.targets[code]
        if target < 0:
            return
        self.arrivals[target].append(end + latency)
        other = self.problem.ranks[target // 3]
        if self.parked[other]:
            self.parked[other] = False
            heapq.heappush(self.events, (max(self.clocks[other], clock), other))
