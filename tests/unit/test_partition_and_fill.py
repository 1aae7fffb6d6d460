"""A backbone of unlike layers is cut into stages, played, and its bubbles filled: what DiffusionPipe does."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from planner.search.assign.decompose import decompose
from planner.search.assign.problem import AssignProblem
from planner.simulate.fill import fill
from planner.techniques.schedules import SCHEDULES
from planner.techniques.schedules.engine import Pipeline, Timeline, play
from tests.cases import every

STAGES, MICROBATCHES = 4, 8


def cut(layers: list[float]) -> list[int]:
    """Return the layers of each stage that the assignment chooses; memory does not bind."""
    kinds, nothing = len(layers), np.zeros(STAGES)
    solved = decompose(
        AssignProblem(
            runs=tuple((kind, 1) for kind in range(kinds)),
            seconds=np.array(layers)[:, None],
            held=np.zeros((kinds, 1)),
            rebuilt=np.zeros((kinds, 1)),
            static=np.ones((kinds, 1)),
            extra_seconds=nothing,
            extra_bytes=nothing,
            floor_bytes=nothing,
            in_flight=np.arange(STAGES, 0.0, -1.0),
            capacity=np.full(STAGES, 1e3),
            sum_weight=1.0,
            slowest_weight=MICROBATCHES - 1.0,
        )
    )
    assert solved.gap <= 1e-9
    return [sum(segment.count for segment in stage) for stage in solved.assignment]


def played(layers: list[float], sizes: list[int]) -> Timeline:
    """Play 1F1B; a third of a layer's time is forward."""
    ends = list(itertools.accumulate(sizes))
    stages = [sum(layers[end - size : end]) / 3 for size, end in zip(sizes, ends, strict=True)]
    times = tuple(stages)
    pipeline = Pipeline(tuple(range(STAGES)), times, times, times, (0.0,) * STAGES)
    return play(SCHEDULES["1f1b"].order(STAGES, 1, MICROBATCHES), pipeline)


@every("seed", range(5))
def test_the_chosen_cut_plays_best(seed: int) -> None:
    """Of all contiguous cuts none has a shorter sum plus slowest stage, and hardly one a shorter step."""
    draw = random.Random(seed)
    layers = [draw.uniform(1.0, 6.0) for _ in range(10)]
    chosen = played(layers, cut(layers)).makespan
    every = []
    for places in itertools.combinations(range(1, len(layers)), STAGES - 1):
        edges = (0, *places, len(layers))
        every.append(played(layers, [b - a for a, b in itertools.pairwise(edges)]).makespan)
    assert chosen == pytest.approx(min(every), rel=0.01)
    assert chosen < max(every) / 1.5


def test_frozen_layers_fill_what_the_cut_leaves() -> None:
    """Backbone of 18 layers, wide in the middle; two encoders that take 40% of its time."""
    layers = [1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0, 5.0, 5.0, 4.0, 4.0, 3.0, 3.0, 2.0, 2.0, 1.0, 1.0]
    whole = MICROBATCHES * sum(layers)
    encoders = [(0.02 * whole,) * 10, (0.01 * whole, 0.03 * whole, 0.04 * whole, 0.12 * whole)]
    even = fill(played(layers, [5, 4, 4, 5]), encoders, MICROBATCHES)
    best = fill(played(layers, cut(layers)), encoders, MICROBATCHES)
    assert best.step < even.step
    assert best.unfilled_step / best.step > 1.1
    assert best.idle_share < 0.05
