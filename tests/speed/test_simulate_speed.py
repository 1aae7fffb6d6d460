"""A long step is played in little time, against a plain loop, so that machines do not matter."""

from __future__ import annotations

import time

import pytest

from planner.simulate.bare import BarePipeline
from planner.techniques.schedules import SCHEDULES
from planner.techniques.schedules.family import UNIT

EVENTS = 64 * 2 * 512 * 2


def plain_loop_seconds() -> float:
    """Time of as many list appends and additions as there are events."""
    begin = time.perf_counter()
    clock, ends = 0.0, []
    for _ in range(EVENTS):
        clock += 1.0
        ends.append(clock)
    return time.perf_counter() - begin


def test_a_deep_interleaved_step_is_quick() -> None:
    loop = min(plain_loop_seconds() for _ in range(3))
    best = float("inf")
    for _ in range(3):
        begin = time.perf_counter()
        timeline = BarePipeline(SCHEDULES["interleaved-1f1b"], 64, 2, 512, UNIT).played()
        best = min(best, time.perf_counter() - begin)
    assert sum(map(len, timeline.orders)) == EVENTS
    assert timeline.makespan == (512 * 2 + 63) * 3
    # About 40 on an idle machine and 100 on a busy one; a walk that is quadratic takes thousands.
    assert best < 300 * loop


@pytest.mark.parametrize("name", sorted(SCHEDULES))
def test_writing_and_playing_an_order_is_quick(name: str) -> None:
    schedule = SCHEDULES[name]
    vpp = 1 if not schedule.supports(16, 1, 128) else 2
    loop = min(plain_loop_seconds() for _ in range(3)) / EVENTS
    best = float("inf")
    for _ in range(3):
        begin = time.process_time()
        timeline = BarePipeline(schedule, 16, vpp, 128, UNIT).played()
        best = min(best, time.process_time() - begin)
    events = sum(map(len, timeline.orders))
    # From 26 to 83, where 130 are 200,000 events a second; settings that are all played to the end take 300.
    assert best / events < 200 * loop
