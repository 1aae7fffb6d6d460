"""A site's factors from its runs: each run tells a little, since most of its error is its own layout's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from planner.calibrate.constants import Values
from planner.calibrate.fit import Column, Factor, log_errors
from planner.calibrate.runs.defaults import PricedRun

SCATTER: Final = 0.1
"""Spread of the runs of one site about what the best shares say, before they have spoken. [-]

Each published source priced with constants that have not seen it: the error that is left on its runs after
one other run has pinned the compute rate is least where that run counts with this spread.
"""

SCATTER_RUNS: Final = 4
"""Runs that the spread above counts for against the runs' own. [-]"""

STEP: Final = 0.02
"""Change of a factor's logarithm that tells how runs depend on it. [-]"""

LARGEST: Final = 0.3
"""Error above which a run says no more of the scatter. [-]"""

FARTHEST: Final = 6.0
"""Spreads beyond which a factor is not taken. [-]"""

ROUNDS: Final = 8


def slopes(runs: Sequence[PricedRun], factors: Sequence[Factor], values: Values, here: Column) -> Column:
    """Change of each run's logarithmic error with the logarithm of each factor. [-]"""
    moved = [
        log_errors(runs, dict(values) | {factor.key: values[factor.key] * float(np.exp(STEP))})
        for factor in factors
    ]
    return np.stack([(column - here) / STEP for column in moved], axis=1)


def scatter(errors: Column, factors: int) -> float:
    """Spread of runs by what is left of their errors, each factor having used up one, and by what was known.

    Examples
    --------
    >>> round(scatter(np.zeros(13), 1), 3), round(scatter(np.full(5, 0.2), 1), 3), scatter(np.full(1, 0.2), 1)
    (0.05, 0.158, 0.1)
    """
    free = max(errors.size - factors, 0)
    left = np.clip(errors, -LARGEST, LARGEST)
    total = SCATTER_RUNS * SCATTER * SCATTER + free * float(np.mean(left * left))
    return float(np.sqrt(total / (SCATTER_RUNS + free)))


def pinned(runs: Sequence[PricedRun], factors: Sequence[Factor], fixed: Values) -> tuple[Column, Column]:
    r"""Return the values of factors and the standard errors of their logarithms.

    .. math:: \min_x \sum_i \frac{w_i (e_i + J_i x)^2}{s^2} + \sum_j \frac{x_j^2}{\sigma_j^2}

    with the runs' errors :math:`e`, their scatter :math:`s`, the widths :math:`\sigma` of the factors, and
    weights that fall for runs beyond two scatters.

    Parameters
    ----------
    runs : sequence of PricedRun
        Timed runs, as few as one.
    factors : sequence of Factor
        What may change.
    fixed : mapping
        Constants that hold.
    """
    starts = {factor.key: factor.start for factor in factors}
    widths = np.array([factor.width for factor in factors])
    point, information = np.zeros(len(factors)), np.diag(1 / widths**2)
    for _ in range(ROUNDS):
        shifts = {factor.key: float(np.exp(x)) for factor, x in zip(factors, point, strict=True)}
        values = dict(fixed) | {key: start * shifts[key] for key, start in starts.items()}
        errors = log_errors(runs, values)
        spread = scatter(errors, len(factors))
        weights = 1 / np.sqrt(1 + (errors / (2 * spread)) ** 2) / spread**2
        slope = slopes(runs, factors, values, errors)
        pull = (slope * weights[:, None]).T @ slope + np.diag(1 / widths**2)
        change = -np.linalg.solve(pull, slope.T @ (weights * errors) + point / widths**2)
        information = slope.T @ slope / spread**2 + np.diag(1 / widths**2)
        point = np.clip(point + change, -FARTHEST * widths, FARTHEST * widths)
        if float(np.max(np.abs(change) / widths)) < 1e-4:
            break
    found = [
        float(f"{factor.start * float(np.exp(x)):.4g}") for factor, x in zip(factors, point, strict=True)
    ]
    errors = np.sqrt(np.diag(np.linalg.inv(information)))
    return np.array(found), np.array([float(f"{error:.2g}") for error in errors])
