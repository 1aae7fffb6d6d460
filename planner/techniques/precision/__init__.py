"""Number formats of a training step, by name."""

from __future__ import annotations

import sys

from planner.registry import load_family
from planner.techniques.precision.family import Precision

PRECISIONS = load_family(sys.modules[__name__], Precision)

__all__ = ["PRECISIONS", "Precision"]
