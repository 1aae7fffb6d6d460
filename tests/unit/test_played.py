"""A search tells which of its plans take another time than their price when they are played."""

from __future__ import annotations

from dataclasses import astuple, replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from planner.cost.estimate import Estimate, estimate
from planner.cost.step.replay import FAR
from planner.plan import Plan
from planner.report.played import PlayedStep, far_step, played_page
from planner.runtimes import runtimes
from planner.simulate.plan import play_plan
from planner.techniques.schedules.engine import Pipeline
from planner.techniques.schedules.family import Orders
from tests.cases import every
from tests.cli.command import planner
from tests.unit.runner_jobs import DENSE, job

PLAN = Plan(pp=4, dp=2, num_microbatches=4, zero=2, zero_shards=2, schedule="zb-1p")


def priced(plan: Plan, runtime: str = "torchtitan") -> Estimate:
    work = job(DENSE, gpus=8, seq_len=2048, global_batch=int(plan.num_microbatches * plan.dp))
    return estimate(plan, work, runtimes()[runtime])


def test_steps_far_from_their_price_are_those_that_the_simulation_has() -> None:
    near = priced(replace(PLAN, schedule="1f1b", num_microbatches=64))
    uneven = priced(replace(PLAN, schedule="1f1b", num_microbatches=8, stage_layers=(14, 6, 6, 6)))
    assert far_step(near) is None
    told = far_step(uneven)
    assert told is not None
    assert told.seconds == pytest.approx(play_plan(uneven.plan, uneven.job, uneven.runtime).step, rel=1e-12)
    assert abs(told.off) > FAR


@every(
    ("schedule", "vpp", "microbatches"),
    [("1f1b", 1, 20), ("gpipe", 1, 4), ("interleaved-1f1b", 2, 4), ("breadth-first", 4, 6)],
)
def test_plans_that_are_not_played_are_near_their_price(schedule: str, vpp: int, microbatches: int) -> None:
    for split in ((9, 8, 8, 7), (8, 9, 9, 6), (9, 9, 8, 6)):
        sizes = split if vpp == 1 else (32 // (4 * vpp),) * 4 * vpp
        shape = replace(PLAN, schedule=schedule, vpp=vpp, num_microbatches=microbatches, stage_layers=sizes)
        answer = priced(shape)
        assert far_step(answer) is None
        played = play_plan(answer.plan, answer.job, answer.runtime).step
        assert played == pytest.approx(answer.step, rel=0.01)


def longest_path(orders: Orders, pipeline: Pipeline) -> float:
    """Return the makespan by recursion over what each pass waits for."""
    spans = {"F": pipeline.forward, "B": pipeline.input_gradient, "W": pipeline.weight_gradient}
    before = {
        (*item[1:], item[0]): (*earlier[1:], earlier[0])
        for order in orders
        for earlier, item in pairwise(order)
    }
    last = len(pipeline.ranks) - 1

    @cache
    def end(chunk: int, microbatch: int, kind: str) -> float:
        mine = before.get((chunk, microbatch, kind))
        ready = end(*mine) if mine else 0.0
        if kind == "F" and chunk:
            ready = max(ready, end(chunk - 1, microbatch, "F"))
        if kind == "B":
            ready = max(
                ready, end(*((chunk + 1, microbatch, "B") if chunk < last else (chunk, microbatch, "F")))
            )
        return ready + spans[kind][chunk]

    return max(end(item.chunk, item.microbatch, item.kind) for order in orders for item in order)


@every(("schedule", "vpp"), [("zb-v", 2), ("v-half", 2), ("zb-1p", 1), ("zb-h2", 1)])
@every("microbatches", [2, 4, 9])
def test_orders_that_fill_idle_time_are_priced_as_played(schedule: str, vpp: int, microbatches: int) -> None:
    split = (3, 5, 2, 6, 4, 5, 4, 3) if vpp == 2 else (6, 11, 7, 8)
    plan = replace(PLAN, schedule=schedule, vpp=vpp, num_microbatches=microbatches, stage_layers=split)
    answer = priced(plan)
    played = play_plan(answer.plan, answer.job, answer.runtime)
    whole = longest_path(played.timeline.orders, played.pipeline) + max(played.tails)
    assert answer.step == pytest.approx(whole, rel=1e-12)
    assert sum(astuple(answer.time)) == pytest.approx(whole, rel=1e-12)
    assert answer.bound <= answer.step
    assert far_step(answer) is None


def test_the_page_says_how_far() -> None:
    answer = priced(PLAN)
    page = played_page([PlayedStep("plan 3", 3, answer, 0.9 * answer.step)])
    assert "plan 3 takes" in str(page[0])
    assert "10.0% less than its price" in str(page[0])
    assert played_page([]) == []


def test_a_search_tells_it() -> None:
    job = ("llama2-7b", "--hardware", "dgx-h100", "--gpus", "8", "--seq-len", "4096", "--global-batch", "16")
    fixed = ("--runtime", "torchtitan", "--pp", "4", "--schedule", "1f1b", "--stage-layers", "14,6,6,6")
    done = planner("search", *job, *fixed, "--format", "json")
    first = done.json["played"][0]
    assert abs(first["played_step_s"] / first["step_time_s"] - 1) > FAR
    assert done.json["plans"][first["rank"] - 1]["step_time_s"] == first["step_time_s"]
    assert "Played event by event, plan" in planner("search", *job, *fixed).out


def test_a_search_an_estimate_and_a_simulation_say_the_same_seconds(tmp_path: Path) -> None:
    job = ("llama2-7b", "--hardware", "dgx-h100", "--gpus", "8", "--seq-len", "4096", "--global-batch", "16")
    fixed = ("--runtime", "torchtitan", "--pp", "4", "--schedule", "zb-v")
    file = tmp_path / "best.yaml"
    found = planner("search", *job, *fixed, "--save", str(file), "--format", "json").json
    assert "played" not in found
    assert found["optimality"]["proved"]
    step = planner("simulate", str(file), "--format", "json").json["makespan"]
    assert found["plans"][0]["step_time_s"] == pytest.approx(step, rel=1e-12)
    assert found["optimality"]["bound_s"] <= step


def test_an_estimate_tells_it_too() -> None:
    job = ("llama2-7b", "--hardware", "dgx-h100", "--gpus", "8", "--seq-len", "4096", "--global-batch", "16")
    fixed = ("--runtime", "torchtitan", "--pp", "4", "--dp", "2", "--schedule", "1f1b")
    assert "Played event by event" in planner("estimate", *job, *fixed, "--stage-layers", "14,6,6,6").out
    assert "Played event by event" not in planner("estimate", *job, *fixed).out
