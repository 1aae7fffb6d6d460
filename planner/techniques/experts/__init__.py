"""Experts: whose code multiplies a layer's experts with the tokens that chose them, by name."""

from planner.registry import load_family
from planner.techniques.experts.family import ExpertCode

EXPERT_CODES = load_family(__name__, ExpertCode)

__all__ = ["EXPERT_CODES", "ExpertCode"]
