"""The least memory: no search for time finds a plan that is in time and needs less."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

import pytest

from planner.cost.estimate import estimate
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.workload import Workload
from planner.runtimes import runtimes
from planner.search.operators.split import balanced
from planner.search.optimise import search
from planner.search.request import SearchRequest, scan_of
from planner.search.result import SearchResult
from planner.search.ties import TIE
from tests.deep import in_turn

JOBS = {
    "hosted": ("llama3-8b", "dgx-h100", 8, 4096, 32, "megatron-lm"),
    "pipelines": ("llama2-13b", "dgx-a100-80gb", 16, 4096, 64, "megatron-lm"),
    "short of memory": ("llama2-7b", "dgx-a100-40gb", 8, 4096, 16, "megatron-lm"),
    "experts": ("mixtral-8x7b", "dgx-h100", 16, 4096, 32, "megatron-bridge"),
    "never hosted": ("llama2-7b", "dgx-a100-80gb", 8, 4096, 32, "deepspeed"),
    "shards": ("llama3-8b", "dgx-h100", 16, 8192, 16, "torchtitan"),
}


def request(name: str, **fixed: object) -> SearchRequest:
    model, cluster, gpus, seq_len, batch, runtime = JOBS[name]
    work = Workload(seq_len=seq_len, global_batch=batch)
    known = (runtimes()[runtime],)
    fixed = ({} if name == "shards" else {"cp": 1}) | fixed
    return SearchRequest(load_model(model), (load_hardware(cluster),), (gpus,), work, known, fixed=fixed)


def least_peak(found: SearchResult) -> float:
    """Return the least memory of all that is shown: of ties with it the first plan is the most careful."""
    return min(one.peak for one in chain(found.plans, *found.variants))


def within(found: SearchResult) -> float:
    return float(str(found.optimality["within_s"]))


@pytest.mark.parametrize(("name", "slowdown", "uniform"), in_turn(JOBS, (1.25, 1.0, 2.0), (False, True)))
def test_no_plan_of_a_search_for_time_is_in_time_and_needs_less(
    name: str, slowdown: float, uniform: bool
) -> None:
    asked = request(name)
    shown = search(replace(asked, top=200, uniform=uniform)).plans
    least = search(replace(asked, objective="memory", slowdown=slowdown))
    assert within(least) >= least.plans[0].step
    timely = [one for one in shown if one.step <= within(least)]
    smaller = [one for one in timely if one.peak < least_peak(least)]
    assert least.plans[0].peak <= least_peak(least) * (1 + TIE)
    assert not smaller, (smaller[0].plan, least.plans[0].plan)


@pytest.mark.parametrize(("name", "slowdown"), in_turn(("hosted", "short of memory"), (1.02, 1.25)))
def test_every_number_of_layers_on_the_host_was_looked_at(name: str, slowdown: float) -> None:
    """Against every plan of one stage with every number of layers, each priced by itself."""
    asked = request(name, pp=1, cp=1, zero=2, recompute="none", sequence_parallel=False, schedule="1f1b")
    found = search(replace(asked, objective="memory", slowdown=slowdown))
    job, runtime = next(asked.jobs())
    scan, least = scan_of(asked, job, runtime), float("inf")
    for index in range(scan.space.size):
        plan = scan.space.rows.row((index,))
        plan = replace(plan, zero=2, zero_shards=plan.dp)
        for offload in ("none", "optimizer", *(f"activations:{n}" for n in range(1, job.model.num_layers))):
            priced = estimate(replace(plan, offload=offload), job, runtime)
            if priced.feasible and priced.peak <= scan.limit and priced.step <= within(found):
                least = min(least, priced.peak)
    assert least_peak(found) == pytest.approx(least, rel=1e-12)
    assert found.optimality["proved"]


def test_balanced_splits_were_looked_at() -> None:
    """Against every row of four stages with the default split and the balanced one."""
    asked = request("pipelines", pp=4, vpp=1, tp=1, cp=1, schedule="1f1b", sequence_parallel=False)
    found = search(replace(asked, objective="memory", slowdown=1.1))
    job, runtime = next(asked.jobs())
    scan = replace(scan_of(asked, job, runtime, keep=100_000), within=within(found))
    report = scan.run(lambda result: result.step * 1.0)
    assert len(report.best) > 5
    assert len({one.plan.recompute for one in report.best}) > 1
    least = float("inf")
    for candidate in report.best:
        for plan in (candidate.plan, balanced(candidate.plan, scan)):
            assert plan is not None
            priced = estimate(plan, job, runtime)
            if priced.feasible and priced.peak <= scan.limit and priced.step <= within(found):
                least = min(least, priced.peak)
    assert least_peak(found) <= least
