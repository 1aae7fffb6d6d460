"""A deep model is assigned in little time, against a plain loop, so that machines do not matter."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from planner.search.assign.decompose import decompose
from planner.search.assign.problem import Host, Problem
from tests.speed.test_simulate_speed import plain_loop_seconds
from tests.unit.test_assign import large


def with_tight_hosts(problem: Problem) -> Problem:
    """Return the problem with some strategies faster, and a part of their bytes on small hosts."""
    draw = np.random.default_rng(100)
    away = draw.random(problem.seconds.shape) < 0.4
    host = Host(
        held=np.where(away, draw.uniform(0.1, 0.6, away.shape), 0.0),
        static=np.where(away, draw.uniform(0.1, 1.0, away.shape), 0.0),
        extra=np.zeros(problem.stages),
        capacity=np.full(problem.stages, 12.0),
    )
    return replace(problem, seconds=problem.seconds - 0.2 * away, host=host)


def quickest(problem: Problem) -> float:
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


def test_they_are_quick_with_tight_hosts_too() -> None:
    loop = min(plain_loop_seconds() for _ in range(3))
    assert quickest(with_tight_hosts(large(0))) < 120 * loop
