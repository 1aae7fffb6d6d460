"""Orders that are written the quick way are those of the plain way, pass by pass."""

from __future__ import annotations

import numpy as np
import pytest

from planner.techniques.schedules import SCHEDULES, zeropp
from planner.techniques.schedules import _blocks as blocks
from planner.techniques.schedules.family import UNIT, PassTimes
from tests.unit.plain_orders import plain_fill_idle, plain_shortest_order

DEGREES = [(1, 3), (2, 1), (2, 5), (3, 8), (4, 4), (4, 13), (5, 9), (8, 16), (8, 3)]


def some_times(count: int) -> list[PassTimes]:
    draw = np.random.default_rng(5)
    seconds = [1e-3, 1.0]
    return [
        PassTimes(
            *(seconds[one % 2] * draw.uniform(0.5, 2.0, 3)), seconds[one % 2] * draw.choice([0, 0.1]), kept
        )
        for one, kept in zip(range(count), draw.choice([0.3, 0.8, 1.0], count).tolist(), strict=True)
    ]


@pytest.mark.parametrize("times", [UNIT, *some_times(9)])
def test_no_setting_that_could_be_best_is_left_out(times: PassTimes) -> None:
    for pp, microbatches in DEGREES:
        for name, limit in (("zb-1p", pp), ("zb-2p", 2 * pp)):
            expected = plain_shortest_order(pp, microbatches, times, limit)
            assert SCHEDULES[name].order(pp, 1, microbatches, times) == expected


@pytest.mark.parametrize("name", ["v-min", "v-half", "v-zb", "zeropp"])
def test_idle_slots_are_filled_as_by_a_queue_of_events(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    legal = [(pp, m) for pp, m in DEGREES if not SCHEDULES[name].supports(pp, 2, m)]
    quick = [SCHEDULES[name].order(pp, 2, m) for pp, m in legal]
    for module in (blocks, zeropp):
        monkeypatch.setattr(module, "fill_idle", plain_fill_idle)
    assert quick == [SCHEDULES[name].order(pp, 2, m) for pp, m in legal]
    assert len(legal) > 1
