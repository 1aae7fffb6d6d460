"""``--set NAME=VALUE``: a setting of the runtime, or one of its traits, as the user wants it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

from planner.errors import nearest
from planner.inputs.workload import Workload
from planner.question.reading import Reading, shown
from planner.runtimes import runtimes
from planner.runtimes.family import Runtime
from planner.runtimes.settings import ANY
from planner.runtimes.trait_values import expected, is_allowed, words_of
from planner.runtimes.traits import TRAITS, trait_name
from planner.runtimes.traits.former import FORMER, kinds_instead
from planner.techniques.settings import SETTINGS
from planner.units import parse

_TRUTH: Final = {"yes": True, "true": True, "on": True, "no": False, "false": False, "off": False}


def trait_changes(given: Iterable[str] | Mapping[str, Any], reading: Reading) -> dict[str, Any]:
    """Return the traits that ``attention=flash-2`` and the like set, or values by name; faults are noted.

    A name that a setting and a trait share has the setting's values and the trait's.
    """
    changes: dict[str, Any] = {}
    pairs = given.items() if isinstance(given, Mapping) else ((None, text) for text in given)
    for key, value in pairs:
        text = value if key is None else f"{key}={value}"
        name, equals, word = _parts(text) if key is None else (_spelled(key), "=", value)
        place = f"--set {name}" if key is None else name
        if equals and name in FORMER:
            trait, kind = FORMER[name].get(_former(name, word), ("", ""))
            changes |= {trait: kind} if trait else {}
            if not trait:
                reading.fault(place, shown(word), kinds_instead(name))
            continue
        if not equals or (name not in TRAITS and name not in SETTINGS):
            found = shown(text) if equals else f"{shown(text)} without a value"
            near = nearest(name, (*SETTINGS, *TRAITS))
            names = "" if near else f", one of the settings {', '.join(SETTINGS)}, or a trait"
            expects = f"NAME=VALUE, a setting or a trait{names}"
            reading.fault("--set" if key is None else name, found, expects, near)
            continue
        values = SETTINGS[name].values if name in SETTINGS else {}
        spelled = str(word).lower()
        if spelled in values:
            changes |= values[spelled]
        elif name in TRAITS and is_allowed(name, typed := _value(name, word)):
            changes[name] = typed
        else:
            known = f"one of {', '.join(values)}" if values else expected(name)
            reading.fault(place, shown(word), known, nearest(str(word), values or words_of(name)))
    return changes


def check_settings(
    given: Iterable[str] | Mapping[str, Any], chosen: Iterable[Runtime], reading: Reading
) -> None:
    """Note a fault for each setting that is given a value which other runtimes have, and this one has not.

    What no runtime's files say is priced for whoever builds it, and no files are written. A release for which
    none are written has whatever its recipes switched on.
    """
    by_name = isinstance(given, Mapping)
    pairs = given.items() if isinstance(given, Mapping) else (_parts(text)[::2] for text in given)
    for name, word in pairs:
        spelled = _spelled(name)
        value = _meant(spelled, word)
        if value is None:
            continue
        able = [one for one, known in runtimes().items() if has_setting(known, spelled, value)]
        for runtime in chosen if able else ():
            if runtime.release in ("", *runtime.versions) and not has_setting(runtime, spelled, value):
                place = spelled if by_name else f"--set {spelled}"
                found = f"{value} with {runtime.name}, whose files cannot ask for it"
                expected = f"a runtime that has it: {', '.join(able)}"
                reading.fault(place, found, expected, f"--runtime {able[0]}")


def _meant(name: str, word: Any) -> str | None:
    """Return the value of a setting that a word means, by its own name or as that of the trait alone."""
    if name not in SETTINGS:
        return None
    values = SETTINGS[name].values
    if str(word).lower() in values:
        return str(word).lower()
    alone = _value(name, word) if name in TRAITS else None
    return next((value for value, traits in values.items() if traits == {name: alone}), None)


def has_setting(runtime: Runtime, name: str, value: str) -> bool:
    """Return whether a runtime is as a setting's value says, or its files can say the value."""
    return all(
        runtime.traits.value_of(trait) == wanted or {wanted, ANY} & set(runtime.settings.get(trait, ()))
        for trait, wanted in SETTINGS[name].values[value].items()
    )


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
            reading.fault("allow", shown(str(text)), expects, nearest(name, known))
    return tuple(found)


def _parts(text: str) -> tuple[str, str, str]:
    """Return name, equals sign and word."""
    name, equals, word = text.partition("=")
    return _spelled(name), equals, word.strip()


_ALIASES: Final = {alias: setting.name for setting in SETTINGS.values() for alias in setting.aliases}


def _spelled(name: str) -> str:
    """Return a name as the tables have it, that of a setting or a trait for its alias."""
    word = name.strip().lower().replace("-", "_")
    return _ALIASES.get(word, trait_name(word))


def _value(name: str, word: Any) -> Any:
    """Return a value, or the one that a word means in the type of the trait, or what the trait cannot be."""
    if not isinstance(word, str):
        return float(word) if isinstance(word, int) and not isinstance(word, bool) else word
    if TRAITS[name].kind is str:
        spelled = {other: one.name for one in TRAITS[name].kinds.values() for other in one.aliases}
        return spelled.get(word.lower(), word.lower())
    return _TRUTH.get(word.lower()) if TRAITS[name].kind is bool else _number(name, word)


def _former(name: str, word: Any) -> bool | float | str:
    """Return the value that a word means of a former trait."""
    spelled = str(word).lower()
    return spelled if spelled in FORMER[name] else _TRUTH.get(spelled, _number(name, str(word)))


def _number(name: str, word: str) -> float:
    try:
        return float(word)
    except ValueError:
        try:
            return parse(word, "byte") if name.endswith("_bytes") else math.nan
        except ValueError:
            return math.nan
