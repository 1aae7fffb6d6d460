"""Small random assignment problems, and all of their answers one by one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, combinations_with_replacement, groupby, pairwise, product

import numpy as np

from planner.search.assign.problem import AssignProblem


def random_problem(seed: int) -> AssignProblem:
    """Return a problem of few layers; whole numbers, so that sums are exact in any order."""
    draw = np.random.default_rng(seed)
    kinds, strategies = int(draw.integers(1, 3)), int(draw.integers(1, 4))
    stages = int(draw.integers(1, 4))
    counts = draw.integers(1, 4, int(draw.integers(1, 4)))
    while counts.sum() < stages:
        counts = counts + 1
    runs = tuple((int(draw.integers(kinds)) if i else 0, int(count)) for i, count in enumerate(counts))
    merged = tuple(
        (kind, sum(count for _, count in group)) for kind, group in groupby(runs, key=lambda run: run[0])
    )
    shape = (kinds, strategies)

    def whole(low: int, high: int, size: tuple[int, ...]) -> np.ndarray:
        return draw.integers(low, high, size).astype(float)

    seconds = whole(1, 20, shape)
    if strategies > 1 and draw.random() < 0.2:
        seconds[int(draw.integers(kinds)), 0] = np.inf
    mean = 14.0 * sum(counts) / stages
    return AssignProblem(
        runs=merged,
        seconds=seconds,
        held=whole(0, 6, shape),
        rebuilt=whole(0, 8, shape),
        static=whole(0, 6, shape),
        extra_seconds=whole(0, 6, (stages,)),
        extra_bytes=whole(0, 6, (stages,)),
        floor_bytes=whole(0, 6, (stages,)),
        in_flight=np.arange(stages, 0, -1.0),
        capacity=np.round(draw.uniform(0.4, 1.6) * mean + whole(0, 10, (stages,))),
        sum_weight=1.0,
        slowest_weight=float(draw.integers(0, 30)),
    )


def brute_force(problem: AssignProblem) -> float:
    """Return the least seconds of all cuts and all choices layer by layer; infinite where none fits."""
    kinds = [kind for kind, count in problem.runs for _ in range(count)]
    best = np.inf
    for cut in combinations(range(1, len(kinds)), problem.stages - 1):
        ends = (0, *cut, len(kinds))
        blocks = [tuple(kinds[a:b]) for a, b in pairwise(ends)]
        times = [_least(problem, stage, block) for stage, block in enumerate(blocks)]
        best = min(best, problem.sum_weight * sum(times) + problem.slowest_weight * max(times))
    return float(best)


def _least(problem: AssignProblem, stage: int, block: tuple[int, ...]) -> float:
    """Return the least seconds of one stage; infinite where no choice fits."""
    found = [np.inf]
    for strategies in _choices(block, problem.strategies):
        layers = list(zip(block, strategies, strict=True))
        if _fits(problem, stage, layers):
            found.append(problem.extra_seconds[stage] + sum(problem.seconds[layer] for layer in layers))
    return float(min(found))


def _fits(problem: AssignProblem, stage: int, layers: list[tuple[int, int]]) -> bool:
    nbytes = problem.extra_bytes[stage] + max(
        problem.floor_bytes[stage], max(problem.rebuilt[layer] for layer in layers)
    )
    for layer in layers:
        nbytes += problem.static[layer] + problem.in_flight[stage] * problem.held[layer]
    return bool(nbytes <= problem.capacity[stage])


def _choices(block: tuple[int, ...], strategies: int) -> Iterator[tuple[int, ...]]:
    """Yield every choice of a strategy for each layer, those of equal neighbours in rising order."""
    runs = [len(list(group)) for _, group in groupby(block)]
    for parts in product(*(combinations_with_replacement(range(strategies), size) for size in runs)):
        yield tuple(strategy for part in parts for strategy in part)
