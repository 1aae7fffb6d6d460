"""What a scan reports: counts, and candidates, which are priced rows that are kept; and how the least are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import attrgetter, itemgetter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from planner.cost.step import StepPrice
from planner.numeric import Column
from planner.plan import Plan


@dataclass(frozen=True)
class Candidate:
    """A priced row of the scan."""

    value: float
    bound: float
    total_bytes: float
    plan: Plan


@dataclass
class ScanReport:
    """What a scan saw: counts by rule, and candidates.

    Parameters
    ----------
    enumerated, valid, fits, close : int
        Cells, legal plans, those that fit, and of these those too close to the limit to be offered.
    seconds : float
        Time spent in pricing. [s]
    skipped : int
        Legal plans with replicas of shards whose passes alone take too long to be kept: not priced.
    removed : Counter
        Cells by the first rule that they break.
    best, promising : list of Candidate
        The safe plans of least value, and of least bound.
    smallest : Candidate, optional
        The legal plan that needs the least memory.
    tight : list of Candidate
        Plans of least bound that are not safe with their default split, and may be with another one; where
        memory is the value, those that may need less than the best, by what any split of them needs.
    squeezed : list of Candidate
        Safe plans that are not safe without recompute, by the time to expect of them with as little as they
        need; their bound is that without recompute.
    hosted : list of Candidate
        Plans that are not safe, and may be with activations of some layers on the host, by the time that they
        then take at least: that is their bound too; where memory is the value, by the memory that they then
        need at least.
    """

    enumerated: int = 0
    valid: int = 0
    fits: int = 0
    close: int = 0
    seconds: float = 0.0
    skipped: int = 0
    removed: Counter[str] = field(default_factory=Counter)
    best: list[Candidate] = field(default_factory=list)
    promising: list[Candidate] = field(default_factory=list)
    smallest: Candidate | None = None
    tight: list[Candidate] = field(default_factory=list)
    squeezed: list[Candidate] = field(default_factory=list)
    hosted: list[Candidate] = field(default_factory=list)

    @property
    def least_bound(self) -> float:
        """Seconds that no safe plan beats, whatever its split; infinite where there is none. [s]"""
        first = (*self.promising[:1], *self.tight[:1], *self.hosted[:1])
        return min((one.bound for one in first), default=np.inf)

    def worst_kept(self, keep: int, shown: int) -> float:
        """Seconds that a plan must beat to be kept; infinite while there is room. [s]"""
        if len(self.best) < max(keep, shown) or len(self.promising) < keep:
            return float(np.inf)
        return max(self.best[-1].value, self.promising[-1].bound)


by_value: Final = attrgetter("value")
"""Order of candidates by the objective."""
by_bound: Final = attrgetter("bound")
"""Order of candidates by what no assignment of layers can beat."""


def merged(
    known: list[Candidate],
    keys: Column,
    among: NDArray[np.bool_],
    keep: int,
    made: Callable[[int], Candidate],
    order: Callable[[Candidate], float],
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
    found: list[tuple[float, Candidate | int]] = [(order(candidate), candidate) for candidate in known]
    found += zip(keys[better].tolist(), better.tolist(), strict=True)
    found.sort(key=itemgetter(0))
    return [made(one) if isinstance(one, int) else one for _, one in found[:keep]]


def candidate(result: StepPrice, plan: Plan, values: Column, index: int) -> Candidate:
    """Return one row of a priced batch as a candidate."""
    return Candidate(
        value=float(values[index]),
        bound=float(np.asarray(result.bound)[index]),
        total_bytes=float(np.asarray(result.total_bytes)[index]),
        plan=plan.row((index,)),
    )
