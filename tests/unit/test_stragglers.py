"""Slowest of many workers: textbook figures, draws with a seed, and what codes compute."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from planner.api import Job, Workload, estimate_plan, load_hardware, load_model
from planner.cost.stragglers import Straggling, expected_order, exponential, normal, of_log
from planner.formulas.stragglers import coding_load, sequential_coding_load
from tests.cases import every


@every(("waited", "means"), [(16, 3.381), (15, 2.381), (14, 1.881)])
def test_sixteen_exponential_workers(waited: int, means: float) -> None:
    """H_16 - H_(16-k), as for arXiv:2004.14696's shifted exponential times."""
    assert sum(1 / n for n in range(16 - waited + 1, 17)) == pytest.approx(means, abs=5e-4)
    assert expected_order(exponential(0.5), 1, 16, waited) == pytest.approx(0.5 + 0.5 * means, rel=0.001)


def test_sixty_four_normal_workers() -> None:
    """The largest of 64 is 2.343 deviations up (David and Nagaraja); sqrt(2 ln 64) would say 2.884."""
    assert expected_order(normal(1.0), 1, 64, 64) - 1 == pytest.approx(2.343, abs=0.005)


@every(("parts", "workers", "waited"), [(1, 16, 16), (1, 16, 13), (4, 8, 8), (8, 8, 7)])
def test_expected_orders_are_those_of_draws(parts: int, workers: int, waited: int) -> None:
    draw = np.random.default_rng(5)
    log = draw.lognormal(0.0, 0.2, 500)
    cases = [
        (normal(0.05), draw.normal(1.0, 0.05, (20_000, workers, parts))),
        (exponential(0.3), 0.7 + draw.exponential(0.3, (20_000, workers, parts))),
        (of_log(log), draw.choice(log / log.mean(), (20_000, workers, parts))),
    ]
    for quantile, times in cases:
        found = np.sort(times.max(axis=2), axis=1)[:, waited - 1].mean()
        assert expected_order(quantile, parts, workers, waited) == pytest.approx(found, rel=0.005)


def test_loads_of_codes_in_their_limits() -> None:
    """arXiv:1612.03301 and arXiv:2211.13802: no straggler, no redundancy; many, (W-1+B)/(n(W-1))."""
    assert coding_load(16, 0) == sequential_coding_load(16, 0, 2, 5) == 1 / 16
    assert sequential_coding_load(16, 1e9, 2, 5) == pytest.approx(6 / (16 * 4))
    assert sequential_coding_load(16, 3, 1, 5) < coding_load(16, 3)


def straggling(spread: float, kind: str = "normal") -> Straggling:
    work = Workload(seq_len=4096, global_batch=128)
    answer = estimate_plan(Job(load_model("llama3-8b"), load_hardware("dgx-h100"), 64, work), tp=2)
    return Straggling(answer, (normal if kind == "normal" else exponential)(spread), kind)


def test_a_few_percent_of_spread_are_no_reason_for_redundancy() -> None:
    told = straggling(0.03)
    assert told.best is None
    assert 1.05 < told.step / told.answer.step < 1.1


def test_redundancy_pays_only_where_the_slowest_are_far_from_the_others() -> None:
    told = straggling(0.9, "exponential")
    assert told.best is not None
    assert told.best.name == "backup workers"
    coded = [one for one in told.remedies if one.exact and one.alone]
    assert min(one.time for one in coded) > min(one.time for one in told.remedies if not one.exact)


@every(("workers", "stragglers"), [(5, 1), (6, 2), (7, 3)])
def test_any_workers_but_the_stragglers_hold_every_part_of_the_batch(workers: int, stragglers: int) -> None:
    """Cyclic parts (arXiv:1612.03301): each worker computes as many as its load says."""
    parts = [{(worker + step) % workers for step in range(stragglers + 1)} for worker in range(workers)]
    for kept in combinations(range(workers), workers - stragglers):
        assert set().union(*(parts[worker] for worker in kept)) == set(range(workers))
    assert coding_load(workers, stragglers) == len(parts[0]) / workers


@every(("burst", "rounds"), [(1, 4), (2, 5), (3, 3)])
def test_with_any_number_of_stragglers_a_sequential_code_does_each_batch_in_the_good_rounds(
    burst: int, rounds: int
) -> None:
    """arXiv:2211.13802: every worker slow for a burst in each window, at phases drawn with a seed."""
    workers, period = 16, rounds - 1 + burst
    load = float(sequential_coding_load(workers, 1e12, burst, rounds))
    phases = np.random.default_rng(4).integers(0, period, workers)
    good = [(time + phase) % period >= burst for time in range(40 * period) for phase in phases]
    assert load * sum(good) / (40 * period) == pytest.approx(1.0, rel=1e-6)


def test_a_sequential_code_costs_less_than_a_plain_one_and_is_for_several_trainings() -> None:
    told = straggling(0.9, "exponential")
    by_name = {(one.name, one.left): one for one in told.remedies}
    for left in (1, 2, 4):
        assert by_name["sequential coding", left].time < by_name["gradient coding", left].time
    assert told.best is not None
    assert told.best.alone
