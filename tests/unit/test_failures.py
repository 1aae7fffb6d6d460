"""Checkpoint intervals and lost time: what Daly prints, the least of a fine grid, and failures played out."""

from __future__ import annotations

import math

import numpy as np
import pytest

from planner.formulas.checkpoints import best_interval_seconds, stall_seconds
from planner.formulas.failures import checkpoint_interval_seconds, failure_slowdown, job_mtbf_seconds
from planner.report.goodput import SEEN_MTBF
from tests.cases import every

MINUTE = 60.0
HOUR = 60 * MINUTE


@every(("mtbf", "minutes"), [(24 * HOUR, 117), (6 * HOUR, 57), (15 * MINUTE, 9.1)])
def test_the_intervals_that_daly_prints(mtbf: float, minutes: float) -> None:
    """doi:10.1016/j.future.2004.11.016, figs. 3 to 5: saving takes 5 minutes."""
    found = float(checkpoint_interval_seconds(5 * MINUTE, mtbf)) / MINUTE
    assert found == pytest.approx(minutes, abs=0.5 if minutes > 10 else 0.05)


def test_where_saving_takes_longer_than_two_failures_are_apart_the_interval_is_their_distance() -> None:
    assert checkpoint_interval_seconds(200.0, 100.0) == 100.0


@every("mtbf", [1 * HOUR, 10 * HOUR, 500 * HOUR])
def test_no_other_interval_is_better(mtbf: float) -> None:
    save, restart = 2 * MINUTE, 10 * MINUTE
    tried = np.geomspace(MINUTE, 100 * HOUR, 4000)
    least = float(np.min(failure_slowdown(tried, save, restart, mtbf)))
    best = checkpoint_interval_seconds(save, mtbf)
    assert float(failure_slowdown(best, save, restart, mtbf)) == pytest.approx(least, rel=2e-4)


def played(interval: float, save: float, restart: float, mtbf: float, pieces: int) -> float:
    """Return the time of a job of so many pieces whose failures come at random, also during restarts."""
    draw = np.random.default_rng(7)
    clock, left = 0.0, draw.exponential(mtbf)
    for _ in range(pieces):
        need = interval + save
        while left < need:
            clock += left
            left, need = draw.exponential(mtbf), restart + interval + save
        clock, left = clock + need, left - need
    return clock


def test_the_expected_time_is_that_of_failures_played_out() -> None:
    interval, save, restart, mtbf = 1800.0, 120.0, 300.0, 2 * HOUR
    found = played(interval, save, restart, mtbf, 20_000) / (20_000 * interval)
    # Daly's model pays a restart before the first failure too: e^(R/M) where R/M is small.
    assert float(failure_slowdown(interval, save, restart, mtbf)) == pytest.approx(found, rel=0.01)


def test_without_failures_only_saving_costs() -> None:
    assert float(failure_slowdown(1000.0, 50.0, 600.0, 1e12)) == pytest.approx(1.05, rel=1e-6)


def test_an_h100_of_llama_3_failed_every_fifty_thousand_hours() -> None:
    """arXiv:2407.21783, sec. 3.3.4: on 16,384 of them one interruption every three hours."""
    assert pytest.approx(50_677, rel=1e-4) == SEEN_MTBF / HOUR
    assert pytest.approx(3.1, abs=0.05) == SEEN_MTBF / 16_384 / HOUR


def test_a_job_fails_as_often_as_the_first_of_its_devices() -> None:
    drawn = np.random.default_rng(8).exponential(1000.0, (20_000, 32)).min(axis=1)
    assert float(job_mtbf_seconds(1000.0, 32.0)) == pytest.approx(drawn.mean(), rel=0.02)


@every(("save", "mtbf"), [(60.0, 2 * HOUR), (300.0, 5 * HOUR)])
def test_no_interval_that_was_played_is_better_than_the_best(save: float, mtbf: float) -> None:
    """Young's and the exact one too: each interval is played with the same failures."""
    best = float(best_interval_seconds(save, mtbf))
    young = math.sqrt(2 * save * mtbf)
    times = {
        interval: played(interval, save, 300.0, mtbf, round(3e7 / interval))
        / (round(3e7 / interval) * interval)
        for interval in (best, best / 3, best * 3, young)
    }
    assert times[best] < min(times[best / 3], times[best * 3])
    assert times[young] == pytest.approx(times[best], rel=0.01)


def test_a_copy_stalls_training_by_what_its_passes_do_not_hide() -> None:
    """Pieces of a copy sent while the state does not change, and then while training waits."""
    for nbytes, bandwidth, unchanged in ((40e9, 20e9, 0.5), (40e9, 20e9, 3.0), (7e9, 25e9, 0.1)):
        piece, clock, sent = bandwidth * 1e-3, 0.0, 0.0
        while sent < nbytes:
            sent, clock = sent + piece, clock + 1e-3
        assert float(stall_seconds(nbytes, bandwidth, unchanged)) == pytest.approx(
            max(0.0, clock - unchanged), abs=2e-3
        )
