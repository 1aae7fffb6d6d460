"""Ways to split attention along the sequence, by name."""

from planner.registry import load_family
from planner.techniques.context.family import ContextMethod

CONTEXT_METHODS = load_family(__name__, ContextMethod)

__all__ = ["CONTEXT_METHODS", "ContextMethod"]
