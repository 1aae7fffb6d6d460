"""Filling stages one after another says what trying every split says."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np

from planner.search.assign.plan_costs import PlanCosts
from planner.search.assign.problem import AssignProblem, layer_kinds
from planner.search.assign.room import StageRoom
from tests.unit.assign_cases import random_problem


def costs_of(problem: AssignProblem) -> PlanCosts:
    """Return a problem as that of a plan, whose largest layer is the same on every stage."""
    return PlanCosts(problem, ("a",) * problem.seconds.shape[1], problem.rebuilt.max(axis=0))


def least_excess(costs: PlanCosts) -> float:
    """Bytes that the peak stage misses in the best of all splits. [byte]"""
    problem, kinds = costs.problem, layer_kinds(costs.problem)
    found = []
    for cut in combinations(range(1, len(kinds)), problem.stages - 1):
        excess = []
        for stage, (start, end) in enumerate(pairwise((0, *cut, len(kinds)))):
            held = problem.held[kinds[start:end], 0] * problem.in_flight[stage]
            needed = problem.extra_bytes[stage] + float((held + problem.static[kinds[start:end], 0]).sum())
            needed += max(float(costs.rebuilt[0]), float(problem.floor_bytes[stage]))
            excess.append(needed - float(problem.capacity[stage]))
        found.append(max(excess))
    return float(min(found))


def test_a_filling_says_whether_a_split_fits() -> None:
    told = []
    for seed in range(300):
        costs = costs_of(random_problem(seed))
        fits = StageRoom.of(costs).fits
        assert fits in (None, least_excess(costs) <= 0)
        told.append(fits)
    assert min(told.count(True), told.count(False)) > 40
    assert told.count(None) < 20


def test_equal_layers_are_told_exactly() -> None:
    """Whole bytes: a byte less than the least capacity is too little, and that much is enough."""
    for seed in range(300):
        problem = random_problem(seed)
        if len(np.unique(layer_kinds(problem))) > 1:
            continue
        costs = costs_of(problem)
        assert StageRoom.of(costs).fits == (least_excess(costs) <= 0)
