"""What a scan reports: counts, and candidates, which are priced rows that are kept; and how the least are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Final, overload

import numpy as np
from numpy.typing import NDArray

from planner.dataclasses import dataclass, field
from planner.numeric import Column
from planner.plan import DEGREES, Plan, plans_of


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


Rows = NDArray[np.intp]


@dataclass(frozen=True)
class Shortlist(Sequence[Candidate]):
    """The candidates that a scan keeps so far, the first ones first, as columns: made where they are read.

    Each chunk drives out most of what was kept before it.
    """

    keys: Column
    """Shape (candidates,): what they are ordered by, rising."""
    table: Column
    """Shape (3 + degrees, candidates): value, bound and bytes of each, and the degrees of its plan."""
    names: NDArray[np.object_]
    """Shape (candidates,): the other fields of its plan."""

    @cached_property
    def made(self) -> list[Candidate]:
        """The candidates."""
        values, bounds, nbytes, *degrees = self.table.tolist()
        return list(map(Candidate, values, bounds, nbytes, plans_of(degrees, self.names.tolist())))

    def taken(self, places: Rows | slice) -> Shortlist:
        """Return some of them."""
        return Shortlist(self.keys[places], self.table[:, places], self.names[places])

    def merged(
        self, keys: Column, among: NDArray[np.bool_], most: int, taken: Callable[[Rows], Shortlist]
    ) -> Shortlist:
        """Return the ``most`` least of these and of some rows of a chunk, by ``keys``.

        ``among`` says which rows; ``taken`` returns rows as what is kept of them, with their keys.
        """
        worst = self.keys[-1] if len(self) >= most else np.inf
        better = np.flatnonzero(among & (keys < worst))
        if not better.size:
            return self
        if better.size > most:
            better = better[np.argpartition(keys[better], most - 1)[:most]]
        new = taken(better)
        both = np.concatenate([self.keys, new.keys])
        first = np.argsort(both, kind="stable")[:most]
        table = np.concatenate([self.table, new.table], axis=1).take(first, axis=1)
        return Shortlist(both[first], table, np.concatenate([self.names, new.names])[first])

    def __len__(self) -> int:
        return len(self.keys)

    def value(self, place: int) -> float:
        """Return the value of one of them."""
        return float(self.table[0, place])

    def bound(self, place: int) -> float:
        """Return the bound of one of them."""
        return float(self.table[1, place])

    @property
    def least_bound(self) -> float:
        """What any of them is at least; infinite where there are none."""
        return float(self.table[1].min(initial=np.inf))

    @overload
    def __getitem__(self, index: int) -> Candidate: ...
    @overload
    def __getitem__(self, index: slice) -> Shortlist: ...
    def __getitem__(self, index: int | slice) -> Candidate | Shortlist:
        return self.taken(index) if isinstance(index, slice) else self.made[index]

    def __eq__(self, other: object) -> bool:
        return self.made == list(other) if isinstance(other, Sequence) else NotImplemented

    def __hash__(self) -> int:
        return id(self)


NOTHING: Final = Shortlist(np.empty(0), np.empty((3 + len(DEGREES), 0)), np.empty(0, dtype=object))


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
    best: Shortlist = NOTHING
    """The safe plans of least value."""
    smallest: Candidate | None = None
    """The legal plan that needs the least memory."""
    candidates: dict[str, Shortlist] = field(default_factory=dict)
    """By the name of the operator that is to refine them: candidates in the order in which it takes them."""
    backed: ScanReport | None = None
    """The same of plans of measured kinds alone, where others must earn their lead."""

    def of(self, operator: str) -> Shortlist:
        """Return the candidates that wait for an operator."""
        return self.candidates.get(operator, NOTHING)


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
