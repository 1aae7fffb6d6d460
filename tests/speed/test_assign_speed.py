"""A deep model is assigned in little time, against a plain loop, so that machines do not matter."""

from __future__ import annotations

import time

from planner.search.assign.decompose import decompose
from planner.search.assign.problem import AssignProblem
from tests.property.test_assign import large
from tests.speed.test_simulate_speed import plain_loop_seconds


def quickest(problem: AssignProblem) -> float:
    """Return the seconds of the fastest of three runs, each to the optimum."""
    best = float("inf")
    for _ in range(3):
        begin = time.perf_counter()
        solution = decompose(problem)
        best = min(best, time.perf_counter() - begin)
        assert solution.gap < 1e-12
    return best


def test_126_layers_on_16_stages_with_24_strategies_are_quick() -> None:
    loop = min(plain_loop_seconds() for _ in range(3))
    assert quickest(large(0)) < 40 * loop
