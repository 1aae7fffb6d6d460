"""The raw table: one line of JSON for each measured point, kept as soon as it is measured."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from planner.errors import InputError, Problem
from planner.profile.provenance import differences
from planner.profile.stopped import Stopped

SCHEMA: Final = "planner/profile-raw/1"

Row = dict[str, Any]


class RawTable:
    """Rows of one measurement in a file that survives its interruption.

    ``path``: where it lies; made with its folder; ``head``: provenance of the rows to come; ``fresh``: begin
    anew, whatever the file holds.

    Raises
    ------
    InputError
        If the file cannot be written, is no raw table, or was measured on another machine or with other
        versions.
    """

    def __init__(self, path: Path, head: Mapping[str, Any], fresh: bool = False) -> None:
        self.path, self.head = path, dict(head)
        self.rows: list[Row] = []
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            old = "" if fresh or not path.exists() else path.read_text(encoding="utf-8")
            with path.open("a" if old else "w", encoding="utf-8") as stream:
                if not old:
                    stream.write(_line({"schema": SCHEMA, **self.head}))
                elif not old.endswith("\n"):
                    stream.write("\n")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "not text"
            raise InputError(
                Problem("--out", repr(str(path)), f"a file that can be written ({reason})")
            ) from None
        if old:
            self._resume(old)
        self.keys = {row["key"] for row in self.rows}

    def _resume(self, text: str) -> None:
        lines = [_parsed(line) for line in text.splitlines()]
        first = lines[0] if lines else None
        if not isinstance(first, dict) or first.get("schema") != SCHEMA:
            found = f"{str(self.path)!r}, which is no raw table"
            raise InputError(Problem("--out", found, "another name, or --fresh to write over it"))
        changed = differences(first, self.head)
        if changed:
            found = f"{str(self.path)!r}, measured elsewhere: {'; '.join(changed)}"
            raise InputError(Problem("--out", found, "another name, or --fresh to measure anew"))
        self.head = {name: value for name, value in first.items() if name != "schema"}
        self.rows = [row for row in lines[1:] if isinstance(row, dict) and "key" in row]

    def add(self, row: Row) -> None:
        """Keep a row, on disk at once.

        Raises `Stopped` if it cannot be written; the rows before it are kept.
        """
        try:
            with self.path.open("a", encoding="utf-8") as stream:
                stream.write(_line(row))
        except OSError as error:
            raise Stopped(
                f"cannot write to {self.path} ({error.strerror}); the {len(self.rows)} points measured so "
                "far are kept there: make room, and the same command goes on"
            ) from None
        self.rows.append(row)
        self.keys.add(row["key"])

    def measured(self, bench: str = "") -> list[Row]:
        """Return the rows that have a time, of one bench or of all."""
        return [row for row in self.rows if "seconds" in row and bench in ("", row["bench"])]

    def refused(self) -> list[Row]:
        """Return the rows of points that the device did not take."""
        return [row for row in self.rows if "seconds" not in row]


def first_line(error: BaseException) -> str:
    """Return the first line of an error, shortened, or its name where it says nothing."""
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(row, allow_nan=False) + "\n"


def _parsed(line: str) -> Any:
    """Return what a line holds; None where it was cut off."""
    try:
        return json.loads(line)
    except ValueError:
        return None
