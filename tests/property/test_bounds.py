"""The scan's bound is a bound: no split of the layers and no refined plan is below it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from planner.cost.estimate import estimate
from planner.search.choices import choices_of
from planner.search.optimise import objective_column
from planner.search.refine import best_of, refine
from planner.search.scan import Scan
from planner.search.space import make_space
from tests.unit.cost_jobs import MODELS, any_runtime, job, random_plans, runtime

ROUNDING = 1 + 1e-12


@pytest.mark.parametrize("name", MODELS)
def test_no_split_of_the_layers_beats_the_bound(name: str) -> None:
    work, draw = job(MODELS[name]), np.random.default_rng(3)
    layers = work.model.num_layers
    for plan in random_plans(work, any_runtime(), 40, seed=4):
        known = estimate(plan, work, any_runtime())
        assert known.bound <= known.step * ROUNDING
        cuts = np.sort(draw.choice(np.arange(1, layers), int(plan.pp * plan.vpp) - 1, replace=False))
        split = tuple(int(size) for size in np.diff([0, *cuts, layers]))
        other = estimate(replace(plan, stage_layers=split), work, any_runtime())
        assert known.bound <= other.step * ROUNDING, (plan, split)


def test_the_bound_is_reached_where_all_stages_are_alike() -> None:
    """One stage leaves nothing to assign: what the bound leaves out is only traffic that may hide."""
    work = job(MODELS["dense"], 8)
    for plan in random_plans(work, runtime(dp_window=1e6), 30, seed=5, pp=1, vpp=1):
        known = estimate(plan, work, runtime(dp_window=1e6))
        assert known.bound == pytest.approx(known.step, rel=1e-12)


@pytest.mark.parametrize("name", ["dense", "latent", "sliding"])
def test_refined_candidates_keep_their_bounds_and_the_proof_holds(name: str) -> None:
    work, fixed = job(MODELS[name], 8, global_batch=12), {"cp": 1, "zero": 1, "etp": 1, "offload": "none"}
    space = make_space(work, {"cp": 1, "etp": 1})
    scan = Scan(work, runtime(), space, choices_of(runtime(), fixed), 1e30, 1e30, keep=10_000)
    report = scan.run(objective_column("time"))
    assert report.valid == len(report.promising) < 10_000
    reached = [best_of(candidate, scan, None).step for candidate in report.promising]
    bounds = [candidate.bound for candidate in report.promising]
    assert all(bound <= step * ROUNDING for bound, step in zip(bounds, reached, strict=True))
    refined = refine(scan, report, "time", 5)
    assert refined.proved
    assert refined.refined < report.valid
    assert refined.bound == refined.plans[0].step == min(reached)
