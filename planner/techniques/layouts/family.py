"""Ways to deal the tokens of one sequence to ranks: which rank has which queries, and which keys."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from planner.dataclasses import dataclass

Tokens = NDArray[np.int64]
"""Places in the sequence. [token]"""

SAMPLES = 64
"""Queries that are looked at of each part of a rank. [-]"""


@dataclass(frozen=True)
class TokenLayout:
    """One way to deal tokens."""

    name: str
    """As on the command line."""
    cite: str
    """Where it is described."""
    queries: Callable[[int, int], Tokens]
    """Places of evenly drawn queries of every rank, from (tokens of the sequence, ranks): shape (ranks,
    n)."""
    keys: Callable[[Tokens, Tokens, int, int], Tokens]
    """Keys in the half-open spans [low, high) that every rank has, from (low, high, tokens of the sequence,
    ranks): the spans' shape and the ranks."""
    aliases: tuple[str, ...] = ()
    """Other names."""


def part_of(index: int, seq: int, parts: int) -> range:
    """Return the places of one of as many equal parts of a sequence. [token]"""
    return range(index * (seq // parts), (index + 1) * (seq // parts))


def drawn(part: range) -> Tokens:
    """Return places that are evenly drawn from a part of a sequence. [token]"""
    count = min(SAMPLES, len(part))
    return part.start + (2 * np.arange(count, dtype=np.int64) + 1) * len(part) // (2 * count)


def within(low: Tokens, high: Tokens, part: range) -> Tokens:
    """Return the keys of spans that lie in one part of a sequence."""
    shared: Tokens = np.minimum(high, part.stop) - np.maximum(low, part.start)
    return np.maximum(shared, 0)
