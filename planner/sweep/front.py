"""What is best in a sweep: figures that compare across clusters, counts and batches; the Pareto front."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

import numpy as np

from planner.sweep.row import FITS, Row
from planner.units import HOUR

TOKENS: Final = 1e9
"""Tokens that hours and dollars are told for."""

K = TypeVar("K", bound=Hashable)


def step_tokens(best: Mapping[str, Any]) -> float:
    """Tokens of an optimizer step. [-]"""
    return float(best["seq_len"]) * float(best["global_batch"])


def hours(best: Mapping[str, Any]) -> float:
    """Hours for a billion tokens."""
    return float(best["step_time_s"]) / step_tokens(best) * TOKENS / HOUR


def dollars(best: Mapping[str, Any]) -> float:
    """Dollars for a billion tokens; infinite where the price is unknown."""
    return _per_token(best, "cost_usd_per_step") * TOKENS


def _per_token(best: Mapping[str, Any], name: str) -> float:
    value = best[name]
    return math.inf if value is None else float(value) / step_tokens(best)


OBJECTIVES: Final[dict[str, Callable[[Mapping[str, Any]], float]]] = {
    "time": hours,
    "cost": dollars,
    "memory": lambda best: float(best["peak_gib"]),
    "energy": lambda best: _per_token(best, "energy_j_per_step"),
}
"""What each objective makes least, on a scale that cases with other batches and lengths share."""


def fitting(rows: Iterable[Row]) -> list[Row]:
    """Return the rows with a plan that fits."""
    return [row for row in rows if row.outcome.status == FITS]


def grouped(rows: Iterable[Row], key: Callable[[Row], K]) -> dict[K, list[Row]]:
    """Return rows by group, groups and rows in the order given."""
    groups: dict[K, list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def best_rows(rows: Sequence[Row]) -> list[Row]:
    """Return the best row of each model on each cluster; of equals, the first of the grid."""
    groups = grouped(fitting(rows), lambda row: (row.case["models"], row.case["hardware"]))
    return [min(group, key=_objective) for group in groups.values()]


def _objective(row: Row) -> float:
    return OBJECTIVES[str(row.case.get("objective") or "time").lower()](row.best)


def pareto_rows(rows: Sequence[Row]) -> list[Row]:
    """Return the rows that no other of the same model and method beats in time, cost and memory.

    Time and cost are those of a token, memory is that of the peak accelerator. A row is beaten by one
    that is nowhere worse and somewhere better.
    """
    groups = grouped(fitting(rows), lambda row: (row.case["models"], row.best["method"]))
    return [row for group in groups.values() for row in _front(group)]


def _front(rows: list[Row]) -> list[Row]:
    names = ("time", "cost", "memory")
    values = np.array([[OBJECTIVES[name](row.best) for name in names] for row in rows])
    beaten = [bool(np.any(np.all(values <= one, axis=1) & np.any(values < one, axis=1))) for one in values]
    return [row for row, worse in zip(rows, beaten, strict=True) if not worse]
