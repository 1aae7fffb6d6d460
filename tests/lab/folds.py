"""How far runs are from what the others say: each priced with constants fitted without its group."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np

from planner.calibrate.constants import Values
from planner.calibrate.fit import ROWS_PER_FACTOR, SOFT, Column, Errors, Factor, fit, log_errors, values_of
from planner.calibrate.runs.defaults import PricedRun

WITHOUT_FOLDS = 2
"""Folds of the error out of group with a constant and without it: the same, to be compared. [-]"""


def out_of_group_errors(
    runs: Sequence[PricedRun],
    factors: Sequence[Factor],
    group: Callable[[PricedRun], Hashable],
    fixed: Values | None = None,
    most: int = 8,
    measure: Errors = log_errors,
    soft: float = SOFT,
) -> Column:
    """Logarithmic error of each run, priced with constants fitted without its group. [-]

    Groups are dealt to at most ``most`` folds, whole. Where the rest bears no fit, the starts stand.
    """
    names = sorted({str(group(run)) for run in runs})
    folds = {name: index % most for index, name in enumerate(names)}
    errors = np.zeros(len(runs))
    for fold in sorted(set(folds.values())):
        inside = [index for index, run in enumerate(runs) if folds[str(group(run))] == fold]
        others = [run for run in runs if folds[str(group(run))] != fold]
        starts = values_of(factors, [factor.start for factor in factors])
        bears = bool(factors) and len(others) >= ROWS_PER_FACTOR * len(factors)
        values = fit(others, factors, fixed, measure, soft).values if bears else starts
        errors[inside] = measure([runs[index] for index in inside], dict(fixed or {}) | dict(values))
    return errors
