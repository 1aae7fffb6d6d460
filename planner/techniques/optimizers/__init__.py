"""Optimizers by what they keep and move, by name."""

import sys

from planner.registry import load_family
from planner.techniques.optimizers.family import MatrixStep, Optimizer

OPTIMIZERS = load_family(sys.modules[__name__], Optimizer)

__all__ = ["OPTIMIZERS", "MatrixStep", "Optimizer"]
