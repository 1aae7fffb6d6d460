"""What a sweep can be asked, one file each, in one table."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from planner.registry import load_family
from planner.sweep.questions.family import SweepQuestion

__all__ = ["SweepQuestion", "questions"]


@cache
def questions() -> Mapping[str, SweepQuestion]:
    """Return the table of questions by name."""
    return load_family(__name__, SweepQuestion)
