"""What is measured on one device, one file each, in one table."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from planner.profile.benches.family import Bench
from planner.registry import load_family


@cache
def benches() -> Mapping[str, Bench]:
    """Return the table of benches by name."""
    return load_family(__name__, Bench)
