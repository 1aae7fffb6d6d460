"""Checkpoints at two levels and rates of failures: what papers print, fine grids, failures played out."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from planner.api import Job, Workload, estimate_plan, load_hardware, load_model
from planner.cost.estimate import Estimate
from planner.cost.reliability import Reliable
from planner.errors import InputError
from planner.formulas.checkpoints import (
    best_interval_seconds,
    restart_share,
    two_level_slowdown,
)
from planner.formulas.failures import failure_slowdown
from planner.inputs.failures import failure_names, load_failures
from planner.techniques.recovery import RECOVERIES
from tests.cases import every
from tests.lab.played_failures import played_levels

HOUR = 3600.0
LLAMA3 = 3.09 * HOUR


@every(("save", "first", "best", "lost"), [(60.0, 1155, 1116, 0.148), (10.0, 472, 465, 0.092)])
def test_what_llama_3_would_lose(save: float, first: float, best: float, lost: float) -> None:
    """arXiv:2407.21783, table 5: 419 stops in 54 days; ten minutes each to detect and restart."""
    assert math.sqrt(2 * save * LLAMA3) == pytest.approx(first, abs=1)  # Young 1974
    interval = float(best_interval_seconds(save, LLAMA3))
    assert interval == pytest.approx(best, abs=1)
    assert 1 - 1 / failure_slowdown(interval, save, 600.0, LLAMA3) == pytest.approx(lost, abs=5e-4)


def test_more_than_nine_tenths_need_short_stalls_and_short_restarts() -> None:
    """Llama 3 trained for more than 90% of the time: neither alone is enough."""

    def share(save: float, restart: float) -> float:
        interval = best_interval_seconds(save, LLAMA3)
        return 1 / float(failure_slowdown(interval, save, restart, LLAMA3))

    assert share(60.0, 600.0) < share(60.0, 120.0) < 0.9
    assert share(5.0, 1200.0) < 0.9 < share(5.0, 300.0)


@every(("save", "mtbf"), [(1.0, HOUR), (300.0, HOUR), (7200.0, HOUR), (30.0, 500 * HOUR)])
def test_the_best_interval_is_the_least_of_a_fine_grid(save: float, mtbf: float) -> None:
    tried = np.geomspace(1.0, 20 * mtbf, 400_000)
    least = tried[np.argmin(failure_slowdown(tried, save, 60.0, mtbf))]
    assert best_interval_seconds(save, mtbf) == pytest.approx(least, rel=2e-3)


def test_two_levels_are_those_of_failures_played_out() -> None:
    near, far, mtbf, cured = (120.0, 2.0, 90.0), (2400.0, 30.0, 600.0), 2.5 * HOUR, 0.85
    slow, waited = played_levels(near, far, mtbf, cured)
    assert float(two_level_slowdown(near, far, mtbf, cured)) == pytest.approx(slow, rel=0.01)
    # Near failures during a restart lengthen it by a few percent; so does chance.
    assert float(restart_share(far[2], mtbf / (1 - cured))) == pytest.approx(waited, rel=0.1)


def test_without_near_copies_two_levels_are_one() -> None:
    far = (1200.0, 30.0, 600.0)
    alone = float(failure_slowdown(*far, 2 * HOUR))
    assert float(two_level_slowdown((1.0, 0.0, 0.0), far, 2 * HOUR, 0.0)) == pytest.approx(alone, rel=1e-3)


@every(
    ("name", "gpus", "hours", "digits"),
    [
        ("llama3", 16_384, 3.09, 0.01),
        ("meta-a100", 1024, 7.9, 0.01),
        ("meta-a100-projected", 16_384, 1.8, 0.01),
        ("meta-a100-projected", 131_072, 0.225, 0.01),
    ],
)
def test_profiles_have_the_times_that_were_printed(name: str, gpus: int, hours: float, digits: float) -> None:
    """arXiv:2407.21783, sec. 3.3.4; arXiv:2410.21680, whose measured and projected rates differ."""
    assert float(load_failures(name).device_mtbf) / HOUR / gpus == pytest.approx(hours, rel=digits)
    assert set(failure_names()) == {"llama3", "meta-a100", "meta-a100-projected"}


def test_a_log_of_failures_gives_its_own_rate(tmp_path: Path) -> None:
    log = tmp_path / "trace.csv"
    log.write_text("hours,gpus,nodes\n10,64,1\n30,64,2\n75,64,1\n100,64,0\n")
    found = load_failures(str(log))
    assert float(found.device_mtbf) == pytest.approx(100 * HOUR * 64 / 3)
    assert float(found.beyond_node) == pytest.approx(1 / 3)


@every(
    ("text", "words"),
    [
        ("hours\n1\n", "no column gpus"),
        ("hours,gpus\nx,8\n", "hours"),
        ("hours,gpus,nodes\n9,8,0\n", "no failure"),
    ],
)
def test_a_wrong_log_is_told(text: str, words: str, tmp_path: Path) -> None:
    log = tmp_path / "trace.csv"
    log.write_text(text)
    with pytest.raises(InputError, match=words):
        load_failures(str(log))


def test_acme_prints_no_rate_and_none_is_guessed() -> None:
    with pytest.raises(InputError, match=r"arXiv:2403\.07648"):
        load_failures("acme")


@pytest.fixture(scope="module")
def answer() -> Estimate:
    work = Workload(seq_len=4096, global_batch=512, tokens=1e12)
    job = Job(load_model("llama3-8b"), load_hardware("dgx-h100"), 64, work)
    return estimate_plan(job, "torchtitan", zero=3, zero_shards=16)


def reliable(answer: Estimate, recovery: str, failures: str = "llama3") -> Reliable:
    return Reliable(answer, load_failures(failures), RECOVERIES[recovery], 10e9)


def test_shares_of_the_time_add_up(answer: Estimate) -> None:
    for name in ("restart", "in-memory", "elastic", "torchft", "migration"):
        one = reliable(answer, name, "meta-a100")
        assert one.refused is None
        parts = vars(one.lost)
        assert one.goodput + sum(parts.values()) == pytest.approx(1.0, abs=1e-3)
        assert min(parts.values()) >= 0


def test_a_checkpoint_has_sixteen_bits_master_and_moments(answer: Estimate) -> None:
    """Mixed precision with Adam: 14 bytes a parameter where weights rest in 16 bit, 12 in fp32."""
    params = load_model("llama3-8b").params
    assert reliable(answer, "restart").state_bytes == pytest.approx(12 * params)
    megatron = estimate_plan(answer.job, "megatron-lm", tp=8, sequence_parallel=True)
    assert reliable(megatron, "restart").state_bytes == pytest.approx(14 * params)


def test_torchft_is_slower_without_failures_and_gains_only_where_they_are_many(answer: Estimate) -> None:
    rare, often = load_failures("llama3"), load_failures("llama3")
    often = often.model_copy(update={"device_mtbf": 10 * HOUR, "planned_every": None})
    ft, restart = RECOVERIES["torchft"], RECOVERIES["restart"]
    assert Reliable(answer, rare, ft, 10e9).mode_step > answer.step
    assert Reliable(answer, rare, ft, 10e9).step > Reliable(answer, rare, restart, 10e9).step
    assert Reliable(answer, often, ft, 10e9).step < Reliable(answer, often, restart, 10e9).step


def test_a_next_checkpoint_waits_for_the_last_and_slow_storage_saves_less_often(answer: Estimate) -> None:
    slow = replace(reliable(answer, "restart"), storage=0.1e9)
    assert slow.far_steps * answer.step >= slow.state_bytes / slow.storage * 0.99
    assert slow.goodput < reliable(answer, "restart").goodput


def test_recoveries_that_cannot_be_had_say_why(answer: Estimate) -> None:
    alone = estimate_plan(answer.job, "megatron-lm", tp=8, pp=8)
    assert "replicas" in str(reliable(alone, "elastic").refused)
    assert "torchtitan" in str(reliable(alone, "torchft").refused)
    whole = estimate_plan(answer.job, "torchtitan", zero=3)
    assert "--zero-shards" in str(reliable(whole, "torchft").refused)
