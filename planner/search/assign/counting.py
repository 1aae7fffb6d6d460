"""The fastest choice of strategies for a block on a stage: branch and bound over counts of equal layers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from planner.dataclasses import dataclass
from planner.search.assign.blocks import Key, Relaxed, StageRelaxations
from planner.search.assign.problem import Segment, Stage

MOST_NODES = 20_000
"""Partial choices tried for a block before its bound is left open."""

TIE = 1e-12
"""Relative difference below which two reduced costs are equal."""


@dataclass(frozen=True)
class LayerChoice:
    """What is known of a block on a stage."""

    seconds: float
    """Time of the best choice found, or infinite. [s]"""
    bound: float
    """Time that no choice beats; equal to ``seconds`` where the search was complete. [s]"""
    stage: Stage
    """The choice."""


@dataclass(frozen=True)
class Item:
    """A strategy that some layers of a part may take instead of the part's base strategy."""

    part: int
    strategy: int
    reduced: float
    seconds: float
    nbytes: float


def fastest(relaxations: StageRelaxations, key: Key, counts: Sequence[float]) -> LayerChoice:
    """Return the fastest choice that fits for a block, without the stage's extra.

    ``key``: kind and number of the equal layers.
    """
    column = np.asarray(counts, float)
    best = LayerChoice(np.inf, np.inf, ())
    bound = np.inf
    for least, relaxed in relaxations.by_bound(column):
        if least >= best.seconds:
            break
        found = _Counting(relaxations, relaxed, key, column, best).run()
        bound = min(bound, found.bound)
        best = found if found.seconds < best.seconds else best
    return LayerChoice(best.seconds, min(bound, best.seconds), best.stage)


class _Counting:
    """One branch and bound: layers leave their part's base strategy, dearest alternatives first."""

    def __init__(
        self,
        relaxations: StageRelaxations,
        relaxed: Relaxed,
        key: Key,
        counts: np.ndarray,
        known: LayerChoice,
    ) -> None:
        self.key, self.room = key, relaxed.room
        self.best, self.stage = known.seconds, known.stage
        self.nodes = 0
        multiplier = relaxed.multiplier(counts)
        priced = relaxations.seconds + multiplier * relaxed.nbytes
        self.base: list[int] = []
        self.items: list[Item] = []
        self.least, self.start_seconds, self.start_used = -multiplier * self.room, 0.0, 0.0
        for part, (kind, count) in enumerate(key):
            allowed = np.flatnonzero(relaxed.allowed[kind]).tolist()
            cheapest = float(priced[kind, allowed].min())
            ties = [s for s in allowed if priced[kind, s] <= cheapest + TIE * abs(cheapest)]
            seconds, used = relaxations.seconds[kind], relaxed.nbytes[kind]
            base = min(ties, key=lambda s, used=used, seconds=seconds: (used[s], seconds[s]))  # type: ignore[misc]
            self.base.append(base)
            self.least += count * cheapest
            self.start_seconds += count * float(seconds[base])
            self.start_used += count * float(used[base])
            self.items += [
                Item(
                    part,
                    s,
                    max(0.0, float(priced[kind, s]) - cheapest),
                    float(seconds[s] - seconds[base]),
                    float(used[s] - used[base]),
                )
                for s in allowed
                if s != base
            ]
        self.items.sort(key=lambda item: (-item.reduced, item.seconds))

    def run(self) -> LayerChoice:
        """Search, and say what was found and what is left open."""
        left = [count for _, count in self.key]
        if self.items:
            self._last([0] * len(self.items), left, self.start_seconds, self.start_used)
            gap = self.best - self.least
            self.items = [item for item in self.items if item.reduced <= gap]
        self._branch(0, [0] * len(self.items), left, self.start_seconds, self.start_used, self.least)
        bound = self.best if self.nodes <= MOST_NODES else min(self.best, self.least)
        return LayerChoice(self.best, bound, self.stage)

    def _branch(
        self, depth: int, taken: list[int], left: list[int], seconds: float, used: float, least: float
    ) -> None:
        self.nodes += 1
        if self.nodes > MOST_NODES or self._hopeless(least):
            return
        if depth >= len(self.items) - 1:
            self._last(taken, left, seconds, used)
            return
        item = self.items[depth]
        free = left[item.part]
        for count in range(free + 1):
            if self._hopeless(least + count * item.reduced):
                break
            taken[depth], left[item.part] = count, free - count
            self._branch(
                depth + 1,
                taken,
                left,
                seconds + count * item.seconds,
                used + count * item.nbytes,
                least + count * item.reduced,
            )
        taken[depth], left[item.part] = 0, free

    def _hopeless(self, least: float) -> bool:
        return least >= self.best - TIE * abs(self.best)

    def _last(self, taken: list[int], left: list[int], seconds: float, used: float) -> None:
        """Choose the count of the last item, in closed form."""
        if not self.items:
            self._keep(taken, seconds, used)
            return
        item = self.items[-1]
        for count in self._last_counts(item, left[item.part], used):
            taken[-1] = count
            self._keep(taken, seconds + count * item.seconds, used + count * item.nbytes)
        taken[-1] = 0

    def _last_counts(self, item: Item, free: int, used: float) -> Iterator[int]:
        low, high = 0, free
        if item.nbytes > 0:
            high = min(high, int((self.room - used) // item.nbytes))
        elif item.nbytes < 0 and used > self.room:
            low = max(low, int(np.ceil((used - self.room) / -item.nbytes)))
        if low <= high:
            yield high if item.seconds < 0 else low

    def _keep(self, taken: list[int], seconds: float, used: float) -> None:
        """Keep a complete choice where it fits and is the fastest so far."""
        if seconds < self.best and used <= self.room:
            self.best, self.stage = seconds, self._stage(taken)

    def _stage(self, taken: list[int]) -> Stage:
        """Return the choice as segments, strategies of a part in their listed order."""
        chosen = [{base: count} for base, (_, count) in zip(self.base, self.key, strict=True)]
        for item, count in zip(self.items, taken, strict=True):
            chosen[item.part][item.strategy] = count
            chosen[item.part][self.base[item.part]] -= count
        return tuple(
            Segment(kind, strategy, count)
            for (kind, _), counts in zip(self.key, chosen, strict=True)
            for strategy, count in sorted(counts.items())
            if count
        )
