"""The pipeline schedules, by name."""

from __future__ import annotations

import sys

from planner.registry import load_family
from planner.techniques.schedules._family import Schedule

SCHEDULES = load_family(sys.modules[__name__], Schedule)

__all__ = ["SCHEDULES", "Schedule"]
