"""Phases of one training, as Galvatron (arXiv:2211.13878) plans them: a plan for each, and one for all."""

from __future__ import annotations

import pytest

from planner.cli.phases import read_phases
from planner.errors import InputError
from planner.search.phases import at_batch, plan_phases
from planner.units import DAY, HOUR
from tests.cases import every
from tests.cli.command import once

SAID = {"model": "llama3-8b", "hardware": ["dgx-h100"], "gpus": "16", "runtime": None}


def test_phases_add_up_and_one_plan_is_never_faster() -> None:
    requests, tokens, rate, defaults = read_phases(dict(SAID), ["8Ki:1T", "32Ki:100B"], "10GB/s")
    found = plan_phases(requests, tokens, rate)
    assert found.own is not None
    assert found.single is not None
    assert defaults["global_batch_tokens"] == 4 * 2**20
    for course in (found.own, found.single):
        steps = sum(
            phase.tokens / phase.answer.job.workload.tokens_per_step * phase.answer.step
            for phase in course.phases
        )
        switches = sum(one.seconds for one in course.switches)
        assert course.days == pytest.approx((steps + switches) / DAY)
        hourly = course.phases[0].answer.job.hardware.pool.price_per_hour
        assert hourly is not None
        assert course.usd == pytest.approx(hourly * 16 * course.seconds / HOUR)
        assert all(phase.answer.feasible for phase in course.phases)
    assert [phase.answer.job.workload.global_batch for phase in found.own.phases] == [512, 128]
    assert sum(one.seconds for one in found.single.phases) >= sum(one.seconds for one in found.own.phases)
    same = {at_batch(phase.answer.plan, 512) for phase in found.single.phases}
    assert len(same) == 1
    assert not found.single.switches[0].reshards
    assert found.single.switches[0].seconds == 0.0


def test_phases_of_one_length_are_one_plan_without_a_switch() -> None:
    requests, tokens, rate, _ = read_phases(dict(SAID), ["8Ki:1T", "8Ki:1T"], "10GB/s")
    found = plan_phases(requests, tokens, rate)
    assert found.own is not None
    assert found.gain == pytest.approx(1.0)
    assert not found.own.switches[0].reshards


@every(
    ("texts", "words"),
    [
        (None, "--phase 8Ki:10T"),
        (["8Ki"], "LENGTH:TOKENS"),
        (["many:1T"], "whole number"),
        (["8Ki:lots"], "positive number"),
    ],
)
def test_wrong_phases_are_told(texts: list[str] | None, words: str) -> None:
    with pytest.raises(InputError) as told:
        read_phases(dict(SAID), texts, None)
    assert words in str(told.value)


def test_the_command_tells_both_courses() -> None:
    words = "phases llama3-8b --hardware 8xh100 --phase 8Ki:1T --phase 16Ki:10B --format json"
    document = once(*words.split()).json
    assert document["schema"] == "planner/phases/1"
    assert len(document["phases"]["phases"]) == len(document["single"]["phases"]) == 2
    assert document["single_over_phases"] > 0
