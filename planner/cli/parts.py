"""Long work cut into parts that copies of this process do at once, one for each core."""

from __future__ import annotations

import os
import pickle
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, Generic, TypeVar

from planner.deferred import deferred

with deferred():
    from planner.sweep.executors import family

T = TypeVar("T")
R = TypeVar("R")

LEAST: Final = 500
"""Pieces of work below which a process is not worth its start. [-]"""


def in_parts(work: Callable[[Sequence[T]], R], pieces: Sequence[T]) -> list[R]:
    """Return what ``work`` makes of consecutive parts of the pieces, in their order.

    A copy knows all that this process has read and worked out, so that nothing but results travels. Few
    pieces are one part, and so are all where a system has no copies that are safe.
    """
    most = len(pieces) // LEAST
    count = min(most, family.cores()) if most > 1 and sys.platform == "linux" else 1
    if count < 2:
        return [work(pieces)]
    size = -(-len(pieces) // count)
    parts = [pieces[start : start + size] for start in range(0, len(pieces), size)]
    copies = [_Copy(work, part) for part in parts[1:]]
    try:
        found = [work(parts[0])]
        return found + [copy.result() for copy in copies]
    finally:
        for copy in copies:
            copy.end()


class _Copy(Generic[T, R]):
    """A copy of this process that does one part of its work, and ends."""

    def __init__(self, work: Callable[[Sequence[T]], R], part: Sequence[T]) -> None:
        self._work, self._part = work, part
        self._pipe, out = os.pipe()
        self._process = os.fork()
        if self._process == 0:
            _work_and_end(work, part, out)
        os.close(out)

    def result(self) -> R:
        """Return what the copy made of its part; where the copy failed, make it here."""
        with os.fdopen(self._pipe, "rb") as stream:
            told = stream.read()
        _, status = os.waitpid(self._process, 0)
        self._process = 0
        found: R = pickle.loads(told) if status == 0 else self._work(self._part)
        return found

    def end(self) -> None:
        """End the copy where nobody waits for its result any more."""
        if self._process:
            os.close(self._pipe)
            with suppress(ProcessLookupError):
                os.kill(self._process, signal.SIGKILL)
            os.waitpid(self._process, 0)


def _work_and_end(work: Callable[[Sequence[T]], R], part: Sequence[T], out: int) -> None:
    """Do a part in a copy, write the result, and end it without what the process itself does at its end."""
    status = 1
    try:
        with os.fdopen(out, "wb") as stream:
            pickle.dump(work(part), stream, pickle.HIGHEST_PROTOCOL)
        status = 0
    finally:
        os._exit(status)
