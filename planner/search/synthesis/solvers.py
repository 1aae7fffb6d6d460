"""Which solver is asked."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

from planner.search.synthesis.constraints import cp_sat
from planner.search.synthesis.problem import Found, OrderProblem, Words
from planner.search.synthesis.program import highs

Solver = Callable[[OrderProblem, Words, float, float], Found]
"""Function of a problem, a known order, a known bound and a time limit; raises SolverError where it fails."""


def first_available(problem: OrderProblem, words: Words, bound: float, time_limit: float) -> Found:
    """Ask CP-SAT where OR-Tools is installed, else HiGHS."""
    if importlib.util.find_spec("ortools") is not None:
        return cp_sat(problem, words, bound, time_limit)
    return highs(problem, words, bound, time_limit)
