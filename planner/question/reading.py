"""Texts and values as numbers and names, told as the door names them; every fault kept until the end."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, ParamSpec, TypeVar

from planner.arguments import is_of
from planner.arguments import shown as shown_value
from planner.dataclasses import dataclass, replace
from planner.errors import InputError, Problem, nearest
from planner.fields import FIELDS, MOST_COUNT
from planner.registry import E, find
from planner.units import GIB, parse, ungrouped

Span = tuple[int, int]
"""The ends of a range of counts, both of them in it."""

P = ParamSpec("P")
T = TypeVar("T")

_COUNT: Final = re.compile(r"(\d{1,20})")
_AMOUNT: Final = re.compile(r"(\d{1,20}(?:\.\d{0,20})?|\.\d{1,20})(?:[eE]\+?(\d{1,2}))?\s*([A-Za-z]*)")
_SCALES: Final = {
    "": 1, "k": 10**3, "m": 10**6, "b": 10**9, "g": 10**9, "t": 10**12,
    "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40,
}  # fmt: skip


BINARY: Final = {"k": 2**10, "m": 2**20}
"""What K and M are in lengths and batches, as people write them; in training tokens they are decimal."""

LOADED: Final = {"model": "model", "cluster": "hardware"}
"""What a loader calls a name that it does not know, and the field that holds it."""


def shown(value: object) -> str:
    """Return what the user wrote, quoted if text, and not too long."""
    if isinstance(value, str):
        return repr(value if len(value) <= 60 else f"{value[:57]}...")
    return shown_value(value)


def _flag(name: str) -> str:
    return FIELDS[name].flag if name in FIELDS else f"--{name.replace('_', '-')}"


@dataclass(frozen=True)
class Door:
    """How those who ask at one door name a field, and a field with a value."""

    place: Callable[[str], str]
    joined: str
    truth: str
    word: Callable[[object], str] = str

    def said(self, name: str, value: object) -> str:
        """Return a field with a value as it is said at this door."""
        return f"{self.place(name)}{self.joined}{value}"


OPTIONS: Final = Door(_flag, " ", "true or false")
"""The command line."""
KEYWORDS: Final = Door(lambda name: name, "=", "True or False", repr)
"""The Python API."""


class Reading:
    """Reads values; a fault is noted and gives None, and `finish` tells all of them.

    What a value is of is a field's name, told as the door names it, or any words.
    """

    def __init__(self, door: Door = OPTIONS) -> None:
        self.problems: list[Problem] = []
        self.door = door

    def fault(self, where: str, found: str, expected: str, near: str = "") -> None:
        """Note a fault."""
        self.problems.append(Problem(self.place(where), found, expected, near))

    def place(self, where: str) -> str:
        """Return how the door names a field; other words as they are."""
        return self.door.place(where) if where in FIELDS else where

    def _loaded(self, where: str) -> str:
        """Return where the user wrote what a loader does not know."""
        return self.place(LOADED[where]) if where in LOADED else where

    def attempt(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Return what ``function`` returns, or note the faults of the input that it refuses."""
        try:
            return function(*args, **kwargs)
        except InputError as error:
            for problem in error.problems:
                placed = replace(problem, where=self._loaded(problem.where))
                self.problems += [placed] if placed not in self.problems else []
            return None

    def finish(self) -> None:
        """Raise what was noted.

        Raises `InputError` if there was a fault.
        """
        if self.problems:
            raise InputError(self.problems)

    def seconds(self, option: str, given: str | None) -> float | None:
        """Return a time above zero in seconds."""
        try:
            value = None if given is None else parse(given, "s")
        except ValueError as error:
            self.fault(option, repr(given), f"a time such as 30s, 15min or 2h ({error})")
            return None
        if value is None or value > 0:
            return value
        self.fault(option, repr(given), "a time above 0")
        return None

    def count(
        self, option: str, given: str | float | None, least: int = 1, most: int = MOST_COUNT
    ) -> int | None:
        """Return a whole number between ``least`` and ``most``."""
        if given is None:
            return None
        number = _whole(given)
        if number is not None and least <= number <= most:
            return number
        expected = f"a whole number from {least:,}" + (f" to {most:,}" if most < MOST_COUNT else "")
        near = ""
        if number is not None and number > most:
            expected, near = f"a whole number from {least:,} to {most:,}", str(most)
        elif number is not None:
            near = str(least)
        self.fault(option, shown(given), expected, near)
        return None

    def length(self, option: str, text: str | int | None, most: int = MOST_COUNT) -> int | None:
        """Return a whole number of tokens, also as ``128Ki`` or ``128K``, which are the same."""
        if not isinstance(text, str):
            return self.count(option, text, most=most)
        match = _AMOUNT.fullmatch(ungrouped(text.strip()))
        scale = match[3].lower() if match else ""
        if match is None or scale not in ("k", "m", "ki", "mi") or match[2]:
            return self.count(option, text, most=most)
        whole = float(match[1]) * BINARY[scale[0]]
        return self.count(option, f"{whole:.0f}" if whole.is_integer() else text, most=most)

    def amount(self, option: str, given: str | float | None, binary: bool = False) -> float | None:
        """Return a positive number such as ``1.5T``, ``15e12`` or ``4Mi``; where ``binary``, 4M is 4Mi."""
        if given is None:
            return None
        number = _scaled(given, _SCALES | BINARY if binary else _SCALES)
        if 0 < number < 1e30:
            return number
        self.fault(option, shown(given), "a positive number, such as 1.5T, 300B, 15e12 or 4Mi")
        return None

    def number(self, option: str, text: str | float | None, least: float) -> float | None:
        """Return a finite number of at least ``least``."""
        if text is None:
            return None
        number = _real(text)
        if least <= number < math.inf:
            return number
        self.fault(option, shown(text), f"a number from {least:g}", f"{least:g}" if number < least else "")
        return None

    def memory(self, option: str, given: str | float | None) -> float | None:
        """Return bytes; a bare number in a text is in GiB, a number is in bytes."""
        if given is None:
            return None
        if not isinstance(given, str):
            if 0 < _real(given) < math.inf:
                return _real(given)
            self.fault(option, str(given), "bytes above 0")
            return None
        try:
            nbytes = float(given) * GIB
        except ValueError:
            try:
                nbytes = parse(given, "byte")
            except ValueError as error:
                self.fault(option, shown(given), f"GiB as a number, or a size with its unit ({error})")
                return None
        if 0 < nbytes < 1e18:
            return nbytes
        self.fault(option, shown(given), "more than zero GiB")
        return None

    def named(self, option: str, given: object, table: Mapping[str, E]) -> E | None:
        """Return the entry of ``table`` with that name or alias."""
        if given is None:
            return None
        if not isinstance(given, str):
            self.fault(option, shown(given), f"one of {', '.join(table)}")
            return None
        return self.attempt(find, table, given.strip(), self.place(option))

    def word(self, option: str, given: str | None, choices: tuple[str, ...]) -> str | None:
        """Return one of ``choices``, whatever its case."""
        word = given.strip().lower() if isinstance(given, str) else None
        if given is None or word in choices:
            return word
        self.fault(option, shown(given), f"one of {', '.join(choices)}", nearest(str(given), choices))
        return None

    def counts(
        self, option: str, given: str | int | tuple[Span, ...] | None, several: bool = True
    ) -> tuple[Span, ...] | None:
        """Return the ends of each range ``A..B`` of a list ``A..B,C,D``; both are N for a bare N.

        Commas separate the items of a list: ``128,256`` are two. Where thousands alone can be meant, as in
        ``1,024`` or where no list is taken, they are one number.
        """
        if given is None:
            return None
        if isinstance(given, tuple):
            return given if several or len(given) == 1 else self.counts(option, written_spans(given), several)
        if not isinstance(given, str):
            number = self.count(option, given)
            return None if number is None else ((number, number),)
        text = given
        if not several or re.search(r",0", text):
            span = self._span(option, text)
            return None if span is None else (span,)
        spans = [self._span(option, item) for item in text.split(",")]
        return tuple(dict.fromkeys(span for span in spans if span)) if all(spans) else None

    def _span(self, option: str, text: str) -> Span | None:
        """Return the ends of a range ``A..B``; both are N for a bare N."""
        low, dots, high = text.partition("..")
        first = self.count(option, low)
        last = self.count(option, high) if dots else first
        if first is None or last is None:
            return None
        if first > last:
            self.fault(option, shown(text), "a range from the smaller to the larger", f"{last}..{first}")
            return None
        return first, last

    def whole_list(self, option: str, given: str | Sequence[object] | None) -> tuple[int, ...] | None:
        """Return whole numbers, or texts of them, in a sequence or joined by commas."""
        if given is None:
            return None
        numbers = [self.count(option, part, least=0) for part in parts_of(given)]  # type: ignore[arg-type]
        return tuple(number for number in numbers if number is not None) if None not in numbers else None


def written_spans(spans: tuple[Span, ...]) -> str:
    """Return ranges as they are written: ``8..16,32``."""
    return ",".join(str(low) if low == high else f"{low}..{high}" for low, high in spans)


def _whole(given: object) -> int | None:
    """Return a whole number, or -1 for all below zero; None where it is none."""
    if is_of(given, int):
        number: int = int(given)  # type: ignore[call-overload]
        return max(-1, number)
    plain = ungrouped(given.strip()) if isinstance(given, str) else ""
    if re.fullmatch(r"-\d+", plain):
        return -1
    return int(plain) if _COUNT.fullmatch(plain) else None


def _real(given: object) -> float:
    """Return a number, or NaN where it is none."""
    if not is_of(given, str | float):
        return math.nan
    try:
        return float(given)  # type: ignore[arg-type]
    except ValueError:
        return math.nan


def parts_of(given: object) -> list[object]:
    """Return the items of a list, or of a text of them joined by commas."""
    parts = given.split(",") if isinstance(given, str) else given
    return list(parts) if isinstance(parts, Sequence) else [parts]


def _scaled(given: object, scales: Mapping[str, int]) -> float:
    """Return a number, or a text of one with a letter for its size; 0 where it is neither."""
    if not isinstance(given, str):
        return max(0.0, _real(given)) if _real(given) < math.inf else 0.0
    match = _AMOUNT.fullmatch(ungrouped(given.strip()))
    scale = scales.get(match[3].lower()) if match else None
    return float(f"{match[1]}e{match[2] or 0}") * scale if match and scale else 0.0
