"""``--set NAME=VALUE``: a setting of the runtime, or one of its traits, as the user wants it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final

from planner.cli.reading import Reading, shown
from planner.errors import nearest
from planner.inputs.workload import Workload
from planner.runtimes._trait_values import expected, is_allowed, kind_of, words_of
from planner.runtimes._traits import TRAITS
from planner.techniques.settings import SETTINGS
from planner.units import parse

_TRUTH: Final = {"yes": True, "true": True, "on": True, "no": False, "false": False, "off": False}


def trait_changes(texts: Iterable[str], reading: Reading) -> dict[str, Any]:
    """Return the traits that ``texts`` such as ``attention=flash-2`` set; faults are noted.

    A name that a setting and a trait share has the setting's values and the trait's.
    """
    changes: dict[str, Any] = {}
    for text in texts:
        name, equals, word = _parts(text)
        if not equals or (name not in TRAITS and name not in SETTINGS):
            found = shown(text) if equals else f"{shown(text)} without a value"
            near = nearest(name, (*SETTINGS, *TRAITS))
            names = "" if near else f", one of the settings {', '.join(SETTINGS)}, or a trait"
            reading.fault("--set", found, f"NAME=VALUE, a setting or a trait{names}", near)
            continue
        values = SETTINGS[name].values if name in SETTINGS else {}
        if word.lower() in values:
            changes |= values[word.lower()]
        elif name in TRAITS and is_allowed(name, value := _value(name, word)):
            changes[name] = value
        else:
            known = f"one of {', '.join(values)}" if values else expected(name)
            reading.fault(f"--set {name}", shown(word), known, nearest(word, values or words_of(name)))
    return changes


def pinned_settings(texts: Iterable[str], workload: Workload) -> tuple[str, ...]:
    """Return the settings that the user decides: by name, by one of their traits, or by the workload."""
    named = {_parts(text)[0] for text in texts}
    named |= {"gradient_dtype"} if workload.gradient_dtype is not None else set()
    return tuple(
        name
        for name, setting in SETTINGS.items()
        if name in named or any(trait in named for values in setting.values.values() for trait in values)
    )


def allowed_settings(names: Iterable[str], reading: Reading) -> tuple[str, ...]:
    """Return the settings that change numerics and may be chosen; faults are noted."""
    known = {name for name, setting in SETTINGS.items() if setting.numerics}
    found = []
    for text in names:
        name = str(text).strip().lower().replace("-", "_")
        if name in known:
            found.append(name)
        else:
            expects = f"a setting that changes numerics: {', '.join(sorted(known))}"
            reading.fault("--allow", shown(str(text)), expects, nearest(name, known))
    return tuple(found)


def _parts(text: str) -> tuple[str, str, str]:
    """Return name, equals sign and word."""
    name, equals, word = text.partition("=")
    return name.strip().lower().replace("-", "_"), equals, word.strip()


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
