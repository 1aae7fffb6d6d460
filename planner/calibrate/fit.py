"""Fit constants to measured runs: robust, on the logarithm of time, with priors for what runs cannot tell."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from planner.calibrate.batches import predictions_with
from planner.calibrate.constants import Key, Values
from planner.calibrate.pricing import Prediction
from planner.calibrate.runs.defaults import PricedRun
from planner.dataclasses import dataclass
from planner.errors import InputError, Problem

SOFT = 0.03
"""Error at which a run begins to count less: twice the spread of repeated runs. [-]"""

PULL = 0.02
"""Weight of a factor's prior, in the same unit as an error. [-]"""

ROWS_PER_FACTOR = 3
"""Runs that a fit needs for each factor. [-]"""

SHIFT = 1e-2
"""Shift of a factor's logarithm by which a likelihood's slope is taken. [-]"""

CLOSE = 1e-8
"""Relative change of what a fit makes small at which it ends. [-]"""

NEAR_ENOUGH = 1e-4
"""The same where a fit is for errors out of group alone: a constant is then within a hundredth. [-]"""

Column = NDArray[np.float64]


@dataclass(frozen=True)
class Factor:
    """A constant to fit.

    References
    ----------
    .. [1] A. Gelman, J. Hill, "Data Analysis Using Regression and Multilevel/Hierarchical Models," Cambridge
       University Press, 2007, sec. 12.1 (partial pooling).
    """

    key: Key
    """Scope, owner and name."""
    start: float
    """Value before any run has spoken."""
    meaning: str
    """What it stands for, with its unit."""
    width: float = 0.5
    """Spread of its logarithm before any run has spoken. [-]"""
    kin: str = ""
    """Factors of one name are of one kind, and each is drawn to their mean as well: what few runs tell of
    one, the runs of the others tell too. Empty for a factor without kin."""
    spread: float = 0.05
    """Spread of the logarithms of kin around their mean. [-]"""
    shared: tuple[Key, ...] = ()
    """Constants of other owners that take its value."""

    @property
    def keys(self) -> tuple[Key, ...]:
        """All constants that take its value."""
        return (self.key, *self.shared)


def values_of(factors: Sequence[Factor], values: Sequence[float]) -> dict[Key, float]:
    """Return every constant that factors with these values set."""
    return {key: value for factor, value in zip(factors, values, strict=True) for key in factor.keys}


@dataclass(frozen=True)
class Fitted:
    """The outcome of a fit."""

    values: Mapping[Key, float]
    """Each factor's value."""
    standard_errors: Mapping[Key, float]
    """Of the logarithm of each value. [-]"""
    error: float
    """Mean absolute error of what was measured on the rows of the fit. [-]"""


def mean_of_kin(factors: Sequence[Factor]) -> Column:
    """Return the matrix that takes the mean of each factor's kin.

    Examples
    --------
    >>> about = (("era", "e", name) for name in "abc")
    >>> kinds = ("chip", "", "chip")
    >>> mean_of_kin([Factor(key, 1.0, "", kin=kin) for key, kin in zip(about, kinds)]).tolist()
    [[0.5, 0.0, 0.5], [0.0, 1.0, 0.0], [0.5, 0.0, 0.5]]
    """
    names = [factor.kin or str(factor.key) for factor in factors]
    same: Column = np.array([[float(one == other) for other in names] for one in names])
    mean: Column = same / same.sum(axis=1, keepdims=True)
    return mean


def log_errors(runs: Sequence[PricedRun], values: Values) -> Column:
    """Logarithm of predicted over measured seconds of each run; 0 for what cannot be priced. [-]"""
    found = predictions_with(values)(runs)
    return np.array(
        [
            np.log(prediction.step_s / run.measured.seconds)
            if isinstance(prediction, Prediction) and run.measured.seconds
            else 0.0
            for prediction, run in zip(found, runs, strict=True)
        ]
    )


def memory_log_errors(runs: Sequence[PricedRun], values: Values) -> Column:
    """Logarithm of predicted over measured memory of each run, by the counter that it names. [-]"""
    found = predictions_with(values)(runs)
    return np.array(
        [
            np.log(prediction.by_counter(run.run.memory_kind) / run.run.peak_mem_gib)
            if isinstance(prediction, Prediction) and run.run.peak_mem_gib
            else 0.0
            for prediction, run in zip(found, runs, strict=True)
        ]
    )


def outcome_log_chances(runs: Sequence[PricedRun], values: Values) -> Column:
    """Logarithm of the chance that was predicted for what happened: out of memory, or not. [-]

    To make it small is to make the likelihood of all outcomes large: far from 0 the robust loss of a fit is
    linear in it.
    """
    found = predictions_with(values)(runs)
    chances = np.array(
        [one.oom_probability if isinstance(one, Prediction) else float(bool(run.run.oom))
         for one, run in zip(found, runs, strict=True)]
    )  # fmt: skip
    happened = np.where([bool(run.run.oom) for run in runs], chances, 1.0 - chances)
    logs: Column = np.log(np.maximum(happened, 1e-12))
    return logs


Errors = Callable[[Sequence[PricedRun], Values], Column]
"""What a fit makes small: one logarithm for each run."""


def mean_error(errors: Column) -> float:
    """Mean absolute error that goes with logarithmic ones. [-]"""
    return float(np.mean(np.abs(np.expm1(errors)))) if errors.size else float("nan")


def fit(
    runs: Sequence[PricedRun],
    factors: Sequence[Factor],
    fixed: Values | None = None,
    measure: Errors = log_errors,
    soft: float = SOFT,
    guess: Values | None = None,
) -> Fitted:
    """Fit factors to the times of runs, or to their memory.

    Parameters
    ----------
    runs : sequence of PricedRun
        Timed runs.
    factors : sequence of Factor
        What may change.
    fixed : mapping, optional
        Constants that hold.
    measure : callable
        `log_errors`, `memory_log_errors` or `outcome_log_chances`, whose standard errors are those of maximum
        likelihood, from the outer product of each run's slopes.
    soft : float
        Error at which a run begins to count less. [-]
    guess : mapping, optional
        Values near which the best ones are; from there they are found in fewer steps, to `NEAR_ENOUGH`.

    Returns
    -------
    Fitted
        Values, standard errors, and the error that is left.

    Raises
    ------
    InputError
        If there are fewer than `ROWS_PER_FACTOR` runs for each factor.
    """
    from scipy.optimize import least_squares

    if not factors:
        return Fitted({}, {}, mean_error(measure(runs, fixed or {})))
    needed = ROWS_PER_FACTOR * len(factors)
    if len(runs) < needed:
        raise InputError(Problem("runs", f"{len(runs)} timed runs", f"{needed} for {len(factors)} factors"))
    origin = np.log([factor.start for factor in factors])
    start = np.ones(len(factors))
    widths = np.array([factor.width for factor in factors])
    spreads = np.array([factor.spread if factor.kin else np.inf for factor in factors])
    to_mean = mean_of_kin(factors)

    def named(point: Column) -> dict[Key, float]:
        values = np.exp(origin + point - start)
        return dict(fixed or {}) | values_of(factors, [float(value) for value in values])

    def residuals(point: Column) -> Column:
        scaled = measure(runs, named(point)) / soft
        robust = np.sign(scaled) * np.sqrt(2 * (np.sqrt(1 + scaled * scaled) - 1))
        alone, apart = (point - start) / widths, (point - to_mean @ point) / spreads
        return np.concatenate([soft * robust, PULL * alone, PULL * apart])

    first, enough = _first_point(factors, guess)
    best = least_squares(residuals, first, diff_step=1e-2, max_nfev=20, ftol=enough)
    values = named(best.x)
    left = measure(runs, values)
    spread = left if soft == SOFT else np.clip(left, -soft, soft)
    information = best.jac.T @ best.jac / max(float(np.mean(spread * spread)), 1e-9)
    if measure is outcome_log_chances:
        scores = np.array(
            [(measure(runs, named(best.x + step)) - left) / SHIFT for step in SHIFT * np.eye(len(start))]
        )
        information = scores @ scores.T
    errors = np.sqrt(np.diag(np.linalg.pinv(information)))
    return Fitted(
        values={key: float(f"{values[key]:.4g}") for factor in factors for key in factor.keys},
        standard_errors=values_of(factors, [float(f"{error:.2g}") for error in errors]),
        error=mean_error(left),
    )


def _first_point(factors: Sequence[Factor], guess: Values | None) -> tuple[Column, float]:
    """Return where a fit begins, and the change of what it makes small at which it ends. [-]"""
    if guess is None:
        return np.ones(len(factors)), CLOSE
    known = [guess.get(factor.key, factor.start) / factor.start for factor in factors]
    return 1.0 + np.log(known), NEAR_ENOUGH
