"""Words, versions and years in the text that names a framework."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Final

Span = tuple[int, int]
Number = tuple[int, ...]
Range = tuple[Number, Number]

_LATEST: Final = 10**9
_NUMBER: Final = re.compile(r"(?<![^\W_])(?<!\.)[rv]?(\d+(?:\.\d+)+)")
_YEAR: Final = re.compile(r"(?<![0-9a-f])(20\d\d)(?=\d{4}(?!\d)|(?![0-9a-f]))")


@cache
def pattern_of(word: str) -> re.Pattern[str]:
    """Return the regular expression of a word.

    A hyphen stands for one character that is no letter or digit, or for none. A word begins where letters
    begin, and digits may follow it; with a star at its end, letters too.

    Examples
    --------
    >>> [bool(pattern_of("megatron-lm").search(text)) for text in ("rocm/megatron_lm", "megatronlm2", "lm")]
    [True, True, False]
    >>> [bool(pattern_of(word).search("ajax paxml")) for word in ("jax", "pax", "pax*")]
    [False, False, True]
    """
    stem = word.removesuffix("*")
    body = r"[\W_]?".join(map(re.escape, stem.split("-")))
    end = r"(?![a-z0-9])" if re.search(r"\d$", stem) else r"(?![a-z])"
    return re.compile(rf"(?<![^\W_]){body}{'' if word.endswith('*') else end}")


def spans(words: Iterable[str], text: str) -> list[Span]:
    """Return where words stand in a text: start and end of each."""
    return [found.span() for word in words for found in pattern_of(word).finditer(text)]


def read_range(text: str) -> Range:
    """Return the lowest and the highest number of a range.

    Raises
    ------
    ValueError
        If it is none.

    Examples
    --------
    >>> read_range("0.3 to 0.5.4"), read_range("2024")
    (((0, 3), (0, 5, 4)), ((2024,), (2024,)))
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)*)(?: to (\d+(?:\.\d+)*)| (or later))?", text.strip())
    if found is None:
        raise ValueError("a range: 26.06, 25.01 to 26.03, or 26.06 or later")
    low = number(found[1])
    high = (_LATEST,) if found[3] else number(found[2] or found[1])
    if low[: len(high)] > high:
        raise ValueError("a range whose end is not before its start")
    return low, high


def number(text: str) -> Number:
    """Return the parts of a version or a year."""
    return tuple(map(int, text.split(".")))


def inside(found: Number, ranges: Iterable[Range]) -> bool:
    """Whether a number is in one of some ranges; all that begins as the end of a range is.

    Examples
    --------
    >>> [inside(found, [((25, 1), (26, 3))]) for found in ((25, 9), (26, 3, 1), (26, 4), (25,))]
    [True, True, False, False]
    """
    return any(low <= found and found[: len(high)] <= high for low, high in ranges)


def apart(some: Iterable[Range], others: Iterable[Range]) -> bool:
    """Whether no number is both in one of some ranges and in one of the others."""
    others = list(others)
    return all(_before(a, b) or _before(b, a) for a in some for b in others)


def _before(first: Range, second: Range) -> bool:
    return first[1] < second[0][: len(first[1])]


def version_after(text: str, start: int) -> Number | None:
    """Return the first version in a text from a place on: numbers with a point between them.

    Examples
    --------
    >>> version_after("megatron-bridge, nemo container 26.02.01", 8), version_after("nemo 24", 0)
    ((26, 2, 1), None)
    """
    found = _NUMBER.search(text, start)
    return number(found[1]) if found else None


def year_after(text: str, start: int) -> Number | None:
    """Return the first year in a text from a place on, also that of a day written in digits.

    Examples
    --------
    >>> year_after("torchtitan 6fc499f, torch 2.9.0.dev20250815", 0)
    (2025,)
    """
    found = _YEAR.search(text, start)
    return number(found[1]) if found else None
