"""Optimizers by what they keep and move, by name."""

from planner.registry import load_family
from planner.techniques.optimizers.family import MatrixStep, Optimizer

OPTIMIZERS = load_family(__name__, Optimizer)

__all__ = ["OPTIMIZERS", "MatrixStep", "Optimizer"]
