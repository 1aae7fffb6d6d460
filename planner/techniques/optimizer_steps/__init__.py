"""Whose code runs an optimizer's step, and what that holds beside the states, by name."""

from planner.registry import load_family
from planner.techniques.optimizer_steps.family import OptimizerStep

OPTIMIZER_STEPS = load_family(__name__, OptimizerStep)

__all__ = ["OPTIMIZER_STEPS", "OptimizerStep"]
