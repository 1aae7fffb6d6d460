r"""Blocks of consecutive layers on a stage, with a lower bound of their time.

The price of a block is the fastest choice of strategies that fits, a knapsack over counts of equal layers.
Its Lagrangian relaxation with multiplier :math:`\lambda` for the memory,

.. math:: L(\lambda) = \sum_k n_k \min_s (t_{ks} + \lambda w_{ks}) - \lambda W,

is a bound for every :math:`\lambda \ge 0`, and the best of them is the linear program's. A strategy whose
reduced cost exceeds the gap between bound and best known answer cannot occur, which leaves few to count.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from planner.numeric import Column
from planner.search.assign.problem import HUGE, Budget, Problem, layer_kinds, rounded_up

Key = tuple[tuple[int, int], ...]
"""Kind and number of the equal layers of a block: sorted by kind where their order costs nothing."""

MOST_PRICES = 6
"""Multipliers tried for each limit beside the first."""


@dataclass(frozen=True)
class Blocks:
    """All blocks of at most so many layers.

    Parameters
    ----------
    keys : tuple of Key
        The distinct ones.
    counts : array (blocks, K)
        Layers of each kind in them. [-]
    index : array (layers + 1, most + 1)
        Distinct block that starts at a layer and has so many; -1 where there is none.
    """

    keys: tuple[Key, ...]
    counts: Column
    index: NDArray[np.intp]


def make_blocks(problem: Problem, most: int) -> Blocks:
    """Return every block of one to ``most`` consecutive layers."""
    kinds = layer_kinds(problem)
    ordered = problem.reshard is not None
    known: dict[Key, int] = {}
    index = np.full((len(kinds) + 1, most + 1), -1, dtype=np.intp)
    for start in range(len(kinds)):
        parts: list[tuple[int, int]] = []
        for size, kind in enumerate(kinds[start : start + most], 1):
            parts = _extended(parts, kind, ordered)
            index[start, size] = known.setdefault(tuple(parts), len(known))
    counts = np.zeros((len(known), problem.seconds.shape[0]))
    for key, place in known.items():
        for kind, count in key:
            counts[place, kind] += count
    return Blocks(tuple(known), counts, index)


def _extended(parts: list[tuple[int, int]], kind: int, ordered: bool) -> list[tuple[int, int]]:
    """Return a block with one more layer."""
    if ordered:
        if parts and parts[-1][0] == kind:
            return [*parts[:-1], (kind, parts[-1][1] + 1)]
        return [*parts, (kind, 1)]
    counts = dict(parts)
    counts[kind] = counts.get(kind, 0) + 1
    return sorted(counts.items())


@dataclass(frozen=True)
class Relaxed:
    """The relaxation of one stage while no layer rebuilds more than so many bytes.

    Parameters
    ----------
    allowed : array (K, S)
        Strategies that rebuild no more.
    budgets : tuple of Budget
        The limits of the stage, its memory first.
    multipliers : array (multipliers, budgets)
        Seconds for each unit of every limit. [s/byte]
    least : array (K, multipliers)
        Cheapest time plus what its weights cost, of a layer. [s]
    smallest : array (budgets, K)
        Fewest bytes of a layer. [byte]
    fixed : float
        What every block takes besides. [s]
    """

    allowed: NDArray[np.bool_]
    budgets: tuple[Budget, ...]
    multipliers: Column
    least: Column
    smallest: Column
    fixed: float = 0.0

    @cached_property
    def charge(self) -> Column:
        """What the rooms are worth under each multiplier. [s]"""
        rooms: Column = self.multipliers @ np.array([budget.room for budget in self.budgets])
        return rooms

    def bound(self, counts: Column) -> Column:
        """Seconds that blocks with these ``counts`` take at least; infinite where they do not fit. [s]"""
        present = counts > 0
        fits = np.ones(len(counts), dtype=bool)
        for budget, smallest in zip(self.budgets, self.smallest, strict=True):
            fits &= np.where(present, counts * smallest, 0.0).sum(axis=1) <= budget.room
        values = _finite(counts, self.least) - self.charge
        return np.where(fits, values.max(axis=1) + self.fixed, np.inf)

    def multiplier(self, counts: Column) -> Column:
        """Return the multipliers with the best bound. [s/byte]"""
        values = _finite(counts[None, :], self.least)[0] - self.charge
        best: Column = self.multipliers[int(np.argmax(values))]
        return best


def _finite(counts: Column, least: Column) -> Column:
    """Matrix product in which no layers of a kind without strategies cost nothing."""
    usable = np.isfinite(least)
    result = counts @ np.where(usable, least, 0.0)
    missing = counts @ (~usable).astype(float)
    return np.where(missing > 0, np.inf, result)


class StageRelaxations:
    """The relaxations of one stage, one for each size of the largest rebuilt layer.

    Parameters
    ----------
    problem : Problem
        Layers, strategies and stages.
    stage : int
        Which stage.
    thrifty : bool
        Whether bytes are minimised under all other limits, instead of seconds under all.
    """

    def __init__(self, problem: Problem, stage: int, thrifty: bool = False) -> None:
        nbytes, budgets = problem.layer_bytes[stage], problem.budgets(stage)
        possible = np.isfinite(problem.seconds)
        self.seconds = np.where(possible, nbytes, np.inf) if thrifty else problem.seconds
        weights = [budget.weights for budget in budgets] + ([] if thrifty else [nbytes])
        self.useful = _useful(problem, self.seconds, weights)
        floor, extra = float(problem.floor_bytes[stage]), float(problem.extra_bytes[stage])
        room = rounded_up(float(problem.capacity[stage])) - extra
        sizes = map(float, np.unique(np.maximum(problem.rebuilt[self.useful], floor)))
        self.relaxed = tuple(
            self._relaxed(self.useful & (problem.rebuilt <= size), budgets, size)
            if thrifty
            else self._relaxed(
                self.useful & (problem.rebuilt <= size), (Budget(nbytes, room - size), *budgets)
            )
            for size in sizes
        )

    def _relaxed(
        self, allowed: NDArray[np.bool_], budgets: tuple[Budget, ...], fixed: float = 0.0
    ) -> Relaxed:
        multipliers = _multipliers(self.seconds, budgets, allowed)
        priced = self.seconds[:, :, None]
        for column, budget in zip(multipliers.T, budgets, strict=True):
            priced = priced + column * budget.weights[:, :, None]
        least = np.where(allowed[:, :, None], priced, np.inf).min(axis=1)
        smallest = [np.where(allowed, budget.weights, HUGE).min(axis=1) for budget in budgets]
        return Relaxed(allowed, budgets, multipliers, least, np.array(smallest), fixed)

    def bound(self, counts: Column) -> Column:
        """Seconds that blocks with these ``counts`` take at least. [s]"""
        result = np.full(len(counts), np.inf)
        for relaxed in self.relaxed:
            result = np.minimum(result, relaxed.bound(counts))
        return result

    def by_bound(self, counts: Column) -> list[tuple[float, Relaxed]]:
        """Return the bounds of one block where it fits, with their relaxations, best first."""
        bounds = [(float(relaxed.bound(counts[None, :])[0]), relaxed) for relaxed in self.relaxed]
        return sorted((pair for pair in bounds if np.isfinite(pair[0])), key=lambda pair: pair[0])


def _useful(problem: Problem, seconds: Column, weights: list[Column]) -> NDArray[np.bool_]:
    """Strategies that no other one of their kind beats in time, in every weight and in what is rebuilt."""
    useful = np.isfinite(seconds)
    if problem.reshard is not None:
        return useful
    for kind, row in enumerate(useful):
        columns = np.stack([table[kind] for table in (seconds, problem.rebuilt, *weights)])
        for one in np.flatnonzero(row):
            others = row.copy()
            others[one] = False
            no_worse = (columns <= columns[:, [one]]).all(axis=0) & others
            row[one] = not no_worse.any()
    return useful


def _multipliers(seconds: Column, budgets: tuple[Budget, ...], allowed: NDArray[np.bool_]) -> Column:
    """Return multipliers for all limits: for some of every other limit those of the first that matter."""
    found: set[tuple[float, ...]] = set()
    others = [np.zeros(len(budgets))]
    for place, budget in enumerate(budgets[1:], 1):
        for price in _thinned(sorted(set(_slopes(seconds, budget.weights, allowed)))):
            others.append(price * np.eye(len(budgets))[place])
    for prices in others:
        priced = seconds
        for price, budget in zip(prices, budgets, strict=True):
            priced = priced + price * budget.weights if price else priced
        for slope in {0.0, *_slopes(priced, budgets[0].weights, allowed)}:
            found.add((slope, *prices[1:].tolist()))
    return np.array(sorted(found))


def _thinned(values: list[float]) -> list[float]:
    """Return some of many values, evenly."""
    if len(values) <= MOST_PRICES:
        return values
    return [values[place * (len(values) - 1) // (MOST_PRICES - 1)] for place in range(MOST_PRICES)]


def _slopes(seconds: Column, nbytes: Column, allowed: NDArray[np.bool_]) -> Iterator[float]:
    """Yield the slopes, in seconds saved for each further byte, of the lower hulls of all kinds."""
    for kind, row in enumerate(allowed):
        points = sorted((float(nbytes[kind, s]), float(seconds[kind, s])) for s in np.flatnonzero(row))
        hull: list[tuple[float, float]] = []
        for point in points:
            if hull and point[1] >= hull[-1][1]:
                continue
            while len(hull) > 1 and _slope(hull[-2], hull[-1]) <= _slope(hull[-1], point):
                hull.pop()
            hull.append(point)
        yield from (_slope(one, other) for one, other in pairwise(hull))


def _slope(one: tuple[float, float], other: tuple[float, float]) -> float:
    return (one[1] - other[1]) / (other[0] - one[0]) if other[0] > one[0] else np.inf


class Table:
    """Blocks of a problem with their bounds on every stage.

    Parameters
    ----------
    problem : Problem
        Layers, strategies and stages.
    most : int
        Layers of a block at most.
    thrifty : bool
        Whether a block's price is the bytes by which it exceeds a stage's capacity, instead of its seconds.
    """

    def __init__(self, problem: Problem, most: int, thrifty: bool = False) -> None:
        self.blocks = make_blocks(problem, most)
        stages = range(problem.stages)
        self.relaxations = tuple(StageRelaxations(problem, stage, thrifty) for stage in stages)
        self.extra = problem.extra_bytes - problem.capacity if thrifty else problem.extra_seconds

    @cached_property
    def bounds(self) -> Column:
        """What each block takes at least on each stage, the stage's extra included. [s]"""
        columns = [relaxation.bound(self.blocks.counts) for relaxation in self.relaxations]
        return np.stack(columns) + self.extra[:, None]
