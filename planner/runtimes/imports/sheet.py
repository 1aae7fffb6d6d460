"""The keys of one file, and what they were found to say."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from planner.dataclasses import dataclass, field, replace
from planner.errors import InputError, Problem
from planner.inputs.model import ModelSpec

_WHOLE: Final = re.compile(r"-*\d+(?:_\d+)*")
ANSWERS: Final = {"accumulation": "global_batch"}
"""What is said in the place of what the command line has no option for."""

_UNSET: Final = re.compile(r"\$\{?([A-Za-z_]\w*)")


def unset_hint(text: str) -> str:
    """Return how to set the variable that is left in a text; nothing where none is."""
    variable = _UNSET.search(text)
    return f"; {variable[1]}=value planner ... sets it" if variable else ""


@dataclass(frozen=True)
class Imported:
    """What a file says."""

    runtime: str
    """Whose file it is."""
    options: Mapping[str, str]
    """Option of the command line, as the fields of its records spell it, to its text."""
    places: Mapping[str, str]
    """Option to the key that says it."""
    model: ModelSpec | None = None
    """The architecture, where the file has it whole."""
    model_name: str | None = None
    """The name of a model of the zoo, where the file names one."""
    changes: tuple[str, ...] = ()
    """Traits that the file sets, as ``TRAIT=VALUE``."""
    unknown: tuple[str, ...] = ()
    """Keys that were not understood."""
    notes: tuple[str, ...] = ()
    """What was read otherwise than as written."""
    faults: tuple[tuple[str, Problem], ...] = ()
    """What is wrong with the file, each with the option that says it in its place: a fault counts only where
    the user does not give that option."""
    lifted: tuple[str, ...] = ()
    """Rules of the runtime that are about the files that the planner writes for it, where another tool's file
    is read."""
    cluster: Mapping[str, str] = field(default_factory=dict)
    """The cluster that the file names, as options: counts where the user names no other."""

    def checked(self, given: Iterable[str] = ()) -> Imported:
        """Return this, if nothing is wrong beside what the options that are ``given`` say in its place.

        Raises `InputError` with every fault that is left.
        """
        left = [problem for option, problem in self.faults if option not in set(given)]
        if left:
            raise InputError(left)
        return self


class Sheet:
    """Keys that are taken one by one; those never asked for are the unknown ones."""

    def __init__(self, where: str, values: Mapping[str, Any]) -> None:
        self.where = where
        self.values = values
        self.seen: set[str] = set()
        self.options: dict[str, str] = {}
        self.places: dict[str, str] = {}
        self.changes: list[str] = []
        self.notes: list[str] = []
        self.problems: dict[str, Problem] = {}
        self.instead: dict[str, str] = {}

    def take(self, *keys: str) -> Any:
        """Return the value of the first key that is there, or None; all of them count as understood."""
        self.seen.update(keys)
        return next((self.values[key] for key in keys if self.values.get(key) is not None), None)

    def ignore(self, decide_nothing: re.Pattern[str], *names: str) -> None:
        """Count keys as understood that decide nothing: all that match, and the names given."""
        self.seen.update(names, (key for key in self.values if decide_nothing.fullmatch(key)))

    def has(self, *keys: str) -> bool:
        """Return whether a switch is set: there without a value, or not false."""
        value = self.take(*keys)
        return value is not None and str(value).lower() not in ("false", "0", "no")

    def whole(self, *keys: str) -> int | None:
        """Return a whole number, or None where it is not said; another value is a fault."""
        value = self.take(*keys)
        if value is None or value == "auto":
            return None
        text = str(value).strip()
        if isinstance(value, bool) or not _WHOLE.fullmatch(text) or len(text) > 18:
            expected = f"a whole number{unset_hint(text)}"
            self.fault(next(key for key in keys if key in self.values), repr(text), expected)
            return None
        return int(text.replace("_", ""))

    def degree(self, *keys: str) -> int | None:
        """Return a whole number of 1 or more, or None where it is not said; another value is a fault."""
        value = self.whole(*keys)
        if value is not None and value < 1:
            key = next(key for key in keys if self.values.get(key) is not None)
            self.fault(key, str(value), "a whole number, 1 or more")
            return None
        return value

    def fault(self, key: str, found: str, expected: str, near: str = "") -> None:
        """Note a fault of the file, and how to set a variable that is left in what was found."""
        hint = unset_hint(found)
        told = expected if hint in expected else f"{expected}{hint}"
        self.problems.setdefault(key, Problem(f"{self.where}: {key}", found, told, near))

    def faulty(self, *keys: str) -> bool:
        """Return whether the value of a key is a fault."""
        return any(key in self.problems for key in keys)

    def say(self, option: str, value: object, *keys: str) -> None:
        """Set an option, which a user may give in the keys' place; None and ``auto`` leave it open."""
        self.instead.update(dict.fromkeys(keys, option))
        if value is None or value == "auto":
            return
        self.options[option] = str(value)
        self.places[option] = next((key for key in keys if key in self.values), keys[0] if keys else option)

    def copy(self, option: str, *keys: str) -> None:
        """Set an option to the value of the first key that is there."""
        self.say(option, self.take(*keys), *keys)

    def unknown(self) -> tuple[str, ...]:
        """Return the keys with a value that nobody asked for, in the file's order."""
        return tuple(key for key, value in self.values.items() if value is not None and key not in self.seen)

    def _told(self, key: str, option: str | None) -> Problem:
        """Return the fault of a key, with the option that lifts it where there is one."""
        fault = self.problems[key]
        word = "MODEL" if option == "model" else f"--{option}".replace("_", "-")
        if not option or re.search(rf"{word}(?![\w-])", fault.expected):
            return fault
        return replace(fault, expected=f"{fault.expected}; or {word} on the command line")

    def imported(
        self, runtime: str, model: ModelSpec | None = None, model_name: str | None = None
    ) -> Imported:
        """Return what was found, with every fault noted."""
        options = {key: ANSWERS.get(option, option) for key, option in self.instead.items()}
        faults = tuple((options.get(key, ""), self._told(key, options.get(key))) for key in self.problems)
        return Imported(
            runtime, self.options, self.places, model, model_name, tuple(self.changes), self.unknown(),
            tuple(self.notes), faults,
        )  # fmt: skip
