"""Fills the idle time of ranks with weight gradients, at one slot for each pass."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

from planner.techniques.schedules.family import Orders, Pass


def fill_idle(fixed: Sequence[Sequence[Pass]], route: int, limit: float = math.inf) -> Orders:
    """Play the passes in their fixed order; weight gradients that are missing run when a rank idles.

    ``fixed``: for each rank, all forwards and gradients and some weight gradients, in their order; ``route``:
    chunks that a micro-batch visits; ``limit``: activations of chunks that a rank may hold; at the limit a
    forward lets a weight gradient go first.
    """
    player = _Player(fixed, route, limit)
    waking = player.waking
    while (slot := min(waking)) < NEVER:
        for rank, wakes in enumerate(waking):
            if wakes == slot:
                waking[rank] = player.turn(rank, slot)
    return tuple(map(tuple, player.written))


NEVER = 2**62
"""The slot in which a rank wakes that is done, or waits for another."""


class _Player:
    """Runs one pass of a rank after another; a rank that cannot go on is parked at the cell it waits for.

    Cells are all forwards, chunk by chunk, and then all gradients.
    """

    def __init__(self, fixed: Sequence[Sequence[Pass]], route: int, limit: float) -> None:
        self.fixed, self.route, self.limit = fixed, route, limit
        self.microbatches = 1 + max((item.microbatch for passes in fixed for item in passes), default=0)
        chunks = 1 + max((item.chunk for passes in fixed for item in passes), default=0)
        self.size = chunks * self.microbatches
        self.placed = bytearray(self.size)
        for passes in fixed:
            for kind, chunk, microbatch in passes:
                if kind == "W":
                    self.placed[chunk * self.microbatches + microbatch] = 1
        self.sources = [[self._source(item) for item in passes] for passes in fixed]
        self.held = [0] * len(fixed)
        self.written: list[list[Pass]] = [[] for _ in fixed]
        self.spare: list[deque[Pass]] = [deque() for _ in fixed]
        self.position = [0] * len(fixed)
        self.ends = [NEVER] * (2 * self.size)
        self.parked = [-1] * (2 * self.size)
        self.waking = [0] * len(fixed)

    def turn(self, rank: int, now: int) -> int:
        """Let a rank run one pass, or wait; return the slot in which it wakes again."""
        place, passes, spare = self.position[rank], self.fixed[rank], self.spare[rank]
        if place == len(passes):
            self.written[rank] += spare
            return NEVER
        item, source = passes[place], self.sources[rank][place]
        ready = 0 if source < 0 else self.ends[source]
        full = spare and self.held[rank] >= self.limit and item.kind == "F"
        if ready <= now and not full:
            self.position[rank] = place + 1
            self._run(rank, item, now)
        elif spare:
            self.written[rank].append(spare.popleft())
            self.held[rank] -= 1
        else:
            if ready == NEVER:
                self.parked[source] = rank
            return ready
        return now + 1

    def _run(self, rank: int, item: Pass, now: int) -> None:
        """Run a pass that stands in its order, and wake who waits for it."""
        self.written[rank].append(item)
        kind, chunk, microbatch = item
        if kind == "W":
            self.held[rank] -= 1
            return
        cell = chunk * self.microbatches + microbatch
        if kind == "F":
            self.held[rank] += 1
        elif not self.placed[cell]:
            self.spare[rank].append(Pass("W", chunk, microbatch))
        if kind == "B":
            cell += self.size
        self.ends[cell] = now + 1
        if (waiter := self.parked[cell]) >= 0:
            self.waking[waiter] = now + 1

    def _source(self, item: Pass) -> int:
        """Return the cell of the pass of another chunk that must end first; -1 where there is none."""
        kind, chunk, microbatch = item
        cell = chunk * self.microbatches + microbatch
        if kind == "F":
            return cell - self.microbatches if chunk % self.route else -1
        if kind == "B":
            return cell if (chunk + 1) % self.route == 0 else cell + self.size + self.microbatches
        return -1
