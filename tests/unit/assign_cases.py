"""Small random assignment problems, and all of their answers one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, combinations_with_replacement, groupby, pairwise, product

import numpy as np

from planner.search.assign.problem import Ending, Host, Problem


def random_problem(seed: int, reshard: bool = False) -> Problem:
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
    return Problem(
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
        reshard=whole(0, 9, (strategies, strategies)) if reshard else None,
    )


def with_host(problem: Problem, seed: int) -> Problem:
    """Return the problem with states and activations that some strategies keep on a host, which is small."""
    draw = np.random.default_rng((seed, 1))
    shape, stages = problem.seconds.shape, problem.stages

    def some(high: int) -> np.ndarray:
        return (draw.integers(0, high, shape) * (draw.random(shape) < 0.6)).astype(float)

    layers = sum(count for _, count in problem.runs)
    room = draw.uniform(0.2, 1.5) * 8.0 * layers / stages
    host = Host(
        held=some(5),
        static=some(8),
        extra=draw.integers(0, 4, stages).astype(float),
        capacity=np.round(room + draw.integers(0, 6, stages)),
    )
    return replace(problem, host=host)


def with_ending(problem: Problem, seed: int) -> Problem:
    """Return the problem with something to be done after the passes."""
    draw = np.random.default_rng((seed, 2))
    seconds = draw.integers(0, 40, problem.seconds.shape).astype(float)
    return replace(problem, ending=Ending(seconds, draw.integers(0, 20, problem.stages).astype(float)))


def brute_force(problem: Problem) -> float:
    """Return the least seconds of all cuts and all choices layer by layer; infinite where none fits."""
    kinds = [kind for kind, count in problem.runs for _ in range(count)]
    best = np.inf
    for cut in combinations(range(1, len(kinds)), problem.stages - 1):
        ends = (0, *cut, len(kinds))
        blocks = [tuple(kinds[a:b]) for a, b in pairwise(ends)]
        answers = [_answers(problem, stage, block) for stage, block in enumerate(blocks)]
        for chosen in product(*answers):
            times, endings = zip(*chosen, strict=True)
            value = problem.sum_weight * sum(times) + problem.slowest_weight * max(times) + max(endings)
            best = min(best, value)
    return float(best)


def _answers(problem: Problem, stage: int, block: tuple[int, ...]) -> list[tuple[float, float]]:
    """Return the passes and endings of one stage that fit, those left out that another one beats in both."""
    found: dict[float, float] = {}
    for strategies in _choices(block, problem.strategies):
        layers = list(zip(block, strategies, strict=True))
        if not _fits(problem, stage, layers):
            continue
        seconds = problem.extra_seconds[stage] + sum(problem.seconds[layer] for layer in layers)
        if problem.reshard is not None:
            for one, other in pairwise(strategies):
                seconds += problem.reshard[one, other] if one != other else 0.0
        ending = 0.0
        if problem.ending is not None:
            weights = problem.ending.seconds
            ending = problem.ending.extra[stage] + sum(weights[layer] for layer in layers)
        if np.isfinite(seconds):
            found[float(seconds)] = min(float(ending), found.get(float(seconds), np.inf))
    best: list[tuple[float, float]] = []
    for seconds, ending in sorted(found.items()):
        if not best or ending < best[-1][1]:
            best.append((seconds, ending))
    return best


def _fits(problem: Problem, stage: int, layers: list[tuple[int, int]]) -> bool:
    nbytes = problem.extra_bytes[stage] + max(
        problem.floor_bytes[stage], max(problem.rebuilt[layer] for layer in layers)
    )
    for layer in layers:
        nbytes += problem.static[layer] + problem.in_flight[stage] * problem.held[layer]
    hosted = 0.0
    if problem.host is not None:
        hosted = problem.host.extra[stage] - problem.host.capacity[stage]
        for layer in layers:
            hosted += problem.host.static[layer] + problem.in_flight[stage] * problem.host.held[layer]
    return bool(nbytes <= problem.capacity[stage] and hosted <= 0)


def _choices(block: tuple[int, ...], strategies: int) -> Iterator[tuple[int, ...]]:
    """Yield every choice of a strategy for each layer, those of equal neighbours in rising order."""
    runs = [len(list(group)) for _, group in groupby(block)]
    for parts in product(*(combinations_with_replacement(range(strategies), size) for size in runs)):
        yield tuple(strategy for part in parts for strategy in part)
