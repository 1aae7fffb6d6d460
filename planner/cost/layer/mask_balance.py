r"""How evenly a mask of attention lies on ranks that share a sequence, as a whole and round by round.

With :math:`w_{ij}` the pairs of queries of rank :math:`i` and keys of rank :math:`j` that a mask lets
through, a ring's rounds end when the busiest rank does:

.. math:: \text{whole} = \frac{\max_i \sum_j w_{ij}}{\bar w}, \quad
          \text{ring} = \frac{\sum_r \max_i w_{i, (i-r) \bmod P}}{\bar w}, \quad
          \bar w = \frac{1}{P} \sum_{ij} w_{ij}

References
----------
.. [1] MTraining, arXiv:2510.18830, 2025: imbalance of dynamic sparse attention over workers and steps.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from planner.dataclasses import dataclass
from planner.techniques.layouts import TokenLayout
from planner.techniques.layouts.family import Tokens

Work = NDArray[np.float64]
"""Pairs of a rank's queries and a rank's keys, shape (ranks, ranks). [-]"""


@dataclass(frozen=True)
class Mask:
    """A causal mask: all earlier keys of the same document, or of these those on some lines."""

    columns: int = 0
    """First keys that all queries see. [token]"""
    window: int = 0
    """Last keys that a query sees, itself included. [token]"""
    slashes: tuple[tuple[int, int], ...] = ()
    """Distances of other bands of keys, to the nearest of a band, and their widths. [token]"""
    documents: tuple[int, ...] = ()
    """Lengths of documents, repeated until the sequence is full. [token]"""

    @property
    def is_sparse(self) -> bool:
        """Whether it keeps lines alone."""
        return bool(self.columns or self.window or self.slashes)

    def spans(self, places: Tokens, seq: int) -> Iterator[tuple[Tokens, Tokens]]:
        """Yield half-open spans of keys that queries at these places see; no two of them overlap. [token]"""
        begin = self._begins(places, seq)
        if not self.is_sparse:
            yield begin, places + 1
            return
        bands = [(begin, begin + self.columns)] * bool(self.columns)
        for distance, width in sorted(self.slashes, reverse=True):
            bands.append((places - distance - width + 1, places - distance + 1))
        bands += [(places - self.window + 1, places + 1)] * bool(self.window)
        reached = begin
        for low, high in bands:
            low = np.maximum(low, reached)
            high = np.minimum(np.maximum(high, low), np.maximum(places + 1, low))
            yield low, high
            reached = np.maximum(reached, high)

    def _begins(self, places: Tokens, seq: int) -> Tokens:
        """Return where the document of each query begins. [token]"""
        if not self.documents:
            return np.zeros_like(places)
        repeats = -(-seq // sum(self.documents))
        borders = np.cumsum([0, *self.documents * repeats])
        found: Tokens = borders[np.searchsorted(borders, places, side="right") - 1]
        return found


@dataclass(frozen=True)
class Balance:
    """How evenly a mask lies: the busiest rank over the mean, in all, and with rounds that wait. [-]"""

    whole: float
    ring: float
    density: float


def pair_work(mask: Mask, layout: TokenLayout, seq: int, ranks: int) -> Work:
    """Return the pairs of every rank's drawn queries and every rank's keys, for one query. [-]"""
    places = layout.queries(seq, ranks)
    work: Work = np.zeros((ranks, ranks))
    for low, high in mask.spans(places, seq):
        work += layout.keys(low, high, seq, ranks).mean(axis=1)
    return work


def balance(mask: Mask, layout: TokenLayout, seq: int, ranks: int) -> Balance:
    """Return how evenly a mask lies on ranks by a layout.

    Parameters
    ----------
    mask : Mask
        What queries see.
    layout : TokenLayout
        Which rank has which tokens.
    seq, ranks : int
        Tokens of the sequence, a multiple of twice the ranks; ranks that share it.

    Returns
    -------
    Balance
        The busiest rank over the mean; ``density`` is the share of causal pairs that the mask lets through.
    """
    work = pair_work(mask, layout, seq, ranks)
    mean = float(work.sum()) / ranks
    rounds = np.arange(ranks)
    owner = (rounds[None, :] - rounds[:, None]) % ranks
    ring = float(work[rounds[None, :], owner].max(axis=1).sum())
    return Balance(float(work.sum(axis=1).max()) / mean, ring / mean, mean / ((seq + 1) / 2))
