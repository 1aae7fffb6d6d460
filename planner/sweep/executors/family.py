"""An executor: where the searches of a sweep run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Protocol

from planner.dataclasses import dataclass
from planner.search.request import SearchRequest
from planner.sweep.row import SweepOutcome
from planner.sweep.run import Work

Solve = Callable[[SearchRequest], SweepOutcome]
"""Searches one request; it and its request travel to another process."""


@dataclass(frozen=True)
class ExecutorSettings:
    """How many searches run at once, and where."""

    jobs: int | None = None
    """Searches at once; None is as many as there are cores."""
    address: str | None = None
    """The cluster's address, where there is one."""


class ExecutorRun(Protocol):
    """Searches all of the work, and yields each outcome with its key as it is ready."""

    def __call__(
        self, work: Work, solve: Solve, settings: ExecutorSettings
    ) -> Iterator[tuple[str, SweepOutcome]]: ...


@dataclass(frozen=True)
class Executor:
    """One place where searches run."""

    name: str
    """As on the command line."""
    title: str
    """Where that is, in words."""
    run: ExecutorRun
    """Searches the work there. A search that takes its process with it gives an outcome that failed."""
    aliases: tuple[str, ...] = ()
    """Other names."""


def cores() -> int:
    """Return the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
