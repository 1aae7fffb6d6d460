"""Arguments of Megatron-LM that its parser turns into numbers, or that take one of some words.

What Python cannot turn is a fault; words change with releases, so that another is told alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from planner.runtimes.imports.sheet import Sheet

EXPECTED: Final = {int: "a whole number", float: "a number"}


@cache
def _lines() -> tuple[list[str], ...]:
    text = Path(__file__).with_name("megatron_kinds.txt").read_text(encoding="utf-8")
    return tuple(line.split() for line in text.splitlines() if not line.startswith("#"))


@cache
def _kinds() -> Mapping[str, type[int] | type[float]]:
    """Return the type of each argument with one number."""
    types = {"int": int, "float": float}
    return {f"--{name}": types[kind] for kind, *names in _lines() if kind in types for name in names}


@cache
def _words() -> Mapping[str, tuple[str, ...]]:
    """Return the words that each argument with one of some takes."""
    return {f"--{name}": tuple(words) for kind, name, *words in _lines() if kind == "choice"}


def other_words(sheet: Sheet) -> None:
    """Note a word that the newest release does not take, where it is no fault yet."""
    for key, value in sheet.values.items():
        known = _words().get(key)
        odd = known and isinstance(value, str) and value and "$" not in value and value not in known
        if odd and not sheet.faulty(key):
            sheet.notes.append(f"{key} {value[:60]}: the newest release takes {', '.join(known or ())}")


def number_kinds(sheet: Sheet, said: Iterable[tuple[str, object]]) -> None:
    """Note a fault for each argument whose text is no number; a variable is left to the shell.

    Values that a later argument replaces count too, since the parser turns each.
    """
    for key, value in dict.fromkeys(said):
        kind = _kinds().get(key)
        if kind is None or not isinstance(value, str) or not value or "$" in value:
            continue
        try:
            kind(value)
        except ValueError:
            sheet.fault(key, repr(value[:60]), EXPECTED[kind])
