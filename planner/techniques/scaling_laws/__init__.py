"""Scaling laws by name."""

from __future__ import annotations

import sys

from planner.registry import load_family
from planner.techniques.scaling_laws.family import ScalingLaw

SCALING_LAWS = load_family(sys.modules[__name__], ScalingLaw)

__all__ = ["SCALING_LAWS", "ScalingLaw"]
