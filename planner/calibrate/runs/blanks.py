"""Words in a cell of a run table that say that nothing is known."""

from __future__ import annotations

from collections import Counter
from typing import Final

BLANK_WORDS: Final = frozenset(("n/a", "na", "-", "none", "null", "?"))
"""Words of a cell that says nothing, in any case."""

NONE_SPEAKS: Final = frozenset(("zero", "recompute", "offload", "schedule", "cp_method", "overlap"))
"""Columns in which ``none`` says that there is none, and is not blank."""


def says_nothing(column: str, text: str) -> bool:
    """Whether a cell is as good as blank.

    Examples
    --------
    >>> says_nothing("tp", "N/A"), says_nothing("mark", "none"), says_nothing("recompute", "none")
    (True, True, False)
    """
    word = text.lower()
    return word in BLANK_WORDS and not (word == "none" and column in NONE_SPEAKS)


def blanks_told(blanks: Counter[str]) -> str:
    """Return how many cells of which columns were taken as blank for their word; empty for none.

    Examples
    --------
    >>> blanks_told(Counter(tp=2, dp=1))
    '3 cells with n/a, -, ? or the like are taken as blank: dp 1, tp 2'
    """
    if not blanks:
        return ""
    count = blanks.total()
    cells, verb = ("cell", "is") if count == 1 else ("cells", "are")
    columns = ", ".join(f"{name} {number}" for name, number in sorted(blanks.items()))
    return f"{count} {cells} with n/a, -, ? or the like {verb} taken as blank: {columns}"


def plain_number(text: str) -> float:
    """Return a number; Python reads ``16_24`` as one, people do not. Raises ValueError if it is none."""
    if "_" in text:
        raise ValueError
    return float(text)
