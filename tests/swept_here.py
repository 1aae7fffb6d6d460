"""A sweep that searches in the process of its test; those about processes start some."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest import mock


class Here:
    """Stands in for a pool of processes: what is submitted is done at once."""

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Return the answer, or the error, as a future that is done."""
        done: Future[Any] = Future()
        try:
            done.set_result(function(*arguments))
        except Exception as error:
            done.set_exception(error)
        return done


@contextmanager
def _pool(_jobs: int) -> Iterator[Here]:
    yield Here()


def swept_here() -> AbstractContextManager[Any]:
    """Let sweeps start no processes meanwhile."""
    return mock.patch("planner.sweep.executors.local._pool", _pool)
