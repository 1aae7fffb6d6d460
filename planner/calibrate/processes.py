"""Prices of many runs, shared among copies of the process: as many as there are cores."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, NoReturn, TypeVar

LEAST: Final = 400
"""Runs for each process: below it a copy takes longer than it saves. [-]"""

T = TypeVar("T")
R = TypeVar("R")

Work = Callable[[Sequence[T]], list[R]]
"""Works on some items: one result for each, in their order, whatever the others are."""


def shared_among_cores(work: Work[T, R], most: int | None = None) -> Work[T, R]:
    """Return a function that gives the results of ``work``, worked out in several processes.

    Where the system cannot copy a process, or a copy ends early, its items are worked on here: the results
    are the same.

    Parameters
    ----------
    work : callable
        Must not need results of earlier calls, and its results must be such as can be pickled.
    most : int, optional
        Processes; the cores that this one may use if not given.
    """

    def shared(items: Sequence[T]) -> list[R]:
        count = min(most or _cores(), len(items) // LEAST)
        if count < 2:
            return work(items)
        parts = [items[place::count] for place in range(count)]
        copies = [_copy(work, part) for part in parts[1:]]
        try:
            found = [work(parts[0])]
            for copy, part in zip(copies, parts[1:], strict=True):
                told: list[R] | None = _told(copy) if copy is not None else None
                found.append(work(part) if told is None else told)
        finally:
            for copy in filter(None, copies):
                _end(*copy)
        results: list[R] = [found[place % count][place // count] for place in range(len(items))]
        return results

    return shared


def _cores() -> int:
    """Cores that this process may use; one where it cannot be copied."""
    known = getattr(os, "sched_getaffinity", None)
    return len(known(0)) if known is not None and hasattr(os, "fork") else 1


def _copy(work: Work[T, R], items: Sequence[T]) -> tuple[int, int] | None:
    """Start a copy of this process that works on some items; return it, and the pipe that it answers on.

    None where the system has no room for one.
    """
    answers, told = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads of a linear algebra library, all asleep
        try:
            pid = os.fork()
        except OSError:
            os.close(answers)
            os.close(told)
            return None
    if not pid:
        _answer(work, items, told)
    os.close(told)
    return pid, answers


def _answer(work: Work[T, R], items: Sequence[T], pipe: int) -> NoReturn:
    """Work on some items in a copy, and end it: nothing of the first process is flushed or cleaned up."""
    try:
        for name in (signal.SIGINT, signal.SIGTERM):
            signal.signal(name, signal.SIG_DFL)
        gc.disable()
        with os.fdopen(pipe, "wb") as file:
            pickle.dump(work(items), file, pickle.HIGHEST_PROTOCOL)
    except BaseException:  # the first process finds no answer, does the work itself, and tells what is wrong
        os._exit(1)
    os._exit(0)


def _told(copy: tuple[int, int]) -> list[R] | None:
    """Return what a copy answers; None where it ended without."""
    with os.fdopen(os.dup(copy[1]), "rb") as file:
        try:
            found: list[R] = pickle.load(file)
        except (EOFError, pickle.UnpicklingError):
            return None
    return found


def _end(pid: int, pipe: int) -> None:
    """End a copy, whether it is done or not."""
    os.close(pipe)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
