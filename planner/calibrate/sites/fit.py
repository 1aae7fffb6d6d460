"""What one site reaches of the rates that its parts promise, fitted to the user's own runs, however few."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Final

import numpy as np

from planner.calibrate.batches import predictions_with
from planner.calibrate.constants import Key, Values, shipped_values
from planner.calibrate.fit import ROWS_PER_FACTOR, Column, Factor, log_errors
from planner.calibrate.pricing import Prediction
from planner.calibrate.runs.defaults import PricedRun
from planner.calibrate.sites.repeats import each_run, merged, worst_of_each
from planner.calibrate.sites.runs import SiteRuns
from planner.calibrate.sites.solve import SCATTER, pinned, slopes
from planner.dataclasses import dataclass
from planner.errors import InputError, Problem, nearest
from planner.inputs.hardware import HardwareProfile, Pool, reached

SHARES: Final[Mapping[str, tuple[str, float, str]]] = {
    "compute": ("compute_share", 0.1, "share of the kernels' usual rate that training reaches here [-]"),
    "network": ("network_share", 0.5, "share of the network's usual rate that collectives reach here [-]"),
    "scale-up": ("scaleup_share", 0.5, "share of the fast links' usual rate reached here [-]"),
}
"""Factors of a site in their order of worth: field of the pool, spread before any run has spoken, meaning."""

SMALL: Final = 8
"""Runs up to which each is held out by itself. [-]"""
FOLDS: Final = 4
"""Parts in which a larger table is held out in turn. [-]"""

COVERED: Final = 0.9
"""Share of steps that an error band holds. [-]"""

TOLD: Final = 0.9
"""Share of what is unknown of a factor that may stay so where runs tell it. [-]"""


@dataclass(frozen=True)
class Pinned:
    """One factor of a site as the runs have pinned it."""

    name: str
    field: str
    meaning: str
    """Word of the user, field of the pool, and what it stands for."""
    start: float
    value: float
    """Before and after the fit. [-]"""
    standard_error: float
    """Of the logarithm of the value. [-]"""


@dataclass(frozen=True)
class Framework:
    """Memory that the allocator does not see, from runs whose memory the device has counted."""

    runs: int
    """How many they are. [-]"""
    before_gib: float
    value_gib: float
    """The runtime's value and what these runs use. [GiB]"""
    error_before: float
    error_after: float
    """Mean absolute error of their memory. [-]"""


@dataclass(frozen=True)
class SiteFit:
    """What the runs say of a site."""

    runs: SiteRuns
    """The table."""
    used: tuple[PricedRun, ...]
    """Its timed runs that can be priced."""
    factors: tuple[Pinned, ...]
    """What was fitted."""
    left_out: Mapping[str, str]
    """Factor that was not fitted to the reason."""
    before: Column
    after: Column
    """Logarithmic errors of the timed runs. [-]"""
    held_out: Column | None
    """The same, each priced without its own part of the table; None for a single run. [-]"""
    framework: Framework | None
    """None where no run has the device's count of memory."""
    extrapolated: float = 0.0
    """Mean share of the timed runs' steps outside the fitted range of kernel curves. [-]"""

    @property
    def band(self) -> float | None:
        """Error that 90% of further runs stay below, where these layouts are enough to say. [-]"""
        return None if self.held_out is None else own_band(worst_of_each(self.used, self.held_out))


def own_band(held_out: Column) -> float | None:
    """Error that 90% of further runs stay below, by runs that were held out of a fit. [-]

    A further run is below the r-th smallest of n errors with a chance of r / (n + 1): with fewer than 9 runs,
    not even below the largest for 90%.

    References
    ----------
    .. [1] J. Lei et al., "Distribution-Free Predictive Inference for Regression," J. Am. Stat. Assoc.
       113(523), 2018, sec. 2.2, doi:10.1080/01621459.2017.1307116 (split conformal prediction).

    Examples
    --------
    >>> errors = np.linspace(0.01, 0.19, 19)
    >>> own_band(np.log1p(errors[:8])), round(own_band(np.log1p(errors)) or 0, 3)
    (None, 0.18)
    """
    errors = np.sort(np.abs(np.expm1(held_out)))
    rank = math.ceil(COVERED * (errors.size + 1) - 1e-9)
    return float(errors[rank - 1]) if rank <= errors.size else None


def factor_of(word: str, pool: Pool, site: str) -> Factor:
    """Return a factor of a site by the user's word, starting from what the cluster's profile says."""
    name, width, meaning = SHARES[word]
    return Factor(("site", site, name), reached(getattr(pool, name)), meaning, width)


def other_constants() -> dict[Key, float]:
    """Return the shipped constants but those of sites."""
    return {key: value for key, value in shipped_values().items() if key[0] != "site"}


def tells(runs: Sequence[PricedRun], factor: Factor, fixed: Values) -> bool:
    """Whether runs narrow a factor, were it the only one."""
    here = log_errors(runs, fixed)
    slope = slopes(runs, [factor], fixed, here)[:, 0] * factor.width / SCATTER
    return float(1 + slope @ slope) >= 1 / TOLD**2


def runs_needed(factors: int) -> int:
    """Timed runs that a number of factors needs: one alone stands on a single run and what is known. [-]

    Examples
    --------
    >>> [runs_needed(count) for count in (1, 2, 3)]
    [1, 6, 9]
    """
    return 1 if factors <= 1 else ROWS_PER_FACTOR * factors


def chosen_factors(
    runs: Sequence[PricedRun], candidates: Mapping[str, Factor], fixed: Values
) -> tuple[list[str], dict[str, str]]:
    """Return the factors that runs can bear, and why not the others."""
    chosen: list[str] = []
    left: dict[str, str] = {}
    for word, factor in candidates.items():
        needed = runs_needed(len(chosen) + 1)
        if not tells(runs, factor, fixed):
            left[word] = "these runs hardly depend on it"
        elif len(runs) < needed:
            left[word] = f"needs {needed} timed runs of different layouts, there are {len(runs)}"
        else:
            chosen.append(word)
    return chosen, left


def asked_factors(
    words: Sequence[str], runs: Sequence[PricedRun], candidates: Mapping[str, Factor], fixed: Values
) -> list[str]:
    """Return the factors that the user asked for, or refuse.

    Raises `InputError` if a name is unknown, the runs are too few for so many factors, or do not depend on
    one.
    """
    problems = [
        Problem("--factors", repr(word), f"one of {', '.join(SHARES)}", nearest(word, SHARES))
        for word in words
        if word not in SHARES
    ]
    needed = runs_needed(len(words))
    if not problems and len(runs) < needed:
        problems.append(
            Problem(
                "--factors",
                f"{len(words)} factors, and different timed runs {len(runs)}",
                f"{needed} timed runs",
            )
        )
    if not problems:
        problems = [
            Problem("--factors", f"{word!r}, of which these runs say nothing", _told_by(word))
            for word in words
            if not tells(runs, candidates[word], fixed)
        ]
    if problems:
        raise InputError(problems)
    return [word for word in SHARES if word in words]


def _told_by(word: str) -> str:
    return {
        "network": "runs whose messages leave the scale-up domain",
        "scale-up": "runs whose messages take time inside the scale-up domain",
    }.get(word, "timed runs")


def narrowed(
    runs: Sequence[PricedRun], factors: Sequence[Factor], fixed: Values, left: dict[str, str] | None
) -> tuple[list[Factor], Column, Column]:
    """Return factors with values and standard errors; those that a joint fit does not narrow are dropped.

    ``fixed``: constants that hold, the factors' starts among them; ``left``: takes the reason of each that is
    dropped; None where all were asked for and stay.
    """
    kept = list(factors)
    while kept:
        values, errors = pinned(runs, kept, fixed)
        vague = [float(error) / factor.width for factor, error in zip(kept, errors, strict=True)]
        worst = int(np.argmax(vague))
        if left is None or vague[worst] <= TOLD:
            return kept, values, errors
        left[_word(kept.pop(worst))] = "the runs cannot tell it from the other factors"
    return kept, np.array([]), np.array([])


def _word(factor: Factor) -> str:
    return next(word for word, (name, _, _) in SHARES.items() if name == factor.key[2])


def held_out_errors(runs: Sequence[PricedRun], factors: Sequence[Factor], fixed: Values) -> Column | None:
    """Logarithmic error of each run, priced with factors fitted without its part of the table. [-]

    Where the rest cannot bear all factors, the first of them that it can bear are fitted.
    """
    if len(runs) < 2:
        return None
    fold = np.arange(len(runs)) % (len(runs) if len(runs) <= SMALL else FOLDS)
    errors = np.zeros(len(runs))
    for part in np.unique(fold):
        inside = [run for run, place in zip(runs, fold, strict=True) if place == part]
        others = [run for run, place in zip(runs, fold, strict=True) if place != part]
        borne = list(factors)
        while len(others) < runs_needed(len(borne)):
            borne.pop()
        values, _ = pinned(others, borne, fixed) if borne else (np.array([]), None)
        found = {factor.key: float(value) for factor, value in zip(borne, values, strict=True)}
        errors[fold == part] = log_errors(inside, dict(fixed) | found)
    return errors


def framework_memory(runs: Sequence[PricedRun], values: Values) -> Framework | None:
    """Return what context and communicators take here, from runs with the device's count of memory."""
    counted = [run for run in runs if run.run.peak_mem_gib and run.run.memory_kind == "device"]
    pairs = [
        (run.run.peak_mem_gib or 0.0, found)
        for run, found in zip(counted, predictions_with(values)(counted), strict=True)
        if isinstance(found, Prediction)
    ]
    if not pairs:
        return None
    seen = [(measured, found.by_counter("device"), found.framework_gib) for measured, found in pairs]
    value = max(0.0, median(measured - (whole - beside) for measured, whole, beside in seen))
    before = [abs(whole / measured - 1) for measured, whole, _ in seen]
    after = [abs((whole - beside + value) / measured - 1) for measured, whole, beside in seen]
    return Framework(
        runs=len(pairs),
        before_gib=median(found.framework_gib for _, found in pairs),
        value_gib=float(f"{value:.4g}"),
        error_before=float(np.mean(before)),
        error_after=float(np.mean(after)),
    )


def fit_site(site: SiteRuns, profile: HardwareProfile, asked: Sequence[str] = ()) -> SiteFit:
    """Fit as many factors of a site as its runs can bear, or those asked for.

    ``profile``: the cluster, whose own shares are the start; ``asked``: words of `SHARES`; empty for as many
    as can be borne.

    Raises `InputError` if no run has a time, or the runs cannot bear what is asked.
    """
    fixed, runs = other_constants(), _priceable(site.timed)
    if not runs:
        raise InputError(Problem("RUNS.csv", _why_none(site), f"a timed run on {profile.name}"))
    layouts = merged(runs)
    candidates = {word: factor_of(word, profile.pool, profile.name) for word in SHARES}
    starts = {factor.key: factor.start for factor in candidates.values()}
    fixed |= starts
    if asked:
        chosen, left = asked_factors(asked, layouts, candidates, fixed), None
    else:
        chosen, left = chosen_factors(layouts, candidates, fixed)
    factors, values, errors = narrowed(layouts, [candidates[word] for word in chosen], fixed, left)
    found = {factor.key: float(value) for factor, value in zip(factors, values, strict=True)}
    return SiteFit(
        runs=site,
        used=tuple(runs),
        factors=tuple(
            Pinned(_word(factor), factor.key[2], factor.meaning, factor.start, float(value), float(error))
            for factor, value, error in zip(factors, values, errors, strict=True)
        ),
        left_out=left or {},
        before=log_errors(runs, fixed),
        after=log_errors(runs, fixed | found),
        held_out=each_run(runs, held_out_errors(layouts, factors, fixed)),
        framework=framework_memory(site.runs, fixed | found),
        extrapolated=_extrapolated(runs, fixed | found),
    )


def _extrapolated(runs: Sequence[PricedRun], values: Values) -> float:
    prices = [found for found in predictions_with(values)(runs) if isinstance(found, Prediction)]
    return float(np.mean([found.extrapolated for found in prices]))


def _priceable(runs: Sequence[PricedRun]) -> list[PricedRun]:
    found = predictions_with(other_constants())(runs)
    return [run for run, price in zip(runs, found, strict=True) if isinstance(price, Prediction)]


def _why_none(site: SiteRuns) -> str:
    reasons = "; ".join(f"{skip.id}: {skip.reason}" for skip in site.skipped[:3])
    return f"{site.rows} rows, none of them a timed run of this cluster" + (
        f" ({reasons})" if reasons else ""
    )
