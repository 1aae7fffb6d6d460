"""What kinds of value a runner takes for the keys of its file: another kind is a fault at its key."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from planner.runtimes.imports.sheet import Sheet


class Kind(NamedTuple):
    """What a key takes."""

    keys: re.Pattern[str]
    """The keys."""
    holds: Callable[[Any], bool]
    """Whether a value will do."""
    expected: str
    """What will do, in words."""
    null: bool = True
    """Whether null may stand there, as if the key were not."""


def is_switch(value: Any) -> bool:
    """Return whether pydantic takes a value for true or false."""
    words = ("true", "false", "yes", "no", "on", "off", "1", "0", "t", "f", "y", "n")
    return isinstance(value, bool) or value in (0, 1) or str(value).lower() in words


def is_count(value: Any) -> bool:
    """Return whether pydantic takes a value for a whole number of 0 or more."""
    return is_integer(value) and float(value) >= 0


def is_integer(value: Any) -> bool:
    """Return whether pydantic takes a value for a whole number."""
    return is_number(value) and float(value).is_integer()


def is_number(value: Any) -> bool:
    """Return whether pydantic takes a value for a number; true and false are none here."""
    if isinstance(value, bool | list):
        return False
    try:
        float(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def among(*words: str) -> Callable[[Any], bool]:
    """Return whether a value is one of some words."""
    return lambda value: str(value) in words


def check_kinds(sheet: Sheet, kinds: Iterable[Kind]) -> None:
    """Note a fault for each value that its key does not take; ``auto`` is left to the trainer."""
    for kind in kinds:
        for key, value in sheet.values.items():
            if (value is None and kind.null) or value == "auto" or not kind.keys.fullmatch(key):
                continue
            if not kind.holds(value):
                sheet.fault(key, "null" if value is None else repr(value), kind.expected)


def check_closed(sheet: Sheet, sections: str, known: Iterable[str]) -> None:
    """Note a fault for each key of a section that takes no further ones.

    ``sections``: what the keys of the section start with; ``known``: the names that it has.
    """
    names = set(known)
    for key in sheet.values:
        name = key.removeprefix(sections).partition(".")[0]
        if key.startswith(sections) and name not in names:
            sheet.fault(f"{sections}{name}", "no key of it", "one that the runner has")
