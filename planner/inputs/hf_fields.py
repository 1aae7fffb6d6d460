"""Checked access to the fields of a ``config.json``: defaults are noted, faults kept until all are known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from planner.errors import Problem
from planner.inputs.hf_family import Biased
from planner.inputs.hf_keys import Keys, near_misses
from planner.inputs.layers import MAX_LAYERS


@dataclass
class Config:
    """The keys of one config with a type's defaults: every access is checked, every fault kept."""

    raw: Mapping[str, Any]
    defaults: Mapping[str, Any]
    where: str
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    names: Mapping[str, str] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Read keys that the type spells its own way under their usual names."""
        found = {usual: _inside(self.raw, own) for usual, own in self.names.items()}
        there = {usual: value for usual, value in found.items() if value is not None}
        self.raw = Keys({**self.raw, **there}, self.asked)

    def value(self, *names: str) -> Any:
        """The first of ``names`` that is set, else the type's default, else nothing."""
        for name in names:
            if self.raw.get(name) is not None:
                return self.raw[name]
        for name in names:
            if name in self.defaults:
                if self.defaults[name] is not None:
                    self.note(f"{name} is absent: {self.defaults[name]}, the default of the model type")
                return self.defaults[name]
        return None

    def note(self, text: str) -> None:
        """Keep a sentence for the user, once."""
        if text not in self.notes:
            self.notes.append(text)

    def fault(self, name: str, found: object, expected: str) -> None:
        """Keep a fault, once."""
        problem = Problem(f"{self.where}: {self.names.get(name, name)}", str(found)[:80], expected)
        if problem not in self.problems:
            self.problems.append(problem)

    def misspelt(self, said: Mapping[str, Any], idle: Iterable[str]) -> None:
        """Keep a fault for each key of the file ``said`` that is one letter off one that was looked for.

        ``idle``: keys without effect, which types spell in several ways.
        """
        wanted = [self.names.get(name, name) for name in self.asked]
        rest = [key for key in said if key not in self.asked]
        for key, meant in near_misses(rest, wanted, {*idle, *said}):
            self.fault(key, "no key that is read", meant)

    def whole(self, *names: str, otherwise: int | None = None, least: int = 1) -> int:
        """A whole number, or as many equal ones as layers; ``otherwise`` where none of ``names`` is set."""
        value = self.value(*names)
        if isinstance(value, list) and len(value) > 1 and [value[0]] * self._layers == value:
            value = value[0]
        if value is None and otherwise is not None:
            return otherwise
        if value is None:
            key = self.names.get(names[0], names[0])
            others = f", or one of {', '.join(names[1:])}" * bool(names[1:])
            said = f'a whole number, which the type leaves open: "{key}": N in the file{others}'
            self.fault(names[0], "nothing", said)
            return least
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= 10**12:
            self.fault(self._set(names), repr(value), f"a whole number of at least {least}")
            return least
        return value

    def flag(self, name: Biased, otherwise: bool = False) -> bool:
        """A truth value under the key ``name``; a name that is one already is the answer."""
        if isinstance(name, bool):
            return name
        value = self.value(name)
        if value is None:
            return otherwise
        if not isinstance(value, bool):
            self.fault(name, repr(value), "true or false")
        return bool(value)

    def numbers(self, name: str) -> list[int] | None:
        """A list of whole numbers, or nothing where the key is not set to a list."""
        value = self.value(name)
        if not isinstance(value, list):
            return None
        if not all(isinstance(item, int) for item in value):
            self.fault(name, value, "a list of whole numbers")
            return None
        return value

    @property
    def _layers(self) -> int:
        said = self.raw.get("num_hidden_layers")
        return said if isinstance(said, int) and 0 < said <= MAX_LAYERS else 0

    def _set(self, names: Sequence[str]) -> str:
        return next((name for name in names if self.raw.get(name) is not None), names[0])


def _inside(raw: Any, path: str) -> Any:
    """The value under keys joined by dots, or nothing."""
    for key in path.split("."):
        raw = raw.get(key) if isinstance(raw, Mapping) else None
    return raw
