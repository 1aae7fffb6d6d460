"""Ways to rebuild activations, by name."""

from planner.registry import load_family
from planner.techniques.recompute.family import Recompute

RECOMPUTES = load_family(__name__, Recompute)

__all__ = ["RECOMPUTES", "Recompute"]
