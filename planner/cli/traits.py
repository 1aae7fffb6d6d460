"""``--set TRAIT=VALUE``: what a runtime does with the machine, changed by the user."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final

from planner.cli.reading import Reading, shown
from planner.errors import nearest
from planner.runtimes._trait_values import TRAITS, expected, is_allowed, kind_of, words_of
from planner.units import parse

_TRUTH: Final = {"yes": True, "true": True, "on": True, "no": False, "false": False, "off": False}


def trait_changes(texts: Iterable[str], reading: Reading) -> dict[str, Any]:
    """Return the traits that ``texts`` such as ``attention=flash-2`` set; faults are noted."""
    changes = {}
    for text in texts:
        name, equals, word = text.partition("=")
        name, word = name.strip().lower().replace("-", "_"), word.strip()
        if not equals or name not in TRAITS:
            found = shown(text) if equals else f"{shown(text)} without a value"
            near = nearest(name, TRAITS)
            names = "" if near else f" of {', '.join(TRAITS)}"
            reading.fault("--set", found, f"TRAIT=VALUE, a trait{names}", near)
            continue
        value = _value(name, word)
        if is_allowed(name, value):
            changes[name] = value
        else:
            reading.fault(f"--set {name}", shown(word), expected(name), nearest(word, words_of(name)))
    return changes


def _value(name: str, word: str) -> Any:
    """Return a word in the type of the trait, or what the trait cannot be."""
    if kind_of(name) is str:
        return word.lower()
    if kind_of(name) is bool:
        return _TRUTH.get(word.lower())
    try:
        return float(word)
    except ValueError:
        try:
            return parse(word, "byte") if name.endswith("_bytes") else math.nan
        except ValueError:
            return math.nan
