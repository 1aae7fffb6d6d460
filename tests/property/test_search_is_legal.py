"""Whatever is fixed: every plan that a search shows is legal by an estimate, and keeps what is fixed."""

from __future__ import annotations

import random
from typing import Any
from unittest import mock

import pytest

from planner.api import estimate_plan, load_hardware, load_model, load_runtime, search_plans
from planner.cost.settings import settings_of
from planner.errors import InputError
from planner.inputs.workload import Workload
from planner.runtimes.family import Job
from planner.search.result import SearchResult
from tests.deep import deep

MODELS = ("llama3-8b", "mixtral-8x7b", "qwen3-30b-a3b", "deepseek-v2")
RUNTIMES = ("megatron-lm", "megatron-bridge", "torchtitan", "deepspeed", "fsdp", "nanotron")
COUNTS = (4, 8, 12, 16, 24, 48, 64)
PINS: dict[str, tuple[Any, ...]] = {
    "tp": (1, 2, 3, 4, 8),
    "pp": (1, 2, 3, 4, 8),
    "vpp": (1, 2, 3, 4),
    "cp": (1, 2, 3),
    "ep": (1, 2, 3, 8, 16),
    "etp": (1, 2, 4),
    "dp": (1, 2, 4, 8),
    "zero": (0, 1, 2, 3),
    "zero_shards": (2, 4, 8),
    "micro_batch": (1, 2, 3, 5),
    "sequence_parallel": (True, False),
    "recompute": ("none", "full", "selective"),
    "stage_layers": ((8, 8, 8, 8), (9, 8, 8, 7), (0, 16, 16, 0), (32,), (30, 30)),
}
AXES = (
    "tp", "pp", "vpp", "cp", "ep", "etp", "dp", "zero", "zero_shards", "micro_batch", "recompute",
    "sequence_parallel", "cp_method", "schedule", "offload", "stage_layers",
)  # fmt: skip


def drawn(seed: int) -> tuple[Job, str, dict[str, Any]]:
    draw = random.Random(seed)
    work = Workload(seq_len=2048, global_batch=draw.choice((16, 48, 64)))
    job = Job(load_model(draw.choice(MODELS)), load_hardware("dgx-h200"), draw.choice(COUNTS), work)
    pinned = draw.sample(sorted(PINS), draw.choice((0, 1, 1, 2, 3)))
    runtime, fixed = draw.choice(RUNTIMES), {name: draw.choice(PINS[name]) for name in pinned}
    if seed % 4:
        fixed.setdefault("recompute", PINS["recompute"][seed % 3])
    return job, runtime, fixed


def without_advice(job: Job, runtime: str, **asked: Any) -> SearchResult:
    with mock.patch("planner.search.optimise.nearest_that_fits", return_value=None):
        return search_plans(job, runtime, **asked)


SLOW = {4, 7, 8, 15, 16, 17, 24, 27, 30, 32, 33, 34, 38, 39, 42, 43, 49, 51, 58, 62, 67, 70, 74, 76, 77}
"""Seeds whose searches take longest: others fix each value, and each axis for each runtime."""


@pytest.mark.parametrize("seed", deep([seed for seed in range(80) if seed not in SLOW], list(range(80))))
def test_what_a_search_shows_an_estimate_calls_legal(seed: int) -> None:
    """What would fit where nothing does is asked of every fourth, which may recompute what it likes."""
    job, runtime, fixed = drawn(seed)
    asked = search_plans if seed % 4 == 0 else without_advice
    try:
        result = asked(job, runtime, top=3, **fixed)
    except InputError:
        return
    for plan in [*result.plans, *(baseline for _, baseline in result.baselines)]:
        axes = {name: getattr(plan.plan, name) for name in AXES}
        axes = {name: int(value) if isinstance(value, float) else value for name, value in axes.items()}
        chosen = {name: value for name, value in settings_of(job, plan.runtime).items() if value is not None}
        known = estimate_plan(plan.job, load_runtime(runtime, plan.job, **chosen), **axes)
        assert known.violations == plan.violations == (), (fixed, axes)
        assert known.step == plan.step
        kept = {name: axes[name] for name in fixed}
        assert kept == fixed


@pytest.mark.parametrize(
    ("model", "gpus", "fixed", "rule"),
    [
        ("llama3-8b", 16, {"ep": 8}, "experts-divide"),
        ("mixtral-8x7b", 32, {"ep": 16}, "experts-divide"),
        ("llama3-8b", 16, {"pp": 4, "stage_layers": (8, 8, 8, 9)}, "split-has-all-stages"),
    ],
)
def test_what_is_fixed_against_a_rule_finds_nothing_and_names_the_rule(
    model: str, gpus: int, fixed: dict[str, Any], rule: str
) -> None:
    job = Job(load_model(model), load_hardware("dgx-h100"), gpus, Workload(seq_len=2048, global_batch=256))
    result = search_plans(job, **fixed)
    assert result.plans == result.baselines == ()
    assert result.removed[rule] > 0
    assert result.nearest is not None
    told = result.nearest["breaks"]
    assert isinstance(told, dict)
    assert rule in {fault["rule"] for fault in told["rules"]}


def test_activations_on_the_host_that_are_asked_for_are_in_every_plan_and_baseline() -> None:
    job = Job(load_model("llama3-8b"), load_hardware("dgx-h100"), 8, Workload(seq_len=8192, global_batch=32))
    result = search_plans(job, top=5, offload="activations")
    shown = [*result.plans, *(baseline for _, baseline in result.baselines)]
    assert len(shown) > 5
    assert all(one.plan.offload.startswith("activations:") for one in shown)
