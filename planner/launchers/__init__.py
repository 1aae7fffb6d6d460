"""Schedulers and starters, one file each, in one table, and the files of a plan's folder."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from planner.launchers.card import Card
from planner.launchers.emit import Target, launch_files, target
from planner.launchers.family import Launcher
from planner.registry import load_family

__all__ = ["Card", "Launcher", "Target", "launch_files", "launchers", "target"]


SHARED = ("card", "emit")
"""Modules that members share, and no members themselves."""


@cache
def launchers() -> Mapping[str, Launcher]:
    """Return the table of launchers by name."""
    return load_family(__name__, Launcher)
