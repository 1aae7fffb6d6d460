"""Which point to measure next: first what no curve can do without, then where the curve is least certain."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from planner.numeric import Column
from planner.profile.benches.family import Point

NEIGHBOURS: Final = 4
"""Measured points that say how much the rate varies around a candidate. [-]"""
FARTHEST: Final = 3.0
"""Distance beyond which a point is no better known for being nearer: three doublings. [-]"""
FLOOR: Final = 0.02
"""Variation of the rate that is assumed where the neighbours agree. [-]"""
BASIS: Final = 6
"""Matrix products without which no curve is fitted. [-]"""

Timed = tuple[Point, float]
"""A measured point and its seconds."""


def interleaved(groups: Sequence[Sequence[Point]]) -> list[Point]:
    """Return the points of all groups in turn, so that an early end leaves something of each.

    Examples
    --------
    >>> interleaved([[1, 2, 3], [4]])  # any objects
    [1, 4, 2, 3]
    """
    rounds = itertools.zip_longest(*groups)
    return [point for group in rounds for point in group if point is not None]


def basis_first(points: Sequence[Point]) -> list[Point]:
    """Return the points with as many matrix products first as their curve needs: all curves rest on it."""
    products = [point for point in points if point.bench == "gemm"]
    basis = [point.key for point in products if point.dtype == products[0].dtype][:BASIS]
    return sorted(points, key=lambda point: point.key not in basis)


def coordinates(point: Point) -> Column:
    """Place of a point: the logarithms to base 2 of its sizes."""
    return np.array([math.log2(size) for size in point.shape.values()])


@dataclass
class Candidates:
    """Points of one family that may be measured, with their nearest measured points."""

    points: list[Point]
    """The candidates, one row of each array below for each."""
    places: Column
    """Their coordinates."""
    open: NDArray[np.bool_]
    """Which of them are neither measured nor refused."""
    distances: Column
    rates: Column
    """To the nearest measured points, and the logarithms of their rates; infinite where there are fewer."""

    @property
    def scores(self) -> Column:
        """How little is known of a candidate: its distance from what was measured times the variation there.

        The expected error of the logarithm of its time; infinite where nothing is measured, minus infinity
        where the candidate is not open. [-]
        """
        near = np.isfinite(self.distances)
        count = np.maximum(near.sum(axis=1), 1)
        rates = np.where(near, self.rates, 0.0)
        mean = rates.sum(axis=1) / count
        spread = np.sqrt((np.where(near, rates - mean[:, None], 0.0) ** 2).sum(axis=1) / count)
        varies = np.where(near.sum(axis=1) > 1, spread, 1.0)
        known = np.minimum(self.distances[:, 0], FARTHEST) * (varies + FLOOR)
        return np.where(self.open, np.where(near[:, 0], known, np.inf), -np.inf)

    def learn(self, point: Point, seconds: float) -> None:
        """Put a measured point among the nearest of those it is near to."""
        distance = np.sqrt(((self.places - coordinates(point)) ** 2).sum(axis=1))
        rate = np.full(distance.shape, math.log(seconds / point.size))
        distances = np.column_stack([self.distances, distance])
        rates = np.column_stack([self.rates, rate])
        nearest = np.argsort(distances, axis=1, kind="stable")[:, :NEIGHBOURS]
        self.distances = np.take_along_axis(distances, nearest, axis=1)
        self.rates = np.take_along_axis(rates, nearest, axis=1)


def candidates(points: list[Point]) -> Candidates:
    """Return points of one family, of which nothing is known."""
    places = np.array([coordinates(point) for point in points])
    unknown = np.full((len(points), NEIGHBOURS), np.inf)
    return Candidates(points, places, np.ones(len(points), dtype=bool), unknown, unknown.copy())


class Adaptive:
    """Chooses among candidates as measurements come in."""

    def __init__(self, points: Sequence[Point], measured: Sequence[Timed] = ()) -> None:
        groups: dict[tuple[str, str, str], list[Point]] = {}
        for point in {point.key: point for point in points}.values():
            groups.setdefault(point.family, []).append(point)
        self.families = {family: candidates(group) for family, group in groups.items()}
        self.places = {
            point.key: (family, row) for family, group in groups.items() for row, point in enumerate(group)
        }
        self.best: dict[tuple[str, str, str], tuple[float, Point]] = {}
        for point, seconds in measured:
            self.learn(point, seconds)

    def learn(self, point: Point, seconds: float | None) -> None:
        """Take a measured point into account; without seconds the device refused it."""
        self.best.pop(point.family, None)
        if point.key in self.places:
            family, row = self.places[point.key]
            self.families[family].open[row] = False
        if seconds is not None and point.family in self.families:
            self.families[point.family].learn(point, seconds)

    def __iter__(self) -> Iterator[Point]:
        """Yield the least certain candidate, again and again, until none is left."""
        while self.families:
            for name, family in self.families.items():
                if name not in self.best:
                    scores = family.scores
                    row = int(np.argmax(scores))
                    self.best[name] = float(scores[row]), family.points[row]
            score, point = max(self.best.values(), key=lambda one: one[0])
            if score == -math.inf:
                return
            yield point
