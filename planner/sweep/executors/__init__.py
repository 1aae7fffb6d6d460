"""Where searches run, one file each, in one table."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from planner.registry import load_family
from planner.sweep.executors.family import Executor, ExecutorSettings

__all__ = ["Executor", "ExecutorSettings", "executors"]


@cache
def executors() -> Mapping[str, Executor]:
    """Return the table of executors by name."""
    return load_family(__name__, Executor)
