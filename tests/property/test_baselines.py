"""The baselines are what their names say, and the search is never worse."""

from __future__ import annotations

import pytest

from planner.inputs.workload import Workload
from planner.search.optimise import search
from planner.search.request import SearchRequest, objective_value
from tests.deep import in_turn
from tests.unit.cost_jobs import BUILT, MODELS, cluster, runtime


@pytest.mark.parametrize(("name", "objective"), in_turn(BUILT, ("time", "memory")))
def test_the_search_is_never_worse_than_its_baselines(name: str, objective: str) -> None:
    request = SearchRequest(
        MODELS[name], (cluster("dgx-a100-80gb"),), (16,), Workload(seq_len=2048, global_batch=32),
        (runtime(),), fixed={"cp": 1, "etp": 1}, objective=objective, top=3,
    )  # fmt: skip
    result = search(request)
    assert result.nearest is None
    known = dict(result.baselines)
    assert set(known) == {"data-parallel", "rule-of-thumb"}
    found = (result.plans[0], *result.on_paper)  # a lead that no run tests is told beside
    best = min(objective_value(objective, plan) for plan in found)
    for baseline in known.values():
        assert baseline.violations == ()
        if baseline.feasible and baseline.oom_probability <= request.oom_risk:
            assert best <= objective_value(objective, baseline) * (1 + 1e-12)


def test_what_the_baselines_are() -> None:
    request = SearchRequest(
        MODELS["dense"], (cluster("dgx-h100"),), (16,), Workload(seq_len=2048, global_batch=32), (runtime(),)
    )
    known = dict(search(request).baselines)
    flat, thumb = known["data-parallel"].plan, known["rule-of-thumb"].plan
    assert (flat.tp, flat.pp, flat.cp, flat.dp, flat.zero) == (1, 1, 1, 16, 3)
    assert (thumb.tp, thumb.pp, thumb.cp, thumb.zero) == (8, 1, 1, 1)


def test_answers_add_up_and_are_ranked() -> None:
    request = SearchRequest(
        MODELS["experts"], (cluster("dgx-h100"), cluster("dgx-a100-80gb")), (8, 16),
        Workload(seq_len=2048, global_batch=32), (runtime(),), fixed={"cp": 1}, top=4,
    )  # fmt: skip
    result = search(request)
    steps = [plan.step for plan in result.plans]
    assert steps == sorted(steps)
    assert len(steps) == 4
    assert result.enumerated == result.valid + sum(result.removed.values())
    assert result.fits <= result.priced <= result.valid
    assert all(plan.feasible and plan.oom_probability <= 0.05 for plan in result.plans)
    assert result.plans[0].job.gpus == 16
    assert 0 <= result.optimality["gap"] < 1  # type: ignore[operator]
