"""Operators of the search: each makes better plans of its candidates, in the order of their turns."""

from planner.registry import load_family
from planner.search.operators.family import SearchOperator

OPERATORS = sorted(load_family(__name__, SearchOperator).values(), key=lambda one: one.turn)

__all__ = ["OPERATORS", "SearchOperator"]
