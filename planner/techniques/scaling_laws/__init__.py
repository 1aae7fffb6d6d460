"""Scaling laws by name."""

from planner.registry import load_family
from planner.techniques.scaling_laws.family import ScalingLaw

SCALING_LAWS = load_family(__name__, ScalingLaw)

__all__ = ["SCALING_LAWS", "ScalingLaw"]
