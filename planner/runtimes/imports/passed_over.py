"""Keys that a reader passes over though they may change a price: a note says what is priced instead."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from planner.runtimes.imports.sheet import Sheet


class PassedOver(NamedTuple):
    """A key that is told where it has a value that matters."""

    keys: re.Pattern[str]
    """The keys."""
    matters: Callable[[str], bool]
    """Whether a value, in lower case, is another than what is priced."""
    told: str
    """What is priced instead."""


def on(value: str) -> bool:
    """Return whether a value switches something on.

    Examples
    --------
    >>> on("true"), on("other"), on("false"), on("none")
    (True, True, False, False)
    """
    return value not in ("false", "0", "no", "none", "null", "off", "", "[]", "{}")


def off(value: str) -> bool:
    """Return whether a value switches something off.

    Examples
    --------
    >>> off("false"), off("true"), off("none")
    (True, False, False)
    """
    return value in ("false", "0", "no", "off")


def above(limit: float) -> Callable[[str], bool]:
    """Return whether a value is a number above a limit.

    Examples
    --------
    >>> above(0)("1e8"), above(0)("0"), above(0)("none")
    (True, False, False)
    """

    def matters(value: str) -> bool:
        try:
            return float(value) > limit
        except ValueError:
            return False

    return matters


def among(*words: str) -> Callable[[str], bool]:
    """Return whether a value is one of some words."""
    return lambda value: value in words


def passed_over(keys: str, matters: Callable[[str], bool], told: str) -> PassedOver:
    """Return an entry of a table; ``keys``: a regular expression."""
    return PassedOver(re.compile(keys), matters, told)


def tell(sheet: Sheet, table: Iterable[PassedOver]) -> None:
    """Note each key whose value matters; all of the table's keys count as understood.

    Examples
    --------
    >>> sheet = Sheet("a.yaml", {"s2_attention": True, "lr": 1})
    >>> tell(sheet, [passed_over("s2_attention", on, "priced with whole attention")])
    >>> sheet.notes
    ['s2_attention true: priced with whole attention']
    """
    for entry in table:
        for key, value in sheet.values.items():
            if value is None or not entry.keys.fullmatch(key):
                continue
            sheet.seen.add(key)
            text = str(value).strip().lower()
            if entry.matters(text):
                sheet.notes.append(f"{key} {text[:40]}: {entry.told}")
