"""The chance of running out of memory, and its inverse."""

from __future__ import annotations

from math import exp, log

import numpy as np
import pytest

from planner.cost.memory.fit import memory_band, oom_probability, safe_share
from tests.cases import every


@every("spread", [0.01, 0.025, 0.1])
@every("ratio", [0.8, 0.97, 1.0, 1.05, 1.3])
def test_it_is_the_logistic_curve_but_for_one_run_in_twenty(spread: float, ratio: float) -> None:
    usual, stray = (1 / (1 + exp(-log(ratio) / scale)) for scale in (spread, 0.13))
    mixed = 0.95 * usual + 0.05 * stray
    assert oom_probability(ratio * 80e9, 80e9, spread) == pytest.approx(mixed, rel=1e-9, abs=1e-15)


def test_far_below_the_capacity_only_stray_runs_run_out() -> None:
    """At 72% of the device a spread of 2.5% leaves a chance of one in a million, a stray run's is 7.4%."""
    assert oom_probability(0.72, 1.0, 0.025) == pytest.approx(0.05 / (1 + 0.72 ** (-1 / 0.13)), rel=1e-3)


@every("probability", [0.001, 0.05, 0.5, 0.9])
def test_the_safe_share_is_its_inverse(probability: float) -> None:
    share = safe_share(probability, 0.025)
    assert oom_probability(share * 80e9, 80e9, 0.025) == pytest.approx(probability)


@every("spread", [0.025, 0.13, 0.3])
def test_the_safe_share_falls_with_the_accepted_chance(spread: float) -> None:
    shares = [safe_share(chance, spread) for chance in (0.001, 0.01, 0.05, 0.3, 0.5, 0.7)]
    assert shares == sorted(shares)
    assert shares[4] == 1


def test_far_off_it_is_certain_without_a_warning() -> None:
    chances = oom_probability(np.array([1.0, 1e30]), 80e9, 0.025)
    assert chances.tolist() == [0, 1]


def test_more_use_is_never_safer() -> None:
    chances = oom_probability(np.linspace(60e9, 100e9, 200), 80e9, 0.025)
    assert (np.diff(chances) >= 0).all()


@every("spread", [0.02, 0.025, 0.05])
def test_nine_of_ten_drawn_runs_are_inside_the_memory_band(spread: float) -> None:
    draw = np.random.default_rng(7)
    scale = np.where(draw.random(400_000) < 0.05, 0.13, spread)
    ratio = np.exp(draw.logistic(0.0, scale))
    assert np.mean(ratio <= 1 + memory_band(spread)) == pytest.approx(0.95, abs=0.002)
    assert 0.9 <= np.mean(np.abs(ratio - 1) <= memory_band(spread)) <= 0.925
