"""Candidates of a scan: priced rows that are kept, and how the least of them are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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
