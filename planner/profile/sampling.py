"""Which point to measure next: first what no curve can do without, then where the curve is least certain."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from planner.numeric import Column
from planner.profile.benches._family import Point

NEIGHBOURS: Final = 4
"""Measured points that say how much the rate varies around a candidate. [-]"""
FARTHEST: Final = 3.0
"""Distance beyond which a point is no better known for being nearer: three doublings. [-]"""
FLOOR: Final = 0.02
"""Variation of the rate that is assumed where the neighbours agree. [-]"""

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


def coordinates(point: Point) -> Column:
    """Place of a point: the logarithms to base 2 of its sizes."""
    return np.array([math.log2(size) for size in point.shape.values()])


def uncertainty(candidate: Point, measured: Sequence[Timed]) -> float:
    """How little is known of a candidate: its distance from what was measured, times the variation there.

    Parameters
    ----------
    candidate : Point
        A point that was not measured.
    measured : sequence of (Point, float)
        Points of the same family with their seconds.

    Returns
    -------
    float
        Expected error of the logarithm of its time; infinite where the family has no point. [-]
    """
    if not measured:
        return math.inf
    places = np.array([coordinates(point) for point, _ in measured])
    rates = np.array([math.log(seconds / point.size) for point, seconds in measured])
    distances = np.sqrt(((places - coordinates(candidate)) ** 2).sum(axis=1))
    nearest = np.argsort(distances, kind="stable")[:NEIGHBOURS]
    varies = float(np.std(rates[nearest])) if nearest.size > 1 else 1.0
    return min(float(distances[nearest[0]]), FARTHEST) * (varies + FLOOR)


class Adaptive:
    """Chooses among candidates as measurements come in.

    Parameters
    ----------
    candidates : sequence of Point
        What may be measured.
    measured : sequence of (Point, float)
        What was measured before.
    """

    def __init__(self, candidates: Sequence[Point], measured: Sequence[Timed] = ()) -> None:
        self.left: dict[tuple[str, str, str], dict[str, Point]] = {}
        self.measured: dict[tuple[str, str, str], list[Timed]] = {}
        self.scores: dict[str, float] = {}
        for point in candidates:
            self.left.setdefault(point.family, {})[point.key] = point
        for point, seconds in measured:
            self.learn(point, seconds)
        for family in self.left:
            self._score(family)

    def learn(self, point: Point, seconds: float | None) -> None:
        """Take a measured point into account; without seconds the device refused it."""
        self.left.get(point.family, {}).pop(point.key, None)
        if seconds is not None:
            self.measured.setdefault(point.family, []).append((point, seconds))
        self._score(point.family)

    def _score(self, family: tuple[str, str, str]) -> None:
        known = self.measured.get(family, [])
        self.scores |= {key: uncertainty(point, known) for key, point in self.left.get(family, {}).items()}

    def __iter__(self) -> Iterator[Point]:
        """Yield the least certain candidate, again and again, until none is left."""
        while points := {key: point for family in self.left.values() for key, point in family.items()}:
            yield points[max(points, key=self.scores.__getitem__)]


def families(points: Sequence[Point]) -> Mapping[str, list[Point]]:
    """Return points by their bench."""
    found: dict[str, list[Point]] = {}
    for point in points:
        found.setdefault(point.bench, []).append(point)
    return found
