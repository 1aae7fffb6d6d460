"""Arguments of Megatron-LM that its parser turns into numbers, that take one of some words, or none.

What Python cannot turn is a fault, and so is another number of words than the parser takes; words change with
releases, so that another is told alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
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


BASE: Final = "--rotary-base"
"""Whole for the parser; a field of a configuration may have any number, such as StarCoder 2's 999999.44."""


def number_kinds(sheet: Sheet, said: Iterable[tuple[str, object]], parsed: bool = True) -> None:
    """Note a fault for each argument whose text is no number; a variable is left to the shell.

    Values that a later argument replaces count too, since the parser turns each. Fields of a configuration
    are not ``parsed``.
    """
    for key, value in dict.fromkeys(said):
        kind = float if key == BASE and not parsed else _kinds().get(key)
        if kind is None or not isinstance(value, str) or not value or "$" in value:
            continue
        try:
            kind(value)
        except ValueError:
            sheet.fault(key, repr(value[:60]), EXPECTED[kind])


SINGLE: Final = ("int", "float", "choice", "one")
WORDS: Final = {"switch": "no value", "one": "one value", "many": "one value or more"}
STANDS: Final = re.compile(r"(?i)(?:your|path/to|the)(?: [\w./-]+)*")
"""Words that stand for a path in a script that is published: ``your model ckpt path``."""
PATHS: Final = re.compile(r"--(?:load|save|.*-path|.*-dir|.*-file|tokenizer-(?:model|name-or-path)|.*-load)")
LIKE: Final = 0.94
"""Likeness of a name to one of the parser's from which it is taken for a slip."""


@cache
def _counts() -> Mapping[str, str]:
    """Return how many words may follow each argument: none (switch), one, several (many) or any number."""
    counts = {"switch": "switch", "many": "many", "any": "any"} | dict.fromkeys(SINGLE, "one")
    pairs = ((counts[kind], names[:1] if kind == "choice" else names) for kind, *names in _lines())
    return {f"--{name}": count for count, names in pairs for name in names}


def _grouped(words: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield each argument with the words up to the next, as they stand."""
    name, values = "", list[str]()
    for word in words:
        if word.startswith("--") and len(word) > 2:
            yield name, values
            name, equals, value = word.partition("=")
            values = [value] if equals else []
        else:
            values.append(word)
    yield name, values


def word_counts(sheet: Sheet, words: Iterable[str]) -> None:
    """Note a fault for each argument that the parser refuses for the words that follow it.

    What a shell would put in the place of a variable is not known, so that such words are left out. A name
    that is nearly one of the parser's is told: it decides nothing, or is refused.
    """
    for name, values in _grouped(words):
        count = _counts().get(name, "any")
        open_ended = any("$" in value for value in values)
        wrong = len(values) > {"switch": 0, "one": 1}.get(count, len(values))
        few = not values and count in ("one", "many")
        filled = count == "many" or name in _words() or name in _kinds()
        found = " ".join(values)[:60]
        if wrong and PATHS.fullmatch(name) and STANDS.fullmatch(found):
            sheet.notes.append(f"{name} {found}: taken as one path that is still to be filled in")
        elif count != "any" and not open_ended and (wrong or few or (values == [""] and filled)):
            sheet.fault(name, repr(found) if values else "nothing", WORDS[count])
    for key in sheet.values:
        if key not in _counts() and (near := get_close_matches(key, _counts(), 1, LIKE)):
            sheet.notes.append(f"{key}: no argument of the newest release; nearest {near[0]}")
