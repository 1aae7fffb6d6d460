"""The guard: what is shown is played, and what is far from its price is ranked by its played step."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

import planner.search.guard as guarded
from planner.cost.estimate import Estimate, estimate
from planner.cost.step.replay import MOST_ROUNDS, played_step, shortened
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.runtimes import runtimes
from planner.search.guard import Guard
from planner.search.optimise import search
from planner.search.request import SearchRequest, objective_key
from planner.simulate.plan import play_plan
from tests.cases import every
from tests.unit.runner_jobs import DENSE, job

BY_TIME = partial(objective_key, "time")
UNLIKE = (14, 6, 6, 6)


def priced(plan: Plan, batch: int = 16, runtime: str = "torchtitan") -> Estimate:
    work = job(DENSE, gpus=8, seq_len=2048, global_batch=batch)
    return estimate(plan, work, runtimes()[runtime])


def plan_of(microbatches: int, schedule: str, **fields: object) -> Plan:
    known = {"pp": 4, "dp": 2, "zero": 2, "zero_shards": 2} | fields
    return Plan(num_microbatches=microbatches, schedule=schedule, **known)  # type: ignore[arg-type]


@every(("schedule", "vpp"), [("1f1b", 1), ("gpipe", 1), ("interleaved-1f1b", 2), ("dualpipe", 1)])
@every("microbatches", [8, 40, 64])
def test_a_shortened_play_says_what_the_whole_one_does(schedule: str, vpp: int, microbatches: int) -> None:
    """Beyond four rounds a further micro-batch takes the slowest stage's time in both."""
    split = UNLIKE if vpp == 1 else None
    answer = priced(plan_of(microbatches, schedule, vpp=vpp, stage_layers=split), 2 * microbatches)
    whole = play_plan(answer.plan, answer.job, answer.runtime).step
    assert played_step(answer) == pytest.approx(whole, rel=0.01)


def test_few_rounds_keep_the_rest_over_the_stages() -> None:
    from planner.cost.case import case_of

    answer = priced(plan_of(64, "1f1b", stage_layers=UNLIKE), 128)
    case = case_of(answer.plan, answer.job, answer.runtime)
    few = shortened(replace(answer.plan, num_microbatches=63.0), case)
    assert few is not None
    assert few.num_microbatches == 4 * MOST_ROUNDS + 3
    assert shortened(replace(answer.plan, num_microbatches=1e9, pp=4.0, vpp=5000.0), case) is None


def test_a_far_plan_is_ranked_by_its_played_step() -> None:
    """Few micro-batches, the first stage the longest: played, it hides a part of the bubble."""
    far = priced(plan_of(8, "1f1b", stage_layers=UNLIKE))
    near = priced(plan_of(8, "1f1b", stage_layers=(8, 8, 8, 8)))
    guard = Guard()
    seconds = play_plan(far.plan, far.job, far.runtime).step
    assert guard.far(near) is None
    assert guard.far(far) == pytest.approx(seconds, rel=1e-12)
    assert abs(seconds / far.step - 1) > 0.02
    order = guard.ranked([far, near], 2, BY_TIME)
    assert order == sorted([far, near], key=lambda one: play_plan(one.plan, one.job, one.runtime).step)


def test_without_passes_left_the_price_counts_and_plans_of_one_stage_cost_none() -> None:
    far = priced(plan_of(8, "dualpipe", stage_layers=UNLIKE))
    assert Guard(passes=0.0).seconds(far) == far.step
    flat = priced(Plan(dp=8, num_microbatches=2, zero=2, zero_shards=8))
    guard = Guard(passes=0.0)
    assert guard.played(flat) == flat.step
    assert guard.passes == 0.0


def request(top: int = 5) -> SearchRequest:
    work = Workload(seq_len=4096, global_batch=32)
    fixed = {"pp": 4, "cp": 1, "schedule": "1f1b"}
    return SearchRequest(
        load_model("llama2-7b"), (load_hardware("dgx-h100"),), (8,), work, (runtimes()["torchtitan"],),
        fixed=fixed, top=top,
    )  # fmt: skip


def test_a_wrong_price_of_the_leaders_lets_others_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every plan with tp 1 is said to take ten times its price, as messages over a slow network did."""
    plain = search(request())
    assert plain.plans[0].plan.tp == 1
    assert set(plain.played) == {None}

    def slow(answer: Estimate) -> float:
        return answer.step * (10.0 if answer.plan.tp == 1 else 1.0)

    monkeypatch.setattr(guarded, "played_step", slow)
    found = search(request())
    assert found.plans[0].plan.tp > 1
    took = [played or plan.step for played, plan in zip(found.played, found.plans, strict=False)]
    assert took == sorted(took)
    assert found.optimality["proved"]
    assert found.optimality["bound_s"] == found.plans[0].step
    least = min(search(replace(request(), fixed={**request().fixed, "tp": tp})).plans[0].step for tp in (2,))
    assert found.plans[0].step == pytest.approx(least)


def test_a_winner_that_is_far_is_told_with_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarded, "played_step", lambda answer: 1.1 * answer.step)
    found = search(request())
    seconds = 1.1 * found.plans[0].step
    assert found.played[0] == pytest.approx(seconds)
    assert found.optimality["bound_s"] == pytest.approx(seconds * (1 - float(str(found.optimality["gap"]))))
    assert [plan.step for plan in found.plans] == sorted(plan.step for plan in found.plans)
