"""Plans that recompute because nothing else fits, against pricing each of them with and without."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.cost.estimate import estimate
from planner.search.choices import choices_of
from planner.search.request import objective_column
from planner.search.scan import Scan
from planner.search.space import make_space
from planner.units import GIB
from tests.cases import every
from tests.unit.cost_jobs import DENSE, GQA, job, model, runtime

WORK = job(model("plain", {"a": {"mixer": GQA, "ffn": DENSE}}, "12 a"), 8, global_batch=16)


def scan(limit: float, uneven: bool = True, **fixed: object) -> Scan:
    names = {"zero": 1, "cp_method": "ring", "offload": "none", **fixed}
    choices = choices_of(runtime(), names)
    return Scan(WORK, runtime(), make_space(WORK, {"cp": 1}), choices, limit, limit, uneven=uneven)


@every("gib", [6, 8, 10])
def test_each_fits_with_recompute_alone_and_lies_between_the_two(gib: int) -> None:
    limit = gib * GIB
    found = scan(limit).run(objective_column("time")).of("recompute")
    assert found
    assert [one.value for one in found] == sorted(one.value for one in found)
    for one in found:
        whole = estimate(one.plan, WORK, runtime())
        plain = estimate(replace(one.plan, recompute="none"), WORK, runtime())
        assert whole.peak <= limit < plain.peak
        assert one.bound == plain.bound
        share = (plain.peak - limit) / (plain.peak - whole.peak)
        expected = plain.step + share * max(0.0, whole.bound - plain.step)
        assert one.value == pytest.approx(expected, rel=1e-12)


def test_nothing_is_kept_where_recompute_is_given_or_all_stages_are_alike() -> None:
    limit = 10 * GIB
    assert scan(limit, recompute="full").run(objective_column("time")).of("recompute") == []
    assert scan(limit, uneven=False).run(objective_column("time")).of("recompute") == []
