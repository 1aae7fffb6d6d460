"""What of a model is trained, by name."""

from planner.registry import load_family
from planner.techniques.methods.family import Method

METHODS = load_family(__name__, Method)

__all__ = ["METHODS", "Method"]
