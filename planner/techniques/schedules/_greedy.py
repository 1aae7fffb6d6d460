"""Fills the idle time of ranks with weight gradients, at one slot for each pass."""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Sequence

from planner.techniques.schedules._family import Kind, Orders, Pass

_Key = tuple[Kind, int, int]
"""A pass as a key; a plain tuple is made in a fraction of a record's time."""


def fill_idle(fixed: Sequence[Sequence[Pass]], route: int, limit: float = math.inf) -> Orders:
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
    player = _Player(fixed, route, limit)
    while player.events:
        player.step()
    return tuple(map(tuple, player.written))


class _Player:
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
