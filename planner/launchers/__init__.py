"""Schedulers and starters, one file each, in one table."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from planner.launchers._family import Launcher
from planner.registry import load_family


@cache
def launchers() -> Mapping[str, Launcher]:
    """Return the table of launchers by name."""
    import planner.launchers as package

    return load_family(package, Launcher)
