"""Ways to rebuild activations, by name."""

import sys

from planner.registry import load_family
from planner.techniques.recompute.family import Recompute

RECOMPUTES = load_family(sys.modules[__name__], Recompute)

__all__ = ["RECOMPUTES", "Recompute"]
