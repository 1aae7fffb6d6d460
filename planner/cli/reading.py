"""Words of the command line as numbers and names, with every fault kept until the end."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, ParamSpec, TypeVar

from planner.errors import InputError, Problem, nearest
from planner.registry import E, find
from planner.units import GIB, parse, ungrouped

Span = tuple[int, int]
"""The ends of a range of counts, both of them in it."""

P = ParamSpec("P")
T = TypeVar("T")

MOST: Final = 10**9
"""The largest count that any option takes."""

_COUNT: Final = re.compile(r"(\d{1,20})")
_AMOUNT: Final = re.compile(r"(\d{1,20}(?:\.\d{0,20})?|\.\d{1,20})(?:[eE]\+?(\d{1,2}))?\s*([A-Za-z]*)")
_SCALES: Final = {
    "": 1, "k": 10**3, "m": 10**6, "b": 10**9, "g": 10**9, "t": 10**12,
    "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40,
}  # fmt: skip


BINARY: Final = {"k": 2**10, "m": 2**20}
"""What K and M are in lengths and batches, as people write them; in training tokens they are decimal."""

_OPTION_OF: Final = {"model": "MODEL", "cluster": "--hardware"}
"""What a loader calls a name that it does not know, and where the user has written it."""


def shown(text: str) -> str:
    """Return what the user wrote, quoted and not too long."""
    return repr(text if len(text) <= 60 else f"{text[:57]}...")


class Reading:
    """Reads options; a fault is noted and gives None, and `finish` tells all of them."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def fault(self, option: str, found: str, expected: str, near: str = "") -> None:
        """Note a fault."""
        self.problems.append(Problem(option, found, expected, near))

    def attempt(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Return what ``function`` returns, or note the faults of the input that it refuses."""
        try:
            return function(*args, **kwargs)
        except InputError as error:
            for problem in error.problems:
                placed = replace(problem, where=_OPTION_OF.get(problem.where, problem.where))
                self.problems += [placed] if placed not in self.problems else []
            return None

    def finish(self) -> None:
        """Raise what was noted.

        Raises
        ------
        InputError
            If there was a fault.
        """
        if self.problems:
            raise InputError(self.problems)

    def count(self, option: str, text: str | None, least: int = 1, most: int = MOST) -> int | None:
        """Return a whole number between ``least`` and ``most``."""
        if text is None:
            return None
        expected = f"a whole number from {least:,}" + (f" to {most:,}" if most < MOST else "")
        plain = ungrouped(text.strip())
        number = int(plain) if _COUNT.fullmatch(plain) else None
        if number is not None and least <= number <= most:
            return number
        near = ""
        if number is not None and number > most:
            expected, near = f"a whole number from {least:,} to {most:,}", str(most)
        elif number is not None or re.fullmatch(r"-\d+", plain):
            near = str(least)
        self.fault(option, shown(text), expected, near)
        return None

    def length(self, option: str, text: str | None, most: int = MOST) -> int | None:
        """Return a whole number of tokens, also as ``128Ki`` or ``128K``, which are the same."""
        match = _AMOUNT.fullmatch(ungrouped((text or "").strip()))
        scale = match[3].lower() if match else ""
        if text is None or match is None or scale not in ("k", "m", "ki", "mi") or match[2]:
            return self.count(option, text, most=most)
        whole = float(match[1]) * BINARY[scale[0]]
        return self.count(option, f"{whole:.0f}" if whole.is_integer() else text, most=most)

    def amount(self, option: str, text: str | None, binary: bool = False) -> float | None:
        """Return a positive number such as ``1.5T``, ``15e12`` or ``4Mi``; where ``binary``, 4M is 4Mi."""
        if text is None:
            return None
        match = _AMOUNT.fullmatch(ungrouped(text.strip()))
        scales = _SCALES | BINARY if binary else _SCALES
        scale = scales.get(match[3].lower()) if match else None
        number = float(f"{match[1]}e{match[2] or 0}") * scale if match and scale else 0.0
        if 0 < number < 1e30:
            return number
        self.fault(option, shown(text), "a positive number, such as 1.5T, 300B, 15e12 or 4Mi")
        return None

    def number(self, option: str, text: str | None, least: float) -> float | None:
        """Return a finite number of at least ``least``."""
        if text is None:
            return None
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if least <= number < math.inf:
            return number
        self.fault(option, shown(text), f"a number from {least:g}", f"{least:g}" if number < least else "")
        return None

    def memory(self, option: str, text: str | None) -> float | None:
        """Return bytes; a bare number is in GiB."""
        if text is None:
            return None
        try:
            nbytes = float(text) * GIB
        except ValueError:
            try:
                nbytes = parse(text, "byte")
            except ValueError as error:
                self.fault(option, shown(text), f"GiB as a number, or a size with its unit ({error})")
                return None
        if 0 < nbytes < 1e18:
            return nbytes
        self.fault(option, shown(text), "more than zero GiB")
        return None

    def named(self, option: str, text: str | None, table: Mapping[str, E]) -> E | None:
        """Return the entry of ``table`` with that name or alias."""
        return None if text is None else self.attempt(find, table, text.strip(), option)

    def word(self, option: str, text: str | None, choices: tuple[str, ...]) -> str | None:
        """Return one of ``choices``, whatever its case."""
        if text is None or text.strip().lower() in choices:
            return None if text is None else text.strip().lower()
        self.fault(option, shown(text), f"one of {', '.join(choices)}", nearest(text, choices))
        return None

    def counts(self, option: str, text: str | None, several: bool = True) -> tuple[Span, ...] | None:
        """Return the ends of each range ``A..B`` of a list ``A..B,C,D``; both are N for a bare N.

        Commas separate the items of a list: ``128,256`` are two. Where thousands alone can be meant, as in
        ``1,024`` or where no list is taken, they are one number.
        """
        if text is None:
            return None
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

    def whole_list(self, option: str, text: str | None) -> tuple[int, ...] | None:
        """Return whole numbers joined by commas."""
        if text is None:
            return None
        numbers = [self.count(option, part, least=0) for part in text.split(",")]
        return tuple(number for number in numbers if number is not None) if None not in numbers else None


def read_slowdown(text: str | None, objective: str) -> float:
    """Return how many times the fastest plan's step the plan of least memory may take.

    Raises
    ------
    InputError
        If it is below 1, or memory is not the objective.
    """
    from planner.search.request import SLOWDOWN

    reading = Reading()
    endless = text is not None and text.strip().lower() == "inf"
    times = float("inf") if endless else reading.number("--slowdown", text, 1.0)
    if text is not None and objective != "memory":
        reading.fault("--slowdown", f"--objective {objective}", "--objective memory")
    reading.finish()
    return SLOWDOWN if times is None else times
