"""Ways to deal the tokens of one sequence to context-parallel ranks, by name."""

from planner.registry import load_family
from planner.techniques.layouts.family import TokenLayout

TOKEN_LAYOUTS = load_family(__name__, TokenLayout)

__all__ = ["TOKEN_LAYOUTS", "TokenLayout"]
