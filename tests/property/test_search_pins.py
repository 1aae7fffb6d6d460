"""A search that leaves an axis open is at least as good as one that pins it, offload included."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from planner.cost.estimate import Estimate, estimate
from planner.inputs.hardware import HardwareProfile
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.runtimes import runtimes
from planner.runtimes.family import Job
from planner.search.assign.improve import Improver
from planner.search.operators.host import hosted
from planner.search.optimise import search_counts
from planner.search.request import SearchRequest, objective_column, scan_of
from tests.deep import deep, in_turn

WORSE = 1.001
"""How many times as long as a pinned search's best the open one's may take. [-]"""

JOBS = {
    "long": ("llama3-8b", "dgx-h100", 8, 8192, 16),
    "short": ("llama3-8b", "dgx-h100", 8, 2048, 16),
    "one": ("llama3-8b", "dgx-h100", 1, 4096, 4),
    "longest": ("llama3-70b", "dgx-h100", 32, 16384, 16),
    "old": ("llama2-13b", "dgx-a100-80gb", 16, 4096, 32),
    "small": ("llama2-7b", "dgx-a100-40gb", 8, 4096, 16),
    "wide": ("gpt3-175b", "dgx-a100-80gb", 64, 2048, 32),
    "experts": ("mixtral-8x7b", "dgx-h100", 8, 4096, 8),
    "many experts": ("qwen3-30b-a3b", "dgx-h100", 8, 4096, 32),
    "linked": ("llama3-70b", "gb200-nvl72", 8, 8192, 16),
    "bridge": ("llama3-70b", "dgx-h100", 32, 8192, 16, "megatron-bridge"),
    "deepspeed": ("llama2-7b", "dgx-a100-80gb", 8, 4096, 32, "deepspeed"),
}


FEW = ("long", "short", "one", "small", "wide", "experts", "many experts", "bridge", "deepspeed")
"""Jobs of each kind: the others are larger, or older, ones of the same."""


def request(
    model: str, cluster: str, gpus: int, seq_len: int, batch: int, runtime: str = "megatron-lm", **fixed: Any
) -> SearchRequest:
    work = Workload(seq_len=seq_len, global_batch=batch)
    known = (runtimes()[runtime],)
    return SearchRequest(load_model(model), (load_hardware(cluster),), (gpus,), work, known, fixed=fixed)


def best(asked: SearchRequest) -> Estimate | None:
    """Return the best by its price; another may lead where no run has its kind."""
    found = search_counts(replace(asked, top=1), advise=False, beside=False)
    return min((*found.on_paper, *found.plans), key=lambda plan: plan.step, default=None)


def asked_of(name: str, **fixed: Any) -> SearchRequest:
    """Return the request of a job; only those whose axes are pinned one by one leave the context open."""
    return request(*JOBS[name], **({} if name in ("long", "small") else {"cp": 1}), **fixed)


@cache
def open_best(name: str) -> Estimate | None:
    return best(asked_of(name))


@pytest.mark.parametrize(
    ("name", "offload"), in_turn(deep(FEW, tuple(JOBS)), ("none", "optimizer", "activations"))
)
def test_an_open_search_is_as_good_as_any_choice_of_offload(name: str, offload: str) -> None:
    opened = open_best(name)
    assert opened is not None
    assert opened.violations == ()
    pinned = best(asked_of(name, offload=offload))
    if pinned is not None:
        assert pinned.plan.offload.startswith(offload)
        assert opened.step <= pinned.step * WORSE, pinned.plan


PINS: Mapping[str, tuple[object, ...]] = {
    "cp": (1, 2, 4),
    "zero": (0, 1, 2, 3),
    "zero_shards": (2, 4),
    "recompute": ("none", "selective", "full", "full:4"),
    "schedule": ("1f1b", "interleaved-1f1b"),
    "micro_batch": (1, 2, 4),
    "etp": (1, 2),
    "ep": (1, 4),
    "sequence_parallel": (False, True),
    "tp": (1, 2, 4),
    "pp": (1, 2, 4),
}


@pytest.mark.parametrize("axis", PINS)
@pytest.mark.parametrize("name", ["long", "small"])
def test_an_open_search_is_as_good_as_any_pinned_axis(name: str, axis: str) -> None:
    """Values are pinned on one of the two jobs, neighbours on both in turn: the first two, or all."""
    opened = open_best(name)
    assert opened is not None
    for value in PINS[axis][name == "small" :: 2][: deep(1, None)]:
        pinned = best(request(*JOBS[name], **{axis: value}))
        assert pinned is None or opened.step <= pinned.step * WORSE, (value, pinned.plan)


@pytest.mark.parametrize("name", ["long", "small"])
def test_as_few_layers_as_are_safe_are_on_the_host_and_no_row_was_missed(name: str) -> None:
    """Against every number of layers of every plan of one stage, each priced by itself."""
    asked = request(*JOBS[name], pp=1, cp=1, zero=2, recompute="none", sequence_parallel=False)
    job, runtime = next(asked.jobs())
    scan = scan_of(asked, job, runtime)
    known = best(asked)
    assert known is not None
    assert known.plan.offload.startswith("activations:")
    fastest = float("inf")
    rows = scan.space.rows
    for index in range(scan.space.size):
        plan = replace(rows.row((index,)), zero=2, zero_shards=float(rows.row((index,)).dp))
        for layers in range(1, job.model.num_layers):
            priced = estimate(replace(plan, offload=f"activations:{layers}"), job, runtime)
            if priced.feasible and priced.peak <= scan.limit:
                fastest = min(fastest, priced.step)
                break
    assert known.step == pytest.approx(fastest, rel=1e-12)


@pytest.mark.parametrize("name", ["long", "old", "many experts"])
def test_what_a_candidate_takes_at_least_is_no_more_than_it_takes(name: str) -> None:
    asked = request(*JOBS[name])
    job, runtime = next(asked.jobs())
    scan = scan_of(asked, job, runtime)
    report = scan.run(objective_column("time"))
    improver, tried = Improver(scan), 0
    assert report.of("host") == sorted(report.of("host"), key=lambda one: one.value)
    for candidate in report.of("host")[:24]:
        found = hosted(improver, candidate)
        if found is not None:
            tried += 1
            assert candidate.bound <= found.step * (1 + 1e-12)
            assert found.step <= candidate.bound * 1.05
    assert tried > 3


def with_host_memory(cluster: HardwareProfile, nbytes: float) -> HardwareProfile:
    pool = cluster.pool
    node = pool.node.model_copy(update={"host_memory": nbytes})
    return cluster.model_copy(update={"pools": (pool.model_copy(update={"node": node}),)})


def test_the_memory_of_a_node_holds_what_its_ranks_send_there() -> None:
    """Four fifths of it, of eight ranks, each of which sends what its stage then holds less."""
    work = Workload(seq_len=8192, global_batch=8)
    cluster, megatron = load_hardware("dgx-h100"), runtimes()["megatron-lm"]
    model = load_model("llama3-8b")

    def priced(offload: str, nbytes: float) -> Estimate:
        job = Job(model, with_host_memory(cluster, nbytes), 8, work)
        return estimate(Plan(dp=8, zero=1, zero_shards=8, offload=offload), job, megatron)

    away = priced("none", 2e12).stages[0].activations - priced("activations:9", 2e12).stages[0].activations
    needed = 8 * away / 0.8
    assert [broken.rule for broken in priced("activations:9", needed * 0.99).violations] == [
        "host-holds-activations"
    ]
    assert priced("activations:9", needed * 1.01).violations == ()
    assert priced("activations:8", needed * 0.99).violations == ()


def test_a_search_leaves_on_the_device_what_the_host_cannot_hold() -> None:
    """What the best plan sends there, of eight ranks in four fifths of it, and a hundredth less."""
    asked = request(*JOBS["long"])
    rich = best(asked)
    assert rich is not None
    assert rich.plan.offload.startswith("activations:")
    kept = estimate(replace(rich.plan, offload="none"), rich.job, rich.runtime).stages[0].activations
    needed = 8 * (kept - rich.stages[0].activations) / 0.8
    rows = [(with_host_memory(asked.clusters[0], share * needed),) for share in (1.01, 0.99)]
    enough, found = (best(replace(asked, clusters=row)) for row in rows)
    assert enough is not None
    assert enough.step == rich.step
    poor = replace(asked, clusters=rows[1])
    assert found is not None
    assert found.violations == ()
    assert found.step > rich.step
    pinned = best(replace(poor, fixed={"offload": "activations"}))
    assert pinned is None or pinned.violations == ()


def test_runtimes_that_offer_none_get_none() -> None:
    for runtime in ("fsdp", "torchtitan", "deepspeed", "nanotron"):
        asked = request("llama3-8b", "dgx-h100", 8, 8192, 32, runtime)
        assert scan_of(asked, *next(asked.jobs())).hostable is None
