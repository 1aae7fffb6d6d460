"""Ranges of a grid that a question solves for: written ``A..B``, searched as the values in between."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from planner.sweep.grid import Grid
from planner.units import is_whole, ungrouped

Between = Callable[[int, int], Sequence[int]]
"""Function of the ends of a range: the values that it stands for, ascending."""

_RANGE: Final = re.compile(r"([\d_,]+)\.\.([\d_,]+)")


def range_ends(text: str | None) -> tuple[int, int] | None:
    """Return the ends of a range from the smaller to the larger; None where the text is something else.

    Examples
    --------
    >>> range_ends("8..64"), range_ends("8,192..65_536"), range_ends("64..8"), range_ends("8")
    ((8, 64), (8192, 65536), None, None)
    """
    found = _RANGE.fullmatch((text or "").strip())
    ends = [ungrouped(end) for end in found.groups()] if found else []
    if not all(is_whole(end) and len(end) < 12 for end in ends):
        return None
    return (low, high) if len(ends) == 2 and 0 < (low := int(ends[0])) <= (high := int(ends[1])) else None


def multiples(low: int, high: int) -> Sequence[int]:
    """Return the multiples of the lower end up to the upper one.

    Examples
    --------
    >>> list(multiples(8192, 40000))
    [8192, 16384, 24576, 32768]
    """
    return range(low, high + 1, low)


def has_range(grid: Grid, axis: str) -> bool:
    """Whether a value of an axis is a range."""
    return any(range_ends(value) for value in grid.axes.get(axis, ()))


def without_ranges(grid: Grid, axis: str, between: Between) -> Grid:
    """Return the grid with the values between the ends of each range of an axis in its place."""
    values: dict[str | None, None] = {}
    for value in grid.axes.get(axis, ()):
        ends = range_ends(value)
        values |= dict.fromkeys(map(str, between(*ends)) if ends else [value])
    return grid.model_copy(update={axis: tuple(values)}) if values else grid
