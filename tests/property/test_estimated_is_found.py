"""What `estimate` calls legal and safe, a search finds that is pinned to it, whatever settings it prefers."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from planner.cost.estimate import estimate
from planner.cost.memory.fit import safe_share
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.runtimes import runtimes
from planner.search.optimise import search_counts
from planner.search.request import SearchRequest, objective_column, scan_of
from planner.search.settings import OpenSettings
from tests.deep import deep

ENDLESS = 1e30
TIE = 1.0101
"""How much slower a plan may be that ties with the best, and leads. [-]"""

JOBS: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "fp8-megatron": ("llama3.2-1b", "megatron-lm", "dgx-h100", {"precision": "fp8"}),
    "mxfp8-experts-bridge": ("qwen3-30b-a3b", "megatron-bridge", "dgx-b200", {"precision": "mxfp8"}),
    "experts-megatron": ("moonlight-16b-a3b", "megatron-lm", "dgx-h100", {}),
    "muon-megatron": ("qwen2.5-7b", "megatron-lm", "dgx-a100-80gb", {"optimizer": "muon"}),
    "long-adapters-deepspeed": (
        "llama3-8b", "deepspeed", "dgx-h100", {"seq_len": 131_072, "method": "lora"},
    ),
    "long-deepspeed": ("llama3-8b", "deepspeed", "dgx-h100", {"seq_len": 65_536}),
    "low-bit-base-fsdp": ("qwen2.5-7b", "fsdp", "dgx-a100-40gb", {"method": "qlora"}),
    "float8-torchtitan": ("llama3-8b", "torchtitan", "dgx-h100", {"precision": "fp8"}),
    "nanotron": ("llama2-7b", "nanotron", "dgx-h100", {}),
}  # fmt: skip
"""Model, runtime, cluster, and what else is asked."""


def kinds(plans: list[Plan]) -> list[Plan]:
    """Return one plan at random of each choice of techniques, in random order."""
    draw = random.Random(1)
    draw.shuffle(plans)
    one = {(plan.zero, plan.recompute, plan.offload, plan.schedule): plan for plan in plans}
    return list(one.values())[: deep(4, 10)]


def pinned(plan: Plan) -> dict[str, Any]:
    """Return every axis of a plan, as a user would say it."""
    degrees = ("tp", "pp", "vpp", "cp", "ep", "etp", "dp", "micro_batch")
    names = ["zero", "recompute", "sequence_parallel", "offload"]
    names += ["schedule"] * bool(plan.pp > 1) + ["cp_method"] * bool(plan.cp > 1)
    return {name: int(getattr(plan, name)) for name in degrees} | {
        name: getattr(plan, name) for name in names
    }


FEW = ("fp8-megatron", "muon-megatron", "long-adapters-deepspeed", "low-bit-base-fsdp", "nanotron")
"""One of each way in which settings may forbid a plan, or need the memory that it takes."""


@pytest.mark.parametrize("name", deep(FEW, tuple(JOBS)))
def test_a_search_finds_the_plan_that_is_pinned_in_no_more_memory_than_it_needs(name: str) -> None:
    model, who, cluster, more = JOBS[name]
    spec, own = load_model(model), runtimes()[who]
    work = Workload(**{"seq_len": 4096, "global_batch": 16, **more})
    asked = SearchRequest(spec, (load_hardware(cluster),), (8,), work, (own.for_model(spec),), {}, top=1)
    job, usual = next(asked.jobs())
    scan = scan_of(asked, job, usual, keep=4096)
    plans = kinds([one.plan for one in scan.run(objective_column("time")).best])
    assert len(plans) > 1
    share = safe_share(asked.oom_risk, usual.traits.allocator.memory_spread)
    for plan in plans:
        known = estimate(plan, job, usual)
        assert known.feasible
        tight = replace(
            asked, fixed=pinned(plan), memory_limit=known.peak * 1.001 / share, settings=OpenSettings()
        )
        found = search_counts(tight, advise=False, beside=False)
        assert (
            min((one.step for one in (*found.plans, *found.on_paper)), default=ENDLESS) <= known.step * TIE
        ), plan
