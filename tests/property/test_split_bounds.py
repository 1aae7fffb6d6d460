"""Bounds by which a search leaves plans alone are just below what splits take: none is 5% too high."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np

from planner.cost.estimate import Estimate, estimate
from planner.plan import Plan
from planner.runtimes.family import Job
from planner.search.assign.improve import Improver, counted_bound
from planner.search.assign.plan_costs import plan_costs, stage_columns
from planner.search.assign.sweep import best_partition
from planner.search.candidates import Candidate
from planner.search.choices import choices_of
from planner.search.operators import OPERATORS
from planner.search.scan import Scan
from planner.search.space import make_space
from planner.simulate.plan import play_plan
from tests.cases import every
from tests.unit.cost_jobs import MODELS, job, plan_of, runtime

NAMES = ("dense", "tied", "experts", "latent", "sliding")
SEQUENCES = 96
"""Of a step: so many passes that the bubble, which the bounds leave out or halve, is a few percent. [-]"""

NEAR = 1.04
"""The best plan over its bound at most here, so that a bound 5% higher would be above a plan. [-]"""

ROUNDING = 1 + 1e-12
RUNNER = runtime(dp_exposed=0.0)


def every_split(plan: Plan, work: Job) -> list[Estimate]:
    """Return a plan with every split of its layers over its stages."""
    layers, stages = work.model.num_layers, int(plan.pp)
    cuts = combinations(range(1, layers), stages - 1)
    splits = (tuple(int(size) for size in np.diff((0, *some, layers))) for some in cuts)
    return [estimate(replace(plan, stage_layers=split), work, RUNNER) for split in splits]


def bench_of(work: Job, limit: float) -> Improver:
    space = make_space(work, {"pp": work.gpus})
    return Improver(Scan(work, RUNNER, space, choices_of(RUNNER, {}), limit, limit, keep=50))


@every("stages", [2, 3])
@every("name", NAMES)
def test_the_bound_of_any_split_is_just_below_the_best_that_fits(name: str, stages: int) -> None:
    """By price and, of two stages, played; with room for few splits and for all."""
    work = job(MODELS[name], stages, global_batch=SEQUENCES)
    plan = plan_of(work, pp=stages, micro_batch=1, zero=1, recompute="none")
    priced = every_split(plan, work)
    least = min(one.peak for one in priced)
    for limit in (least, 1.02 * least, 1.1 * least, 1e30):
        fitting = [one for one in priced if one.peak <= limit]
        bound = bench_of(work, limit).split_bound(plan)
        best = min(one.step for one in fitting)
        assert bound <= best * ROUNDING
        assert best <= bound * NEAR
        if stages == 2:
            assert bound <= min(play_plan(one.plan, work, RUNNER).step for one in fitting) * ROUNDING


@every("stages", [2, 3])
@every("name", NAMES)
def test_the_bound_of_the_splits_that_are_tried_is_just_below_their_best(name: str, stages: int) -> None:
    work = job(MODELS[name], stages, global_batch=SEQUENCES)
    plan = plan_of(work, pp=stages, micro_batch=1, zero=1, recompute="none")
    bench, split = bench_of(work, 1e30), next(one for one in OPERATORS if one.name == "split")
    candidate = Candidate(0.0, 0.0, 0.0, plan)
    (best,) = split.refine(bench, candidate)
    bound = split.bound(bench, candidate)
    assert bound <= best.step * ROUNDING
    assert bound <= play_plan(best.plan, work, RUNNER).step * ROUNDING
    assert best.step <= bound * NEAR


@every("name", ["dense", "tied", "experts"])
def test_the_bound_of_a_share_on_the_host_is_just_below_what_it_takes(name: str) -> None:
    share = next(one for one in OPERATORS if one.name == "share")
    for stages, part in ((1, 0.1), (1, 0.9), (2, 0.1), (2, 0.5)):
        work = job(MODELS[name], stages, global_batch=SEQUENCES)
        plan = plan_of(work, pp=stages, micro_batch=1, zero=1, recompute="none", offload="optimizer")
        bare = estimate(replace(plan, offload="none"), work, RUNNER).peak
        hosted = estimate(plan, work, RUNNER).peak
        bench, candidate = bench_of(work, hosted + part * (bare - hosted)), Candidate(0.0, 0.0, 0.0, plan)
        best = min(found.step for found in share.refine(bench, candidate))
        bound = share.bound(bench, candidate)
        assert bound <= best * ROUNDING
        assert best <= bound * NEAR


@every("name", NAMES)
def test_no_number_of_recomputed_layers_is_below_its_bound(name: str) -> None:
    near = []
    for stages in (2, 3):
        work = job(MODELS[name], stages, global_batch=SEQUENCES)
        plan = plan_of(work, pp=stages, micro_batch=1, zero=1, recompute="none")
        costs = plan_costs(plan, work, RUNNER, ["full", "none"], 1e30)
        problem = costs.problem
        for number in range(1, work.model.num_layers // stages + 1):
            columns = stage_columns(costs, 0, plain=1, first=number)
            best = best_partition(columns, problem.sum_weight, problem.slowest_weight)
            assert best is not None
            near.append(counted_bound(problem, number) / best.value)
    assert max(near) <= ROUNDING
    assert name != "tied" or max(near) > 1 / NEAR, "no case would show a bound that is too high"
