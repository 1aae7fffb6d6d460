"""Training frameworks, one file or folder each, in one table."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from planner.registry import load_family
from planner.runtimes._family import Runtime


@cache
def runtimes() -> Mapping[str, Runtime]:
    """Return the table of runtimes by name."""
    import planner.runtimes as package

    return load_family(package, Runtime)
