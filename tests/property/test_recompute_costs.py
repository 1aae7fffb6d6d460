"""What runs again takes time: no plan that recomputes more is as fast as the same plan with less."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.cost.estimate import estimate
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.runtimes import runtimes
from planner.runtimes.family import Job
from planner.search.optimise import search
from planner.search.request import SearchRequest
from planner.techniques.schedules import SCHEDULES
from tests.cases import every
from tests.deep import in_turn
from tests.unit.cost_jobs import MODELS, any_runtime, job, random_plans


@pytest.mark.parametrize(("name", "batch"), in_turn(MODELS, (1, 16)))
def test_recompute_is_never_free(name: str, batch: int) -> None:
    """Random degrees, ZeRO stages and schedules, with so few sequences that traffic can exceed the passes.

    Schedules that copy to the host what is saved are left out: what runs again need not be copied.
    """
    work = job(MODELS[name], 16, global_batch=16 * batch)
    for plan in random_plans(work, any_runtime(), 25, seed=batch):
        if SCHEDULES[plan.schedule].hosts:
            continue
        steps = [
            estimate(replace(plan, recompute=choice, offload="none"), work, any_runtime()).step
            for choice in ("none", "full:1", "full")
        ]
        assert steps[0] < steps[1] <= steps[2], plan
        layers = work.model.num_layers / float(plan.pp)
        assert steps[1] < steps[2] or layers <= 1 + (layers % 1 > 0), plan


@every("runner", ["megatron-lm", "torchtitan", "fsdp", "deepspeed"])
@every("zero", [0, 1, 2, 3])
def test_it_costs_what_runs_again_where_traffic_takes_longer_than_the_passes(runner: str, zero: int) -> None:
    """One sequence over 64 accelerators: by hand, the step grows by the seconds that run again."""
    found = runtimes()[runner]
    if zero not in found.zero_stages:
        return
    work = Job(load_model("llama3-8b"), load_hardware("dgx-h100"), 64, Workload(seq_len=4096, global_batch=1))
    plan = Plan(tp=8.0, cp=8.0, zero=zero, zero_shards=8.0 if zero else 1.0, cp_method=found.cp_methods[0])
    none = estimate(plan, work, found)
    full = estimate(replace(plan, recompute="full"), work, found)
    busy = [sum((one.time.compute, one.time.tp_comm, one.time.cp_comm)) for one in (none, full)]
    assert full.step - none.step >= (busy[1] - busy[0]) * (1 - 1e-9) > 0


def test_the_search_prefers_no_recompute_where_everything_fits() -> None:
    work = Workload(seq_len=4096, global_batch=1)
    asked = SearchRequest(
        load_model("llama3-8b"), (load_hardware("dgx-h100"),), (64,), work, (runtimes()["megatron-lm"],)
    )
    plans = search(replace(asked, top=20)).plans
    assert plans[0].plan.recompute == "none"
    steps: dict[Plan, dict[str, float]] = {}
    for one in plans:
        steps.setdefault(replace(one.plan, recompute="any"), {})[one.plan.recompute] = one.step
    for known in steps.values():
        assert all(known["none"] < step for name, step in known.items() if "none" in known and name != "none")
