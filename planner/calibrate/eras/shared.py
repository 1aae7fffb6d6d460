"""What eras and statements have in common: named sets of traits, and values of settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from planner.dataclasses import dataclass
from planner.errors import InputError, Problem, nearest
from planner.inputs.build import build
from planner.inputs.record import Record
from planner.inputs.yaml_file import read_yaml
from planner.runtimes.trait_values import expected, is_allowed
from planner.runtimes.traits import TRAITS, over, trait_name
from planner.runtimes.traits.former import as_kinds
from planner.techniques.settings import SETTINGS

SHARED: Final = "shared"
"""Folder beside the programs' files."""


class TraitSet(Record):
    """Traits that several eras have."""

    about: str
    """What they stand for, and where that is said."""
    traits: Mapping[str, Any]
    """Their values; ``sets`` and ``settings`` bring in those of others."""


@dataclass(frozen=True)
class SharedTraits:
    """Sets of traits by name."""

    sets: Mapping[str, Mapping[str, object]]

    def traits(self, raw: Any, place: str, problems: list[Problem]) -> dict[str, object]:
        """Return the traits that a mapping of a file means.

        Parameters
        ----------
        raw : mapping
            Values by the flat name of their trait; under ``sets`` a list of sets, under ``settings`` a value
            for each setting of frameworks. What is written out goes before settings, and those before sets.
        place : str
            Where it stands.
        problems : list
            Gets a problem for each fault.
        """
        if not isinstance(raw, dict):
            problems.append(Problem(place, repr(raw), "traits by name"))
            return {}
        own = as_kinds({name: value for name, value in raw.items() if name not in ("sets", "settings")})
        own = {trait_name(name): value for name, value in own.items()}
        found = self._of_sets(raw.get("sets", []), f"{place}.sets", problems)
        found = over(found, _of_settings(raw.get("settings", {}), f"{place}.settings", problems))
        mine: dict[str, object] = {}
        for name, value in own.items():
            if name not in TRAITS:
                problems.append(Problem(f"{place}.{name}", "unknown trait", "a trait", nearest(name, TRAITS)))
            elif not is_allowed(name, value):
                problems.append(Problem(f"{place}.{name}", repr(value), expected(name)))
            else:
                mine[name] = TRAITS[name].kind(value)
        return over(found, mine)

    def _of_sets(self, names: Any, place: str, problems: list[Problem]) -> dict[str, object]:
        found: dict[str, object] = {}
        for name in names if isinstance(names, list) else [names]:
            if name in self.sets:
                found = over(found, self.sets[name])
            else:
                known = f"one of {', '.join(self.sets)}"
                problems.append(Problem(place, repr(name), known, nearest(str(name), self.sets)))
        return found


def _of_settings(values: Any, place: str, problems: list[Problem]) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in values.items() if isinstance(values, dict) else [(values, "")]:
        if name not in SETTINGS:
            known = f"one of {', '.join(SETTINGS)}"
            problems.append(Problem(place, repr(name), known, nearest(str(name), SETTINGS)))
        elif value not in SETTINGS[name].values:
            problems.append(Problem(f"{place}.{name}", repr(value), f"one of {SETTINGS[name].value_names}"))
        else:
            found |= SETTINGS[name].values[value]
    return found


def read_shared(folder: Path) -> SharedTraits:
    """Return the sets of traits of a folder; a set may bring in those before it.

    Raises `InputError` with a problem for each fault.
    """
    path = folder / "traits.yaml"
    problems: list[Problem] = []
    sets: dict[str, Mapping[str, object]] = {}
    for name, raw in (read_yaml(path) if path.is_file() else {}).items():
        try:
            entry = build(TraitSet, raw, f"{path}: {name}")
            sets[name] = SharedTraits(sets).traits(entry.traits, f"{path}: {name}.traits", problems)
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(problems)
    return SharedTraits(sets)
