"""Fit a few constants of a kernel formula to measured times, and say how well they hold."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from planner.dataclasses import dataclass
from planner.numeric import Column

FOLDS = 5
ROBUST_SCALE = 0.05
"""Residual of log time beyond which a row pulls less: 5%. [-]"""

Columns = Mapping[str, Column]
"""Shapes of the measured rows, one array for each dimension, and ``seconds``."""

Model = Callable[[Mapping[str, float], Columns], Column]
"""Constants and shapes to seconds."""


@dataclass(frozen=True)
class Free:
    """One constant to fit: where the search starts and what it may become."""

    name: str
    start: float
    low: float
    high: float


@dataclass(frozen=True)
class Fit:
    """Fitted constants and their errors."""

    values: Mapping[str, float]
    """Constants, fitted and fixed, rounded to four figures."""
    rows: int
    """Rows that were fitted."""
    mean_error: float
    p90_error: float
    """Mean and 90th percentile of the absolute relative error on these rows. [-]"""
    held_out_error: float
    held_out_p90_error: float
    """The same where each fifth of the shapes is priced with constants fitted to the rest. [-]"""
    naive_error: float
    """Mean error of one constant rate, the best for these rows. [-]"""


def rounded(value: float, start: float) -> float:
    """Return ``value`` to four figures, as it is written and used; what is as good as nothing is zero."""
    return float(f"{value:.4g}") if abs(value) > 1e-4 * start else 0.0


def solve(
    model: Model, free: Sequence[Free], fixed: Mapping[str, float], columns: Columns
) -> dict[str, float]:
    """Return the constants that minimise a robust loss of log time."""
    from scipy.optimize import least_squares

    scale = np.array([one.start for one in free])
    target = np.log(columns["seconds"])

    def constants(point: Column) -> dict[str, float]:
        return dict(fixed) | {one.name: float(value) for one, value in zip(free, point * scale, strict=True)}

    def residuals(point: Column) -> Column:
        return np.asarray(np.log(model(constants(point), columns)) - target, dtype=np.float64)

    low, high = (np.array([getattr(one, side) for one in free]) / scale for side in ("low", "high"))
    answer = least_squares(
        residuals, np.ones(len(free)), bounds=(low, high), loss="soft_l1", f_scale=ROBUST_SCALE
    )
    values = zip(free, answer.x * scale, strict=True)
    return dict(fixed) | {one.name: rounded(float(value), one.start) for one, value in values}


def relative_errors(model: Model, values: Mapping[str, float], columns: Columns) -> Column:
    """Absolute error of each row as a share of the measured time."""
    return np.asarray(np.abs(model(values, columns) / columns["seconds"] - 1), dtype=np.float64)


def folds(columns: Columns) -> NDArray[np.int64]:
    """Assign each row to one of five folds by a checksum of its shape alone."""
    shapes = [columns[name] for name in sorted(columns) if name != "seconds"]
    keys = zip(*(shape.tolist() for shape in shapes), strict=True)
    return np.array([zlib.crc32(repr(key).encode()) % FOLDS for key in keys])


def chosen(columns: Columns, rows: NDArray[np.bool_]) -> dict[str, Column]:
    """Return the rows where the mask is true."""
    return {name: column[rows] for name, column in columns.items()}


def held_out_errors(
    model: Model, free: Sequence[Free], fixed: Mapping[str, float], columns: Columns
) -> Column:
    """Errors of each row under constants that were fitted without its fold."""
    fold = folds(columns)
    parts = []
    for one in np.unique(fold):
        values = solve(model, free, fixed, chosen(columns, fold != one))
        parts.append(relative_errors(model, values, chosen(columns, fold == one)))
    return np.concatenate(parts)


def naive_error(columns: Columns, work: Column) -> float:
    """Mean error of the best single rate, work over time."""
    rate = float(np.exp(np.median(np.log(work / columns["seconds"]))))
    return float(np.mean(np.abs(work / rate / columns["seconds"] - 1)))


def fit(
    model: Model, free: Sequence[Free], fixed: Mapping[str, float], columns: Columns, work: Column
) -> Fit:
    """Fit ``free`` constants of ``model`` to ``columns``.

    ``model``: constants and shapes to seconds; ``fixed``: constants that are known otherwise; ``work``: what
    a constant rate would divide: FLOP or bytes of each row.
    """
    values = solve(model, free, fixed, columns)
    errors = relative_errors(model, values, columns)
    held_out = held_out_errors(model, free, fixed, columns)
    return Fit(
        values=values,
        rows=errors.size,
        mean_error=float(errors.mean()),
        p90_error=float(np.quantile(errors, 0.9)),
        held_out_error=float(held_out.mean()),
        held_out_p90_error=float(np.quantile(held_out, 0.9)),
        naive_error=naive_error(columns, work),
    )
