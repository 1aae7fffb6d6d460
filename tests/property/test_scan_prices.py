"""A row of a scan, a plan priced beside others, and a plan priced by itself: one price, whatever the job."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from planner.cost.estimate import parts_of
from planner.cost.step import layout
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.runtimes import runtimes
from planner.runtimes.family import Job, Runtime
from planner.search.candidates import Candidate
from planner.search.request import SearchRequest, objective_column, scan_of
from tests.deep import deep

ENDLESS = 1e30
JOBS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "adapters-fsdp": ("llama3.2-1b", "fsdp", {"method": "lora"}),
    "adapters-deepspeed": ("qwen2.5-7b", "deepspeed", {"method": "lora"}),
    "adapters-experts-bridge": ("qwen3-30b-a3b", "megatron-bridge", {"method": "lora"}),
    "low-bit-base-fsdp": ("qwen2.5-7b", "fsdp", {"method": "qlora"}),
    "lengths-deepspeed": ("llama3.2-1b", "deepspeed", {"seq_lens": "lognormal:mean=1024,max=4096,seed=1"}),
    "lengths-fsdp": ("llama3.2-1b", "fsdp", {"seq_lens": "lognormal:mean=1024,max=4096,seed=1"}),
    "images-torchtitan": ("qwen3.5-vl-9b", "torchtitan", {}),
    "images-bridge": ("qwen3.5-vl-9b", "megatron-bridge", {}),
    "encoder-decoder-deepspeed": ("t5-3b", "deepspeed", {"seq_len": 512}),
    "experts-megatron": ("gpt-oss-20b", "megatron-lm", {}),
}
"""Model, runtime, and what else is asked, of jobs whose layers depend on more than their degrees."""


def scanned(name: str) -> tuple[Job, Runtime, list[Candidate]]:
    model, who, more = JOBS[name]
    spec, runtime = load_model(model), runtimes()[who]
    own = runtime.for_model(spec)
    work = Workload(**{"seq_len": 4096, "global_batch": 16, **more})
    job = Job(own.trained(spec), load_hardware("dgx-h100"), 8, work)
    request = SearchRequest(spec, (job.hardware,), (8,), work, (runtime,), {})
    scan = scan_of(request, job, own, keep=4096)
    scan.limit = scan.capacity = ENDLESS
    return job, own, list(scan.run(objective_column("time")).best)


def kinds(candidates: list[Candidate]) -> list[Candidate]:
    """Return one candidate at random of each choice of techniques, in random order."""
    draw = random.Random(1)
    draw.shuffle(candidates)
    one = {(each.plan.zero, each.plan.recompute, each.plan.offload): each for each in candidates}
    return list(one.values())[: deep(24, 10_000)]


def price(plan: Plan, job: Job, runtime: Runtime) -> tuple[float, float]:
    step = parts_of(plan, job, runtime).step
    return float(np.max(step.step)), float(np.max(step.total_bytes))


@pytest.mark.parametrize("name", JOBS)
def test_a_plan_costs_what_its_row_does_whatever_was_priced_before(name: str) -> None:
    job, runtime, candidates = scanned(name)
    chosen = kinds(candidates)
    assert len(chosen) > 1
    for one in chosen:
        beside = price(one.plan, job, runtime)
        layout._KNOWN.clear()
        alone = price(one.plan, job, runtime)
        assert beside == alone, one.plan
        assert alone == pytest.approx((one.value, one.total_bytes), rel=1e-9), one.plan
        for other in chosen[:3]:
            price(other.plan, job, runtime)
