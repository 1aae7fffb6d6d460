"""A table of predictions: what somebody's predictor says of each row, whatever the predictor is."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from planner.errors import InputError, Problem, nearest

COLUMNS: Final = ("id", "step_time_s", "memory_gib", "fits")
"""Columns that are read; others are passed over."""
YES: Final = frozenset(("1", "true", "yes"))
NO: Final = frozenset(("0", "false", "no"))
BLANK: Final = frozenset(("", "nan", "none", "null", "n/a", "-"))
"""Words with which a predictor says nothing about a row."""
TOLD: Final = 20
"""Faults of one file that are told. [-]"""


@dataclass(frozen=True, slots=True)
class PredictedRow:
    """What a predictor says of a row; None where it says nothing."""

    step_s: float | None = None
    """Seconds per step. [s]"""
    memory_gib: float | None = None
    """Peak memory by the counter that the row names. [GiB]"""
    fits: bool | None = None
    """Whether it runs without running out of memory."""


def read_predictions(lines: Iterable[str], where: str) -> dict[str, PredictedRow]:
    """Return predictions by the key of their row.

    ``lines``: lines of a CSV file with the column ``id`` and at least one other of `COLUMNS`; ``where``: what
    to call the file in messages.

    Raises `InputError` for a header without these columns, a key that stands twice, and cells that are no
    such value; the first faults at once.
    """
    reader = csv.reader(lines)
    try:
        header = [name.strip().lstrip("\ufeff") for name in next(reader, [])]
        _check_header(header, where)
        return _rows(reader, header, where)
    except csv.Error as error:
        found = f"{where}: line {reader.line_num}"
        raise InputError(Problem(found, str(error), "a line of comma-separated cells")) from None


def _check_header(header: list[str], where: str) -> None:
    problems = []
    if "id" not in header:
        problems.append(Problem(f"{where}: column id", "missing", "the keys of rows", nearest("id", header)))
    if not set(header) & set(COLUMNS[1:]):
        found = ", ".join(header)[:80] or "nothing"
        problems.append(Problem(f"{where}: line 1", found, f"a column {', '.join(COLUMNS[1:-1])} or fits"))
    twice = sorted({name for name in header if name in COLUMNS and header.count(name) > 1})
    problems += [Problem(f"{where}: column {name}", "twice", "once") for name in twice]
    if problems:
        raise InputError(problems)


def _rows(reader: Iterable[list[str]], header: list[str], where: str) -> dict[str, PredictedRow]:
    found: dict[str, PredictedRow] = {}
    problems: list[Problem] = []
    for number, cells in enumerate(reader, 2):
        if not any(cell.strip() for cell in cells):
            continue
        row = dict(zip(header, (cell.strip() for cell in cells), strict=False))
        place = f"{where}: row {number}"
        if len(cells) != len(header):
            problems.append(Problem(place, f"{len(cells)} cells", f"{len(header)}, as in the header"))
        elif not row["id"] or row["id"] in found:
            problems.append(Problem(f"{place}, column id", row["id"] or "blank", "a key that stands once"))
        else:
            found[row["id"]] = PredictedRow(
                _amount(row, "step_time_s", place, problems),
                _amount(row, "memory_gib", place, problems),
                _truth(row, place, problems),
            )
    if problems:
        raise InputError(problems[:TOLD])
    return found


def _amount(row: dict[str, str], name: str, place: str, problems: list[Problem]) -> float | None:
    text = row.get(name, "")
    if text.lower() in BLANK:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        problems.append(Problem(f"{place}, column {name}", repr(text[:40]), "a number above 0, or blank"))
        return None
    return value


def _truth(row: dict[str, str], place: str, problems: list[Problem]) -> bool | None:
    text = row.get("fits", "").lower()
    if text in BLANK:
        return None
    if text not in YES | NO:
        problems.append(Problem(f"{place}, column fits", repr(text[:40]), "1, 0, true, false or blank"))
    return text in YES
