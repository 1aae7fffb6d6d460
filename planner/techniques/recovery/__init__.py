"""Ways to go on after a failure, by name."""

import sys

from planner.registry import load_family
from planner.techniques.recovery.family import Recovery

RECOVERIES = load_family(sys.modules[__name__], Recovery)

__all__ = ["RECOVERIES", "Recovery"]
