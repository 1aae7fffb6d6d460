"""Ways to go on after a failure, by name."""

from planner.registry import load_family
from planner.techniques.recovery.family import Recovery

RECOVERIES = load_family(__name__, Recovery)

__all__ = ["RECOVERIES", "Recovery"]
