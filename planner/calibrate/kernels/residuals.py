"""What a machine's own kernels take beside their law, smoothed over sizes and told on a grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from planner.calibrate.kernels.entries import Entry
from planner.calibrate.kernels.fit import Columns, Fit, Free, Model, chosen, folds, solve
from planner.dataclasses import dataclass, replace
from planner.formulas.size_grid import PRODUCT_AXES, SizeGrid
from planner.numeric import Column

SMOOTHINGS: Final = ((2.0, 0.03), (4.0, 0.05))
"""What is tried: doublings of a size over which a measurement says something of its neighbours, and by how
much two measurements of one size differ, two tilings of one product say, which is not to be followed. [-]"""
MOST: Final = 0.3
"""Largest share that a residual may have. [-]"""
MUST_EARN: Final = 0.002
"""Held-out error that the residuals have to take away to stay in a curve. [-]"""
FEWEST: Final = 40
"""Points below which no residuals are looked for. [-]"""


Axes = tuple[str, str, str]
Smoothing = tuple[float, float]


@dataclass(frozen=True)
class Corrected:
    """A law with its residuals."""

    fitted: Fit
    """Constants of the law; its errors are those with the residuals."""
    grid: SizeGrid | None
    """The residuals; None where they do not earn their place."""
    law_error: float
    """Held-out error of the law alone. [-]"""


def octaves(sizes: Column) -> Column:
    """Powers of two from at most the smallest to at least the largest size. [element]"""
    low, high = int(np.floor(np.log2(sizes.min()))), int(np.ceil(np.log2(sizes.max())))
    return np.asarray(2.0 ** np.arange(low, max(high, low + 1) + 1))


def smoothed(known: Column, values: Column, wanted: Column, smoothing: Smoothing) -> Column:
    r"""Mean of a Gaussian process with Matérn covariance of order 3/2, given noisy values.

    .. math:: \hat r = K_* (K + \sigma^2 I)^{-1} r, \quad
              K_{ij} = v (1 + \sqrt 3 d_{ij}) e^{-\sqrt 3 d_{ij}}

    Parameters
    ----------
    known, wanted : array
        Places, one row each, in doublings of each size; :math:`d` is their distance over the reach. [-]
    values : array
        Values :math:`r` at the known places, of variance :math:`v`. [-]
    smoothing : (float, float)
        Reach, and noise :math:`\sigma`; one of `SMOOTHINGS`. [-]

    References
    ----------
    .. [1] C. E. Rasmussen, C. K. I. Williams, "Gaussian Processes for Machine Learning," MIT Press, 2006,
       eq. (2.23) and (4.17).
    """
    reach, noise = smoothing

    def covariance(left: Column, right: Column) -> Column:
        apart = np.sqrt(((left[:, None, :] - right[None, :, :]) ** 2).sum(axis=2)) * (np.sqrt(3.0) / reach)
        return np.asarray((1.0 + apart) * np.exp(-apart), dtype=np.float64)

    variance = max(float(values.var()), 1e-12)
    noisy = covariance(known, known) + (noise**2 / variance) * np.eye(len(known))
    return np.asarray(covariance(wanted, known) @ np.linalg.solve(noisy, values), dtype=np.float64)


def grid_of(shape: Columns, ratios: Column, names: Axes, smoothing: Smoothing) -> SizeGrid:
    """Return residuals on a grid of octaves.

    Parameters
    ----------
    shape : Mapping
        Sizes of the measured kernels.
    ratios : array
        Logarithm of measured over predicted time. [-]
    names : tuple of str
        Of the three sizes.
    smoothing : (float, float)
        One of `SMOOTHINGS`.
    """
    axes = [octaves(shape[axis]) for axis in names]
    nodes = np.stack([part.ravel() for part in np.meshgrid(*axes, indexing="ij")], axis=1)
    places = np.stack([shape[axis] for axis in names], axis=1)
    found = np.expm1(smoothed(np.log2(places), ratios, np.log2(nodes), smoothing))
    shares = np.round(np.clip(found, -MOST, MOST), 4)
    return SizeGrid(tuple(tuple(map(float, axis)) for axis in axes), tuple(map(float, shares)))


def _corrected(
    model: Model,
    values: Mapping[str, float],
    known: Columns,
    wanted: Columns,
    names: Axes,
    smoothing: Smoothing,
) -> tuple[SizeGrid, Column]:
    """Return residuals of known rows under these constants, and the errors of wanted rows with them."""
    grid = grid_of(known, np.log(known["seconds"] / model(values, known)), names, smoothing)
    predicted = model(values, wanted) * (1.0 + grid.share(*(wanted[axis] for axis in names)))
    return grid, np.asarray(np.abs(predicted / wanted["seconds"] - 1), dtype=np.float64)


def with_residuals(
    fitted: Fit, model: Model, free: Sequence[Free], shape: Columns, names: Axes = PRODUCT_AXES
) -> Corrected:
    """Add residuals to a law where they lower its error on rows that neither has seen.

    ``fitted``: the law, fitted to all rows; ``free``: its constants that were fitted; the others are kept;
    ``names``: the three sizes that residuals depend on.
    """
    alone = Corrected(fitted, None, fitted.held_out_error)
    if fitted.rows < FEWEST:
        return alone
    searched = {one.name for one in free}
    fixed = {name: value for name, value in fitted.values.items() if name not in searched}
    fold = folds(shape)
    found: dict[Smoothing, list[Column]] = {smoothing: [] for smoothing in SMOOTHINGS}
    for one in np.unique(fold):
        known, wanted = chosen(shape, fold != one), chosen(shape, fold == one)
        values = solve(model, free, fixed, known)
        for smoothing, parts in found.items():
            parts.append(_corrected(model, values, known, wanted, names, smoothing)[1])
    held_out = {smoothing: np.concatenate(parts) for smoothing, parts in found.items()}
    best = min(held_out, key=lambda smoothing: float(held_out[smoothing].mean()))
    unseen = held_out[best]
    if unseen.mean() > fitted.held_out_error - MUST_EARN:
        return alone
    grid, errors = _corrected(model, fitted.values, shape, shape, names, best)
    better = replace(
        fitted,
        mean_error=float(errors.mean()),
        p90_error=float(np.quantile(errors, 0.9)),
        held_out_error=float(unseen.mean()),
        held_out_p90_error=float(np.quantile(unseen, 0.9)),
    )
    return Corrected(better, grid, fitted.held_out_error)


def residual_fields(corrected: Corrected, names: Axes = PRODUCT_AXES, prefix: str = "") -> Entry:
    """Fields of the residuals in a curve file; none where there are none."""
    grid = corrected.grid
    if grid is None:
        return {}
    axes = {axis: list(nodes) for axis, nodes in zip(names, grid.nodes, strict=True)}
    return {
        f"{prefix}law_held_out_error": f"{100 * corrected.law_error:.1f}%",
        f"{prefix}residuals": {**axes, "shares": list(grid.shares)},
    }
