"""Scaling laws by name."""

import sys

from planner.registry import load_family
from planner.techniques.scaling_laws.family import ScalingLaw

SCALING_LAWS = load_family(sys.modules[__name__], ScalingLaw)

__all__ = ["SCALING_LAWS", "ScalingLaw"]
