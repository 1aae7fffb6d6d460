"""What a scan reports: counts, and candidates, which are priced rows that are kept; and how the least are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from operator import attrgetter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from planner.dataclasses import dataclass, field
from planner.numeric import Column
from planner.plan import Plan


@dataclass(frozen=True)
class Candidate:
    """A priced row of the scan."""

    value: float
    """Its objective, or what is to be expected of it once refined: seconds, or bytes where memory counts."""
    bound: float
    """What it is at least, once refined; in the same unit."""
    total_bytes: float
    """What it needs as it is. [byte]"""
    plan: Plan
    """Degrees and techniques, its layers split by default."""


@dataclass
class ScanReport:
    """What a scan saw: counts by rule, and candidates."""

    enumerated: int = 0
    valid: int = 0
    fits: int = 0
    close: int = 0
    """Cells, legal plans, those that fit, and of these those too close to the limit to be offered."""
    seconds: float = 0.0
    """Time spent in pricing. [s]"""
    skipped: int = 0
    """Legal plans with replicas of shards whose passes alone take too long to be kept: not priced."""
    removed: Counter[str] = field(default_factory=Counter)
    """Cells by the first rule that they break."""
    best: list[Candidate] = field(default_factory=list)
    """The safe plans of least value."""
    smallest: Candidate | None = None
    """The legal plan that needs the least memory."""
    candidates: dict[str, list[Candidate]] = field(default_factory=dict)
    """By the name of the operator that is to refine them: candidates in the order in which it takes them."""
    backed: ScanReport | None = None
    """The same of plans of measured kinds alone, where others must earn their lead."""

    def of(self, operator: str) -> list[Candidate]:
        """Return the candidates that wait for an operator."""
        return self.candidates.get(operator, [])


by_value: Final = attrgetter("value")
"""Order of candidates by what is expected of them."""
by_bound: Final = attrgetter("bound")
"""Order of candidates by what they are at least."""

Order = Callable[[Candidate], float]


@dataclass(frozen=True)
class Screened:
    """Rows of a chunk that are candidates."""

    values: Column
    bounds: Column
    """Shape (rows,): as those of a `Candidate`."""
    among: NDArray[np.bool_]
    """Shape (rows,): which rows are any."""


def merged(
    known: list[Candidate],
    keys: Column,
    among: NDArray[np.bool_],
    keep: int,
    made: Callable[[list[int]], list[Candidate]],
    order: Order,
) -> list[Candidate]:
    """Return the ``keep`` least of the known candidates and of the rows in ``among``, by ``keys``.

    ``order`` gives the key of a candidate; only rows that are kept are made one.
    """
    worst = order(known[-1]) if len(known) >= keep else np.inf
    better = np.flatnonzero(among & (keys < worst))
    if not better.size:
        return known
    if better.size > keep:
        better = better[np.argpartition(keys[better], keep - 1)[:keep]]
    size, rows = len(known), better.tolist()
    ranked = np.argsort([*map(order, known), *keys[better].tolist()], kind="stable")[:keep].tolist()
    new = [place for place in ranked if place >= size]
    found = dict(zip(new, made([rows[place - size] for place in new]), strict=True))
    return [known[place] if place < size else found[place] for place in ranked]
