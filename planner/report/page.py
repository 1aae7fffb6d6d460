"""A page for people: paragraphs and tables of text, which the command line prints or writes as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby, zip_longest
from typing import Any, Final

from planner.dataclasses import dataclass

MOST_SPELLED: Final = 24
"""Stages up to which the layers of each are written out."""

Row = Mapping[str, str]

THEMSELVES: Final = {"precision": "{}", "optimizer": "{}", "method": "{} training"}
"""Defaults that are known by their values, and how these are said."""


@dataclass(frozen=True)
class Table:
    """Rows of text with the same keys, which are the headings."""

    rows: tuple[Row, ...]
    """From the first to the last."""
    side_by_side: bool = False
    """Whether the columns after the first are things compared, which may go on below where it is too wide."""


Page = list[str | Table]
"""Paragraphs and tables, in order."""


def significant(value: float | None, digits: int = 4) -> str:
    """Return a number with so many significant digits, a dash where it is unknown.

    Examples
    --------
    >>> significant(1234567.0), significant(0.012345), significant(None)
    ('1,235,000', '0.01235', '-')
    """
    if value is None:
        return "-"
    short = float(f"{value:.{digits - 1}e}")
    if abs(short) >= 10 ** (digits - 1):
        return f"{short:,.0f}"
    return f"{short:.{digits}g}"


def scored(value: float | None) -> str:
    """Return a score as text, a dash where there is none."""
    return "-" if value is None else f"{value:.2f}"


def counted(number: int, what: str) -> str:
    """Return a number of things, one of them in the singular.

    Examples
    --------
    >>> counted(1, "accelerator"), counted(2048, "accelerator")
    ('1 accelerator', '2,048 accelerators')
    """
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def all_of(words: Iterable[str]) -> str:
    """Return words with ``and`` before the last.

    Examples
    --------
    >>> all_of(["a"]), all_of(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    *first, last = list(words) or [""]
    return f"{', '.join(first)} and {last}" if first else last


def listed(items: Mapping[str, object]) -> str:
    """Return ``name value`` pairs joined by commas."""
    return ", ".join(f"{name.replace('_', ' ')} {_word(value)}" for name, value in items.items())


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:,}" if isinstance(value, int) else str(value)


def short_defaults(defaults: Mapping[str, Any], more: str = "") -> list[str]:
    """Return what was taken because nothing was given, in few words, and ``more``.

    Examples
    --------
    >>> short_defaults({"precision": "bf16", "runtime": "fsdp", "release": "1.15.0", "seq_len": 4096})
    ['Defaults used: bf16, seq len 4,096, fsdp 1.15.0.']
    """
    told = dict(defaults)
    named = [form.format(told.pop(name)) for name, form in THEMSELVES.items() if name in told]
    if "runtime" in told and "release" in told:
        names, releases = (str(told.pop(name)).split(", ") for name in ("runtime", "release"))
        runners = [" ".join(filter(None, pair)) for pair in zip_longest(names, releases, fillvalue="")]
    else:
        runners = []
    rest = [listed(told)] if told else []
    return [f"Defaults used: {', '.join([*named, *rest, *runners])}{more}."] if defaults else []


def split_words(layers: str) -> str:
    """Return the layers of stages, one after another; equal ones together where there are many stages.

    Examples
    --------
    >>> split_words("11-11-10"), split_words("-".join("0" + "1" * 61 + "00"))
    ('11-11-10', '0, 61x1, 2x0')
    """
    each = layers.split("-")
    if len(each) <= MOST_SPELLED:
        return layers
    runs = [(value, len(list(same))) for value, same in groupby(each)]
    return ", ".join(f"{count}x{value}" if count > 1 else value for value, count in runs)
