"""BLOOM's trials and the layouts sweep (arXiv:2311.05610): what scatter leaves to rank."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator
from functools import cache

import numpy as np
from numpy.typing import NDArray

from planner.calibrate.scores import spearman
from tests.measured.matched import COLUMNS, Priced, effect, priced

TRIALS = "bigscience-bloom-prequel"
SWEEP = "aleph-alpha-layouts"
DRAWS = 300

Column = NDArray[np.float64]


def grouped(names: tuple[str, ...]) -> list[list[Priced]]:
    groups: dict[Hashable, list[Priced]] = defaultdict(list)
    for run, price in priced():
        if run.run.source == TRIALS and run.measured.seconds:
            groups[tuple(getattr(run.run, name) for name in names)].append((run, price))
    return list(groups.values())


@cache
def spread_of_repeats() -> float:
    """Standard deviation of the logarithm of the time of runs that are equal in every column. [-]"""
    repeats = [np.log([run.measured.seconds or 1.0 for run, _ in same]) for same in grouped(COLUMNS)]
    squares = sum(float(np.sum((logs - logs.mean()) ** 2)) for logs in repeats)
    return float(np.sqrt(squares / sum(len(logs) - 1 for logs in repeats)))


def ranked() -> Iterator[tuple[list[float], list[float]]]:
    names = ("model", "seq_len", "num_gpus", "global_batch", "precision", "framework", "gpu")
    for rows in grouped(names):
        if len(rows) >= 3:
            yield [run.measured.seconds or 1.0 for run, _ in rows], [price.step_s for _, price in rows]


def ranks_of_a_perfect_model() -> Column:
    """Mean rank correlation over groups, draw by draw, where predictions are the truth and runs repeat so."""
    rng = np.random.default_rng(7)
    groups = [predicted for _, predicted in ranked()]
    draws = []
    for _ in range(DRAWS):
        found = [
            spearman(list(np.array(truth) * np.exp(rng.normal(0, spread_of_repeats(), len(truth)))), truth)
            for truth in groups
        ]
        draws.append(np.mean([rank for rank in found if rank is not None]))
    return np.array(draws)


def test_repeats_differ_by_a_few_percent() -> None:
    assert spread_of_repeats() == np.clip(spread_of_repeats(), 0.03, 0.04)


def test_the_cost_model_ranks_as_well_as_repeats_allow() -> None:
    reached = np.mean([spearman(measured, predicted) for measured, predicted in ranked()])
    perfect = ranks_of_a_perfect_model()
    assert np.mean(perfect) < 0.7, "the goal of 0.8 is beyond what a perfect model would reach"
    assert reached >= np.percentile(perfect, 5)


@cache
def scatter_of_the_sweep() -> float:
    """Standard deviation of the logarithm of the time of one run on 256 accelerators. [-]

    From layouts run with both releases of flash attention, whose times differ by what the cost model says of
    the kernels and by the luck of two runs.
    """
    pairs = effect(SWEEP, "flash_attn", (2, 1)).pairs
    assert len(pairs) == 28
    return float(np.std([np.log(pair.measured / pair.predicted) for pair in pairs], ddof=1) / np.sqrt(2))


def test_runs_of_the_sweep_scatter_by_two_percent() -> None:
    assert scatter_of_the_sweep() == np.clip(scatter_of_the_sweep(), 0.018, 0.024)


def test_a_perfect_model_would_pick_within_a_percent_in_the_sweep() -> None:
    """So a goal of 1% is fair; of 1,000 picks fewer than 5 are as far off as the cost model's, by 7%."""
    ran = [(run.run, price) for run, price in priced() if run.run.source == SWEEP and run.measured.seconds]
    truth = np.array([price.step_s for run, price in ran if run.num_gpus == 256])
    assert len(truth) == 78
    rng = np.random.default_rng(7)
    drawn = truth * np.exp(rng.normal(0, scatter_of_the_sweep(), (20 * DRAWS, len(truth))))
    regrets = drawn[:, np.argmin(truth)] / drawn.min(axis=1) - 1
    assert 0.003 < np.mean(regrets) < 0.01
    assert np.mean(regrets >= 0.07) < 0.005
