r"""Blocks of consecutive layers on a stage, with a lower bound of their time.

The price of a block is the fastest choice of strategies that fits, a knapsack over counts of equal layers.
Its Lagrangian relaxation with multiplier :math:`\lambda` for the memory,

.. math:: L(\lambda) = \sum_k n_k \min_s (t_{ks} + \lambda w_{ks}) - \lambda W,

is a bound for every :math:`\lambda \ge 0`, and the best of them is the linear program's. A strategy whose
reduced cost exceeds the gap between bound and best known answer cannot occur, which leaves few to count.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from planner.dataclasses import dataclass
from planner.numeric import Column
from planner.search.assign.problem import HUGE, AssignProblem, layer_kinds, rounded_up

Key = tuple[tuple[int, int], ...]
"""Kind and number of the equal layers of a block, sorted by kind."""


@dataclass(frozen=True)
class Blocks:
    """All blocks of at most so many layers."""

    keys: tuple[Key, ...]
    """The distinct ones."""
    counts: Column
    """Shape (blocks, K): layers of each kind in them. [-]"""
    index: NDArray[np.intp]
    """Shape (layers + 1, most + 1): distinct block that starts at a layer and has so many; -1 where there is
    none."""


def make_blocks(problem: AssignProblem, most: int) -> Blocks:
    """Return every block of one to ``most`` consecutive layers."""
    kinds = layer_kinds(problem)
    known: dict[Key, int] = {}
    index = np.full((len(kinds) + 1, most + 1), -1, dtype=np.intp)
    for start in range(len(kinds)):
        parts: list[tuple[int, int]] = []
        for size, kind in enumerate(kinds[start : start + most], 1):
            parts = _extended(parts, kind)
            index[start, size] = known.setdefault(tuple(parts), len(known))
    counts = np.zeros((len(known), problem.seconds.shape[0]))
    for key, place in known.items():
        for kind, count in key:
            counts[place, kind] += count
    return Blocks(tuple(known), counts, index)


def _extended(parts: list[tuple[int, int]], kind: int) -> list[tuple[int, int]]:
    """Return a block with one more layer."""
    counts = dict(parts)
    counts[kind] = counts.get(kind, 0) + 1
    return sorted(counts.items())


@dataclass(frozen=True)
class Relaxed:
    """The relaxation of one stage while no layer rebuilds more than so many bytes."""

    allowed: NDArray[np.bool_]
    """Shape (K, S): strategies that rebuild no more."""
    nbytes: Column
    """Shape (K, S): bytes of a layer for as long as it lives. [byte]"""
    room: float
    """Bytes for them. [byte]"""
    multipliers: Column
    """Shape (multipliers,): seconds for each byte. [s/byte]"""
    least: Column
    """Shape (K, multipliers): cheapest time plus what its bytes cost, of a layer. [s]"""
    smallest: Column
    """Shape (K,): fewest bytes of a layer. [byte]"""

    def bound(self, counts: Column) -> Column:
        """Seconds that blocks with these ``counts`` take at least; infinite where they do not fit. [s]"""
        fits = np.where(counts > 0, counts * self.smallest, 0.0).sum(axis=1) <= self.room
        values = _finite(counts, self.least) - self.multipliers * self.room
        return np.where(fits, values.max(axis=1), np.inf)

    def multiplier(self, counts: Column) -> float:
        """Return the multiplier with the best bound. [s/byte]"""
        values = _finite(counts[None, :], self.least)[0] - self.multipliers * self.room
        return float(self.multipliers[int(np.argmax(values))])


def _finite(counts: Column, least: Column) -> Column:
    """Matrix product in which no layers of a kind without strategies cost nothing."""
    usable = np.isfinite(least)
    result = counts @ np.where(usable, least, 0.0)
    missing = counts @ (~usable).astype(float)
    return np.where(missing > 0, np.inf, result)


class StageRelaxations:
    """The relaxations of one stage, one for each size of the largest rebuilt layer."""

    def __init__(self, problem: AssignProblem, stage: int) -> None:
        self.seconds, nbytes = problem.seconds, problem.layer_bytes[stage]
        useful = _useful(problem, nbytes)
        floor, extra = float(problem.floor_bytes[stage]), float(problem.extra_bytes[stage])
        room = rounded_up(float(problem.capacity[stage])) - extra
        self.relaxed = tuple(
            self._relaxed(useful & (problem.rebuilt <= size), nbytes, room - size)
            for size in map(float, np.unique(np.maximum(problem.rebuilt[useful], floor)))
        )

    def _relaxed(self, allowed: NDArray[np.bool_], nbytes: Column, room: float) -> Relaxed:
        multipliers = np.array(sorted({0.0, *_slopes(self.seconds, nbytes, allowed)}))
        priced = self.seconds[:, :, None] + multipliers * nbytes[:, :, None]
        least = np.where(allowed[:, :, None], priced, np.inf).min(axis=1)
        smallest = np.where(allowed, nbytes, HUGE).min(axis=1)
        return Relaxed(allowed, nbytes, room, multipliers, least, smallest)

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


def _useful(problem: AssignProblem, nbytes: Column) -> NDArray[np.bool_]:
    """Strategies that no other one of their kind beats in time, in bytes and in what is rebuilt."""
    useful = np.isfinite(problem.seconds)
    for kind, row in enumerate(useful):
        columns = np.stack([table[kind] for table in (problem.seconds, problem.rebuilt, nbytes)])
        for one in np.flatnonzero(row):
            others = row.copy()
            others[one] = False
            no_worse = (columns <= columns[:, [one]]).all(axis=0) & others
            row[one] = not no_worse.any()
    return useful


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


class BlockTable:
    """Blocks of a problem with their bounds on every stage.

    ``most``: layers of a block at most.
    """

    def __init__(self, problem: AssignProblem, most: int) -> None:
        self.blocks = make_blocks(problem, most)
        self.relaxations = tuple(StageRelaxations(problem, stage) for stage in range(problem.stages))
        self.extra = problem.extra_seconds

    @cached_property
    def bounds(self) -> Column:
        """What each block takes at least on each stage, the stage's extra included. [s]"""
        columns = [relaxation.bound(self.blocks.counts) for relaxation in self.relaxations]
        return np.stack(columns) + self.extra[:, None]
