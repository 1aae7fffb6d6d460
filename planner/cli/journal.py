"""Results on disk as they come: JSON Lines that outlive an interrupt, a kill and a full disk."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from planner.errors import InputError, Problem
from planner.inputs.bounded import LINE_BYTES
from planner.sweep.row import CASE, Row, row_of

fcntl: Any
try:
    import fcntl
except ImportError:  # the system has no such locks
    fcntl = None

HEAD: Final = json.dumps({"schema": CASE})[:-1].encode()
"""How every line starts."""


def line_of(row: Row) -> bytes:
    """Return the line of a row, with its end."""
    return json.dumps(row.document(), allow_nan=False).encode() + b"\n"


class Journal:
    """The file of a sweep, open for one process at a time.

    ``path``: JSON Lines, one for each case; made where it is missing; ``afresh``: whether what is there is
    thrown away.
    """

    def __init__(self, path: Path, afresh: bool = False) -> None:
        self.path = path
        self.afresh = afresh
        self._file = -1

    def __enter__(self) -> Self:
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise self._fault(f"a place that can be written ({error.strerror})") from None
        if not stat.S_ISREG(os.fstat(self._file).st_mode):
            os.close(self._file)
            raise self._fault("a regular file, which can be read again")
        self._lock()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._file)

    def _lock(self) -> None:
        """Keep other sweeps away, where the system has locks."""
        if fcntl is None:
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._file)
            raise self._fault("a file that no other sweep is writing") from None

    def rows(self) -> Mapping[str, Row]:
        """Return the rows that are there by key, the last of each; a line half written at the end is cut.

        Raises `InputError` if the file holds something else; it is then left as it is, unless it was to be
        thrown away.
        """
        if self.afresh:
            os.ftruncate(self._file, 0)
            return {}
        rows: dict[str, Row] = {}
        whole = 0
        with self.path.open("rb") as stream:
            for number, line in enumerate(iter(lambda: stream.readline(LINE_BYTES + 1), b""), 1):
                if not line.endswith(b"\n"):
                    self._cut(line, whole)
                    break
                row = self._row(line[:-1], number)
                rows[row.key] = row
                whole += len(line)
        return rows

    def _cut(self, half: bytes, whole: int) -> None:
        """Cut a line half written at the end, unless the file is something else."""
        if len(half) > LINE_BYTES or not (half.startswith(HEAD) or HEAD.startswith(half) or whole):
            raise self._fault("the results of a sweep, or --force with --no-resume")
        os.ftruncate(self._file, whole)

    def _row(self, line: bytes, number: int) -> Row:
        try:
            return row_of(json.loads(line))
        except (ValueError, AttributeError, TypeError, RecursionError) as error:
            words = f"the result of a case ({error}), or --force with --no-resume"
            raise InputError(
                Problem(f"{self.path}:{number}", repr(line[:40].decode("latin-1")), words)
            ) from None

    def append(self, row: Row) -> None:
        """Write a row, and wait until it is on the disk.

        Raises `InputError` if the disk takes no more; what was written of the line is cut when the file is
        read again.
        """
        rest = line_of(row)
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
            os.fsync(self._file)
        except OSError as error:
            raise self._fault(f"a place that can be written ({error.strerror})") from None

    def _fault(self, expected: str) -> InputError:
        return InputError(Problem("--out", str(self.path), expected))
