"""Norms: whose code runs them, and what it keeps of their input, by name."""

from planner.registry import load_family
from planner.techniques.norms.family import NormCode

NORMS = load_family(__name__, NormCode)

__all__ = ["NORMS", "NormCode"]
