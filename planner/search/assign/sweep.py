r"""Stages out of priced blocks: least weighted sum and maximum, by a dynamic program for each slowest stage.

.. math:: \min \; a \sum_i t_i + b \max_i t_i
"""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from planner.dataclasses import dataclass
from planner.numeric import Column

MOST_STEPS = 5_000
"""Values of the slowest stage tried at most."""


@dataclass(frozen=True)
class Partition:
    """Layers of each stage, the value that they reach, and of that the sum and the slowest stage."""

    sizes: tuple[int, ...]
    value: float
    total: float
    slowest: float


def block_columns(prices: Column, index: NDArray[np.intp]) -> Column:
    """Return the price of the block that ends at a layer and has so many, for every stage.

    Parameters
    ----------
    prices : array (stages, blocks)
        Price of each distinct block.
    index : array (layers + 1, most + 1)
        Distinct block by its first layer and its size; -1 where there is none.

    Returns
    -------
    array (stages, layers + 1, most + 1)
        Infinite where there is none.
    """
    layers, most = index.shape[0] - 1, index.shape[1] - 1
    padded = np.concatenate([prices, np.full((len(prices), 1), np.inf)], axis=1)
    ends = np.arange(layers + 1)[:, None] - np.arange(most + 1)[None, :]
    places = np.where(ends >= 0, index[np.maximum(ends, 0), np.arange(most + 1)[None, :]], -1)
    result: Column = padded[:, places]
    return result


def least_sums(columns: Column, longest: float = np.inf) -> Column:
    """Return the least sum over the first stages up to each layer, where no stage takes longer than so.

    Parameters
    ----------
    columns : array (stages, layers + 1, most + 1)
        As `block_columns` gives them.
    longest : float
        Largest price allowed.

    Returns
    -------
    array (stages + 1, layers + 1)
        Infinite where nothing fits.
    """
    stages, ends, sizes = columns.shape
    allowed = columns if longest == np.inf else np.where(columns <= longest, columns, np.inf)
    before, windows, reached = _starts(ends, sizes)
    sums = np.full((stages + 1, ends), np.inf)
    sums[0, 0] = 0.0
    for stage in range(stages):
        before[:] = sums[stage]
        np.add(windows, allowed[stage], out=reached)
        np.minimum.reduce(reached, axis=1, out=sums[stage + 1])
    return sums


def _starts(ends: int, sizes: int) -> tuple[Column, Column, Column]:
    """Return values by the layer that a block starts at, that view by end and size, and a table of its shape.

    Values are set in place; they are infinite where a block would start before the first layer.
    """
    padded = np.full(sizes - 1 + ends, np.inf)
    step = padded.strides[0]
    windows = as_strided(padded[sizes - 1 :], (ends, sizes), (step, -step), writeable=False)
    return padded[sizes - 1 :], windows, np.empty((ends, sizes))


def sizes_of(columns: Column, sums: Column, longest: float) -> tuple[int, ...]:
    """Trace the sizes that reach the last of `least_sums`."""
    end = sums.shape[1] - 1
    sizes: list[int] = []
    for stage in range(len(columns) - 1, -1, -1):
        span = np.arange(min(end, columns.shape[2] - 1) + 1)
        prices = columns[stage, end, span]
        reached = sums[stage, end - span] + np.where(prices <= longest, prices, np.inf)
        size = int(np.argmin(reached))
        sizes.append(size)
        end -= size
    return tuple(reversed(sizes))


def best_partition(
    columns: Column, sum_weight: float, slowest_weight: float, below: float = np.inf
) -> Partition | None:
    """Return the partition of least weighted sum and maximum; None where none fits or is up to ``below``.

    The slowest stage is lowered step by step, each time to the next price below the one just reached: from
    the longest that could still pay, seen from the partition whose slowest stage is shortest, until even
    that shortest one could not make up for the sum.
    """
    columns = _up_to(columns, np.inf)
    shortest = bottleneck(columns)
    if not np.isfinite(shortest) or shortest * (sum_weight + slowest_weight) > below:
        return None
    best = _partition(_up_to(columns, shortest), shortest, sum_weight, slowest_weight)
    least_sum = float(least_sums(columns)[-1, -1])
    spare = best.value - sum_weight * least_sum
    longest = spare / slowest_weight if slowest_weight > 0 else np.inf
    columns = _up_to(columns, longest)
    for _ in range(MOST_STEPS):
        if longest < shortest:
            break
        found = _partition(columns, longest, sum_weight, slowest_weight)
        best = found if found.value < best.value else best
        if sum_weight * found.total + slowest_weight * shortest >= best.value:
            break
        longest = float(np.nextafter(found.slowest, -np.inf))
    return best


def _up_to(columns: Column, longest: float) -> Column:
    """Return the columns of the sizes that some block has which takes no longer than so."""
    some = np.flatnonzero((columns <= longest if longest < np.inf else columns < longest).any(axis=(0, 1)))
    return columns[:, :, : some[-1] + 1] if some.size else columns[:, :, :1]


def _partition(columns: Column, longest: float, sum_weight: float, slowest_weight: float) -> Partition:
    sums = least_sums(columns, longest)
    sizes = sizes_of(columns, sums, longest)
    total, slowest = float(sums[-1, -1]), float(_prices(columns, sizes).max())
    return Partition(sizes, sum_weight * total + slowest_weight * slowest, total, slowest)


def bottleneck(columns: Column) -> float:
    """Return the least maximum over all partitions."""
    stages, ends, sizes = columns.shape
    before, windows, reached = _starts(ends, sizes)
    before[0] = -np.inf
    for stage in range(stages):
        np.maximum(windows, columns[stage], out=reached)
        np.minimum.reduce(reached, axis=1, out=before)
    return float(before[-1])


def _prices(columns: Column, sizes: tuple[int, ...]) -> Column:
    """Return the price of each stage of a partition."""
    prices: Column = columns[np.arange(len(sizes)), np.cumsum(sizes), list(sizes)]
    return prices
