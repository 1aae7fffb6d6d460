"""The fastest choice of strategies for a block on a stage: branch and bound over counts of equal layers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from planner.search.assign.blocks import Key, Relaxed, StageRelaxations
from planner.search.assign.problem import Problem, Segment, Stage, reshard_seconds

MOST_NODES = 20_000
"""Partial choices tried for a block before its bound is left open."""

TIE = 1e-12
"""Relative difference below which two reduced costs are equal."""


Weights = tuple[float, ...]
"""What is taken of every limit of a stage."""


@dataclass(frozen=True)
class Choice:
    """What is known of a block on a stage.

    Parameters
    ----------
    seconds : float
        Time of the best choice found, or infinite. [s]
    bound : float
        Time that no choice beats; equal to ``seconds`` where the search was complete. [s]
    stage : Stage
        The choice.
    """

    seconds: float
    bound: float
    stage: Stage


@dataclass(frozen=True)
class Item:
    """A strategy that some layers of a part may take instead of the part's base strategy."""

    part: int
    strategy: int
    reduced: float
    seconds: float
    weights: Weights


def fastest(problem: Problem, relaxations: StageRelaxations, key: Key, counts: Sequence[float]) -> Choice:
    """Return the fastest choice that fits for a block, without the stage's extra.

    Parameters
    ----------
    problem : Problem
        Layers, strategies and stages.
    relaxations : StageRelaxations
        Those of the stage.
    key : Key
        Kind and number of the equal layers.
    counts : sequence of float
        Layers of each kind.
    """
    column = np.asarray(counts, float)
    best = Choice(np.inf, np.inf, ())
    bound = np.inf
    for least, relaxed in relaxations.by_bound(column):
        if least >= best.seconds:
            break
        found = _Counting(problem, relaxations, relaxed, key, column, best).run()
        bound = min(bound, found.bound)
        best = found if found.seconds < best.seconds else best
    return Choice(best.seconds, min(bound, best.seconds), best.stage)


def _plus(used: Weights, weights: Sequence[float], count: int) -> Weights:
    """Return what is taken with so many more layers."""
    return tuple([held + count * weight for held, weight in zip(used, weights, strict=True)])


class _Counting:
    """One branch and bound: layers leave their part's base strategy, dearest alternatives first."""

    def __init__(
        self,
        problem: Problem,
        relaxations: StageRelaxations,
        relaxed: Relaxed,
        key: Key,
        counts: np.ndarray,
        known: Choice,
    ) -> None:
        self.problem, self.key, self.fixed = problem, key, relaxed.fixed
        self.rooms = tuple(budget.room for budget in relaxed.budgets)
        self.best, self.stage = known.seconds - relaxed.fixed, known.stage
        self.nodes = 0
        multiplier = relaxed.multiplier(counts)
        weights = np.array([budget.weights for budget in relaxed.budgets])
        priced = relaxations.seconds + np.tensordot(multiplier, weights, axes=1)
        self.base: list[int] = []
        self.items: list[Item] = []
        self.least, self.start_seconds = -float(multiplier @ np.array(self.rooms)), 0.0
        self.start_used: Weights = (0.0,) * len(self.rooms)
        for part, (kind, count) in enumerate(key):
            allowed = np.flatnonzero(relaxed.allowed[kind]).tolist()
            cheapest = float(priced[kind, allowed].min())
            ties = [s for s in allowed if priced[kind, s] <= cheapest + TIE * abs(cheapest)]
            seconds, used = relaxations.seconds[kind], weights[:, kind, :]
            base = min(ties, key=lambda s, used=used, seconds=seconds: (*used[:, s], seconds[s]))  # type: ignore[misc]
            self.base.append(base)
            self.least += count * cheapest
            self.start_seconds += count * float(seconds[base])
            self.start_used = _plus(self.start_used, used[:, base].tolist(), count)
            self.items += [
                Item(
                    part,
                    s,
                    max(0.0, float(priced[kind, s]) - cheapest),
                    float(seconds[s] - seconds[base]),
                    tuple((used[:, s] - used[:, base]).tolist()),
                )
                for s in allowed
                if s != base
            ]
        self.items.sort(key=lambda item: (-item.reduced, item.seconds))

    def run(self) -> Choice:
        """Search, and say what was found and what is left open."""
        left = [count for _, count in self.key]
        if self.items:
            self._last([0] * len(self.items), left, self.start_seconds, self.start_used)
            gap = self.best - self.least
            self.items = [item for item in self.items if item.reduced <= gap]
        self._branch(0, [0] * len(self.items), left, self.start_seconds, self.start_used, self.least)
        bound = self.best if self.nodes <= MOST_NODES else min(self.best, self.least)
        return Choice(self.best + self.fixed, bound + self.fixed, self.stage)

    def _branch(
        self, depth: int, taken: list[int], left: list[int], seconds: float, used: Weights, least: float
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
                _plus(used, item.weights, count),
                least + count * item.reduced,
            )
        taken[depth], left[item.part] = 0, free

    def _hopeless(self, least: float) -> bool:
        return least >= self.best - TIE * abs(self.best)

    def _last(self, taken: list[int], left: list[int], seconds: float, used: Weights) -> None:
        """Choose the count of the last item, in closed form where an order costs nothing."""
        if not self.items:
            self._keep(taken, seconds, used)
            return
        item = self.items[-1]
        for count in self._last_counts(item, left[item.part], used):
            taken[-1] = count
            self._keep(taken, seconds + count * item.seconds, _plus(used, item.weights, count))
        taken[-1] = 0

    def _last_counts(self, item: Item, free: int, used: Weights) -> Iterator[int]:
        if self.problem.reshard is not None:
            yield from range(free + 1)
            return
        low, high = 0, free
        for weight, room, held in zip(item.weights, self.rooms, used, strict=True):
            if weight > 0:
                high = min(high, int((room - held) // weight))
            elif weight < 0 and held > room:
                low = max(low, int(np.ceil((held - room) / -weight)))
        if low <= high:
            yield high if item.seconds < 0 else low

    def _keep(self, taken: list[int], seconds: float, used: Weights) -> None:
        """Keep a complete choice where it fits and is the fastest so far."""
        if seconds >= self.best or any(held > room for held, room in zip(used, self.rooms, strict=True)):
            return
        stage = self._stage(taken)
        seconds += reshard_seconds(self.problem, [part.strategy for part in stage])
        if seconds < self.best:
            self.best, self.stage = seconds, stage

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
