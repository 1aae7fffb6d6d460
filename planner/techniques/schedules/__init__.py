"""The pipeline schedules, by name."""

from __future__ import annotations

from typing import Final

from planner.numeric import Num
from planner.registry import load_family
from planner.techniques.schedules.family import Schedule

SHARED = ("copies", "engine", "text")
"""Modules that members share, and no members themselves."""

SCHEDULES = load_family(__name__, Schedule)

PLAIN: Final = ("1f1b", "interleaved-1f1b")
"""What a plan has where nobody names a schedule: with one chunk on a rank, and with more."""


def plain_schedule(vpp: Num) -> str:
    """Return the name of the schedule that so many chunks on a rank have where nobody names one."""
    return PLAIN[bool(vpp > 1)]


__all__ = ["PLAIN", "SCHEDULES", "Schedule", "plain_schedule"]
