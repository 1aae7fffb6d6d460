"""ZeRO stages, by name."""

import sys

from planner.registry import load_family
from planner.techniques.sharding.family import Sharding

SHARDINGS = load_family(sys.modules[__name__], Sharding)

__all__ = ["SHARDINGS", "Sharding"]
