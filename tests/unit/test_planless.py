"""Of several runtimes, clusters and counts, each is in the answer or told why it is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.workload import Workload
from planner.report.search_page import planless_lines
from planner.runtimes import runtimes
from planner.search.optimise import search_counts
from planner.search.request import SearchRequest
from planner.units import GIB


def asked(model: str, *who: str, cluster: str = "dgx-h100", gpus: tuple[int, ...] = (8,)) -> SearchRequest:
    known, spec = tuple(runtimes()[name] for name in who), load_model(model)
    return SearchRequest(
        spec, (load_hardware(cluster),), gpus, Workload(seq_len=2048, global_batch=32), known, {}
    )


def test_a_runtime_that_cannot_train_the_model_is_named_with_the_reason() -> None:
    request = asked("qwen3-0.6b", "fsdp", "nanotron")
    [one] = search_counts(request, beside=False).planless
    assert (one.runtime, one.cluster, one.gpus, one.fits) == ("nanotron", "dgx-h100", 8, False)
    assert one.why == f"cannot train this model: {_never(request)}"


def _never(request: SearchRequest) -> str:
    return next(one.cannot_train(job) for job, one in request.jobs() if one.name == "nanotron")


def test_counts_that_hold_no_plan_are_told_with_what_the_smallest_needs() -> None:
    request = asked("llama3.1-405b", "megatron-lm", gpus=(8, 64))
    result = search_counts(request, beside=False)
    [one] = result.planless
    least = search_counts(replace(request, gpu_counts=(8,)), beside=False).nearest
    assert least is not None
    assert (one.gpus, one.fits) == (8, False)
    assert float(one.why.split()[-2]) == pytest.approx(float(str(least["peak_gib"])), rel=0.05)
    assert float(one.why.split()[-2]) * GIB > request.clusters[0].pool.accelerator.memory_usable
    assert planless_lines(result, request) == [f"8 dgx-h100 {one.why}."]


def test_plans_that_fit_and_are_only_slower_are_told_in_the_long_page_alone() -> None:
    request = replace(asked("llama3-8b", "megatron-lm", "deepspeed", "fsdp"), top=1)
    result = search_counts(request, beside=False)
    assert {one.why for one in result.planless} == {"has plans that fit, all slower"}
    assert {one.runtime for one in result.planless} | {result.plans[0].runtime.name} == {
        "megatron-lm", "deepspeed", "fsdp",
    }  # fmt: skip
    assert len(planless_lines(result, request)) == 1
    assert planless_lines(result, request, 2) == []


def test_nothing_is_told_where_every_job_has_a_plan_or_none_has() -> None:
    assert search_counts(asked("llama3-8b", "megatron-lm"), beside=False).planless == ()
    assert (
        search_counts(asked("llama3.1-405b", "fsdp", "nanotron"), advise=False, beside=False).planless == ()
    )
