"""Bounds are bounds: no split of the layers and no refined plan is below one, played or priced."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from planner.cost.estimate import estimate
from planner.inputs.load import load_model
from planner.search.assign.improve import Improver
from planner.search.choices import choices_of
from planner.search.guard import Guard
from planner.search.operators.split import best_of
from planner.search.optimise import search
from planner.search.refine import refine
from planner.search.request import SearchRequest, objective_column
from planner.search.scan import Scan
from planner.search.space import make_space
from planner.simulate.plan import play_plan
from planner.techniques.schedules import SCHEDULES
from planner.techniques.schedules.engine import Pipeline, play
from tests.cases import every
from tests.deep import deep, in_turn
from tests.unit.cost_jobs import BUILT, MODELS, any_runtime, job, plan_of, random_plans, runtime

ROUNDING = 1 + 1e-12


@pytest.mark.parametrize("name", MODELS)
def test_no_split_of_the_layers_beats_the_bound(name: str) -> None:
    work, draw = job(MODELS[name]), np.random.default_rng(3)
    layers = work.model.num_layers
    for plan in random_plans(work, any_runtime(), deep(20, 40), seed=4):
        known = estimate(plan, work, any_runtime())
        assert known.bound <= known.step * ROUNDING
        if plan.pp * plan.vpp > layers:
            continue  # an end of the model alone on a stage: no layers to draw a split of
        cuts = np.sort(draw.choice(np.arange(1, layers), int(plan.pp * plan.vpp) - 1, replace=False))
        split = tuple(int(size) for size in np.diff([0, *cuts, layers]))
        other = estimate(replace(plan, stage_layers=split), work, any_runtime())
        assert known.bound <= other.step * ROUNDING, (plan, split)


def test_the_bound_is_reached_where_all_stages_are_alike() -> None:
    """One stage leaves nothing to assign; the bound leaves out traffic that may hide, here none."""
    work = job(MODELS["dense"], 8)
    for plan in random_plans(work, runtime(dp_exposed=1.0), 30, seed=5, pp=1, vpp=1):
        known = estimate(plan, work, runtime(dp_exposed=1.0))
        assert known.bound == pytest.approx(known.step, rel=1e-12)


@pytest.mark.parametrize("name", ["dense", "latent", "sliding"])
def test_refined_candidates_keep_their_bounds_and_the_proof_holds(name: str) -> None:
    work, fixed = job(MODELS[name], 8, global_batch=12), {"cp": 1, "zero": 1, "etp": 1, "offload": "none"}
    space = make_space(work, {"cp": 1, "etp": 1})
    scan = Scan(work, runtime(), space, choices_of(runtime(), fixed), 1e30, 1e30, keep=10_000)
    report = scan.run(objective_column("time"))
    assert report.valid == len(report.of("split")) < 10_000
    reached = [best_of(candidate, Improver(scan)).step for candidate in report.of("split")]
    bounds = [candidate.bound for candidate in report.of("split")]
    assert all(bound <= step * ROUNDING for bound, step in zip(bounds, reached, strict=True))
    refined = refine(scan, report, "time", 5)
    assert refined.proved
    assert refined.refined < report.valid
    # Unlike layers of an interleaved pipeline are played a few percent faster than their closed form.
    played = Guard().seconds(refined.plans[0])
    assert refined.bound == played <= min(reached)
    if name != "sliding":
        assert played == refined.plans[0].step == min(reached)


PLAYED = (
    "gpipe", "1f1b", "interleaved-1f1b", "breadth-first", "zb-h1", "zb-h2", "zb-1p", "zb-2p", "2bp",
    "interleaved-zb", "bitpipe", "dualpipe", "dualpipe-v", "v-min", "v-half", "v-zb", "zb-v", "zeropp",
)  # fmt: skip
"""Schedules whose floors were compared with played steps."""


@pytest.mark.parametrize(("name", "code"), in_turn(PLAYED, ("megatron", "beside-passes")))
def test_no_step_is_played_faster_than_its_floor(name: str, code: str) -> None:
    """Plans with the default split and with a random one, whose layers are all recomputed alike."""
    runner = any_runtime(pipeline_code=code)
    runner = replace(runner, schedules=(name,), recomputes=("none", "selective", "full"))
    few = 0
    for batch, model in ((8, "tied"), (32, "latent"), (16, "sliding")):
        work, draw = job(MODELS[model], 16, global_batch=batch), np.random.default_rng(batch)
        for plan in random_plans(work, runner, 4, seed=batch):
            chunks = int(plan.pp * plan.vpp)
            if chunks > work.model.num_layers:
                continue  # an end of the model alone on a stage: no layers to draw a split of
            cuts = np.sort(draw.choice(np.arange(1, work.model.num_layers), chunks - 1, replace=False))
            split = tuple(int(size) for size in np.diff([0, *cuts, work.model.num_layers]))
            played = [play_plan(replace(plan, stage_layers=one), work, runner) for one in (None, split)]
            few += plan.num_microbatches <= plan.pp
            assert played[0].floor <= min(one.step for one in played) * ROUNDING, (plan, split)
            for one in played:
                assert one.floor <= one.estimate.floor <= one.step * ROUNDING, one.estimate.plan
    assert few > 0 or SCHEDULES[name].supports(4, 1, 4) != ()


@pytest.mark.parametrize(("pp", "passes"), [(2, (1, 2, 3, 6)), (3, (1, 2, 3, 4, 9)), (4, (2, 4))])
def test_no_split_of_1f1b_is_played_faster_than_its_floor(pp: int, passes: tuple[int, ...]) -> None:
    """Every split, with micro-batches fewer than ranks, as many, and more."""
    for batch in passes:
        work = job(MODELS["dense"], pp, global_batch=batch)
        for cuts in combinations(range(1, work.model.num_layers), pp - 1):
            split = tuple(int(size) for size in np.diff((0, *cuts, work.model.num_layers)))
            played = play_plan(plan_of(work, pp=pp, stage_layers=split), work, runtime())
            assert played.floor <= played.estimate.bound <= played.step * ROUNDING, (batch, split)


@every(("ranks", "passes"), [(2, 2), (4, 2), (8, 2), (8, 8)])
def test_slow_early_stages_hide_less_than_half_of_the_bubble(ranks: int, passes: int) -> None:
    """Backward twice the forward, and a rank's wait for the end of the pipeline hidden as far as it goes."""
    behind = np.minimum(np.arange(ranks)[::-1], passes - 1)
    times = 1.0 / (passes - 1 - behind / 3)
    forward, backward, free = tuple(times / 3), tuple(times * 2 / 3), (0.0,) * ranks
    order = SCHEDULES["1f1b"].order(ranks, 1, passes)
    makespan = play(order, Pipeline(tuple(range(ranks)), forward, backward, free, free)).makespan
    mean = float(np.mean(times))
    assert (passes + (ranks - 1) / 2) * mean <= makespan * ROUNDING
    assert makespan < (passes + ranks - 1) * mean, "equal stages are not the fastest"


FIXED = {"micro_batch": 1, "cp": 1, "etp": 1}
SEARCHED = (
    *((name, 16, {**FIXED, "pp": pp}) for name, pp in in_turn(BUILT, (2, 4))),
    ("llama3-70b", 128, {**FIXED, "pp": 8, "tp": 8, "schedule": "1f1b"}),
    *deep((), (("llama3.1-405b", 4096, {**FIXED, "pp": 8, "tp": 8}),)),
)
"""Models, accelerators and what is fixed."""


def test_a_search_s_bound_is_one_for_the_played_winner_too() -> None:
    """Within the closed forms the winner is at the bound; played, some steps are faster than their price."""
    faster = 0
    for name, gpus, fixed in SEARCHED:
        asked = job(
            MODELS[name] if name in MODELS else load_model(name), gpus, global_batch=max(gpus // 4, 16)
        )
        found = search(
            SearchRequest(
                asked.model, (asked.hardware,), (gpus,), asked.workload, (runtime(),), fixed=dict(fixed)
            )
        )
        winner, told = found.plans[0], found.optimality
        bound = float(str(told["bound_s"]))
        least = float(str(told["played_bound_s"]))
        played = play_plan(winner.plan, winner.job, winner.runtime).step
        ranked_by = found.played[0] or winner.step
        assert ranked_by == pytest.approx(played, rel=0.02), (name, winner.plan)
        assert 0 < least <= min(bound, played * ROUNDING), (name, winner.plan)
        assert told["proved"] == (told["gap"] == 0.0)
        assert bound == pytest.approx(ranked_by * (1 - float(str(told["gap"]))))
        assert least > 0.7 * played, "a bound that says something"
        faster += bound > played * ROUNDING
    assert faster >= 1, "no job shows why the closed form's bound is not enough"
