"""Small random pipelines, all of their orders one by one, and a second opinion on what an order costs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from itertools import product
from math import prod
from typing import Final

from planner.errors import UnsupportedPlan
from planner.search.synthesis.problem import OrderProblem
from planner.simulate.record import ActivationBytes, memory_over_time, step_record
from planner.techniques.schedules.engine import Pipeline, Timeline, play
from planner.techniques.schedules.family import Kind, Pass

KINDS: Final[tuple[Kind, ...]] = ("F", "B", "W")

Done = tuple[tuple[int, ...], ...]
"""Of each chunk of a rank, how many passes of each kind are done."""

SHAPES = [(2, 1, 3), (2, 1, 4), (3, 1, 2), (3, 1, 3), (4, 1, 2), (2, 2, 1), (2, 2, 2), (1, 2, 2)]
"""Ranks, chunks of each, and micro-batches of which all orders can be tried."""


def random_problem(seed: int, shapes: list[tuple[int, int, int]] = SHAPES) -> OrderProblem:
    """Return a problem with unlike chunks, messages and limits; whole numbers and halves."""
    draw = random.Random(seed)
    pp, vpp, microbatches = draw.choice(shapes)
    count = pp * vpp
    turned = draw.random() < 0.5
    ranks = tuple(pp - 1 - chunk % pp if turned and chunk // pp % 2 else chunk % pp for chunk in range(count))

    def times(most: int) -> tuple[float, ...]:
        return tuple(float(draw.randint(1, most)) for _ in ranks)

    saved = tuple(draw.choice((1.0, 2.0)) if draw.random() < 0.3 else 1.0 for _ in ranks)
    needs = [sum(size for size, home in zip(saved, ranks, strict=True) if home == rank) for rank in range(pp)]
    return OrderProblem(
        ranks=ranks,
        forward=times(6),
        input_gradient=times(6),
        weight_gradient=times(6),
        hops=tuple(draw.choice((0.0, 0.5, 2.0)) for _ in ranks),
        saved=saved,
        kept=tuple(size * draw.choice((0.0, 0.5, 1.0)) for size in saved),
        limits=tuple(need + draw.choice((0.0, 0.5, 1.0, 3.0)) for need in needs),
        microbatches=microbatches,
        objective=draw.choice(("makespan", "span")),
    )


def pipeline_of(problem: OrderProblem) -> Pipeline:
    """Return the pipeline of a problem as the simulation takes it."""
    return Pipeline(
        problem.ranks, problem.forward, problem.input_gradient, problem.weight_gradient, problem.hops
    )


def value_of(problem: OrderProblem, timeline: Timeline) -> float:
    """Return what the simulation says of the objective."""
    record = step_record(timeline)
    return record.makespan if problem.objective == "makespan" else record.longest_span


def overfull(problem: OrderProblem, timeline: Timeline) -> bool:
    """Say whether a rank holds more than it may, by the simulation's own account of memory."""
    sizes = ActivationBytes(problem.saved, problem.kept)
    return any(
        held > limit + 1e-9
        for rank, limit in enumerate(problem.limits)
        for _, held in memory_over_time(timeline, rank, sizes)
    )


def rank_orders(problem: OrderProblem, rank: int, any_turn: bool = False) -> list[tuple[Pass, ...]]:
    """Return the orders of a rank's passes within its limit; micro-batches in any turn, or in their own."""
    passes = [
        Pass(kind, chunk, microbatch)
        for chunk, home in enumerate(problem.ranks)
        for microbatch in range(problem.microbatches)
        for kind in KINDS
        if home == rank
    ]
    return list(_completed(problem, rank, any_turn, (), passes))


def _completed(
    problem: OrderProblem, rank: int, any_turn: bool, done: tuple[Pass, ...], left: list[Pass]
) -> Iterator[tuple[Pass, ...]]:
    if not left:
        yield done
    for item in left:
        kind, chunk, microbatch = item
        earlier = KINDS[: KINDS.index(kind)]
        waits = any(Pass(before, chunk, microbatch) in left for before in earlier)
        turns = any((kind, chunk) == other[:2] and other.microbatch < microbatch for other in left)
        if waits or (turns and not any_turn) or held_after(problem, (*done, item)) > problem.limits[rank]:
            continue
        rest = [other for other in left if other != item]
        yield from _completed(problem, rank, any_turn, (*done, item), rest)


def held_after(problem: OrderProblem, passes: tuple[Pass, ...]) -> float:
    """Return what a rank holds after some passes."""
    held = 0.0
    for kind, chunk, _ in passes:
        saved, kept = problem.saved[chunk], problem.kept[chunk]
        held += {"F": saved, "B": kept - saved, "W": -kept}[kind]
    return held


def least_value(problem: OrderProblem, any_turn: bool = False) -> float:
    """Return the best value of all orders within the limits, by playing each."""
    pipeline, best = pipeline_of(problem), float("inf")
    choices = [rank_orders(problem, rank, any_turn) for rank in range(problem.pp)]
    for orders in product(*choices):
        try:
            best = min(best, value_of(problem, play(orders, pipeline)))
        except UnsupportedPlan:
            continue
    return best


def count_orders(problem: OrderProblem) -> int:
    """Return how many orders there are, with micro-batches in their turn, without making any."""
    return prod(_count_rank(problem, rank) for rank in range(problem.pp))


def _count_rank(problem: OrderProblem, rank: int) -> int:
    """Return how many orders a rank has: what it may do next hangs on how far each chunk is."""
    chunks = [chunk for chunk, home in enumerate(problem.ranks) if home == rank]
    whole = (problem.microbatches,) * len(KINDS)

    def held(done: Done) -> float:
        return sum(
            problem.saved[chunk] * (forward - inputs) + problem.kept[chunk] * (inputs - weights)
            for chunk, (forward, inputs, weights) in zip(chunks, done, strict=True)
        )

    @cache
    def ways(done: Done) -> int:
        if all(counts == whole for counts in done):
            return 1
        after = (
            (*done[:place], (*counts[:kind], counts[kind] + 1, *counts[kind + 1 :]), *done[place + 1 :])
            for place, counts in enumerate(done)
            for kind in range(len(KINDS))
            if counts[kind] < (counts[kind - 1] if kind else problem.microbatches)
        )
        return sum(ways(one) for one in after if held(one) <= problem.limits[rank])

    return ways(((0,) * len(KINDS),) * len(chunks))
