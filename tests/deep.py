"""How much is drawn and crossed: what holds each subject, or with ``make test-deep``, and in CI, all of it.

A law over seeds, models or settings is tested in `make test` with as many as hold its subject: each value of
each axis, and each pair where a pair can break. All seeds and whole cross products run with ``TEST_DEEP=1``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any, TypeVar

DEEP = os.environ.get("TEST_DEEP", "") not in ("", "0")
"""Whether all cases are asked for."""

T = TypeVar("T")


def deep(some: T, every: T) -> T:
    """Return what `make test` takes, or all that there is."""
    return every if DEEP else some


def in_turn(*axes: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Return each value of each axis, beside those of others in turn; all combinations if all are asked for.

    Examples
    --------
    >>> in_turn("ab", (1, 2, 3))
    [('a', 1), ('b', 2), ('a', 3)]
    """
    known: list[Sequence[Any]] = [list(axis) for axis in axes]
    if DEEP:
        return list(product(*known))
    return [tuple(axis[row % len(axis)] for axis in known) for row in range(max(map(len, known)))]
