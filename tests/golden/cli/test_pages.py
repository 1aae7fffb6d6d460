"""Pages and documents of made-up figures, so that no change of the cost model moves them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from planner.cli.options import Format
from planner.cost.estimate import Estimate, SentBytes, StageBytes, TimeTerms
from planner.cost.money import Bill
from planner.cost.price import Unpriced
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.report.as_json import estimate_document, search_document
from planner.report.estimate_page import estimate_page
from planner.report.search_page import search_page
from planner.report.text import page_text
from planner.rules import Violation
from planner.runtimes import runtimes
from planner.runtimes.family import Job
from planner.search.request import SearchRequest
from planner.search.result import SearchResult

HERE = Path(__file__).parent
GIB = 2.0**30
Golden = Callable[[Path, str], None]


def stage(number: int, gib: float) -> StageBytes:
    parts = {"weights": 2.0, "gradients": 4.0, "optimizer": 3.0, "activations": gib - 13.0, "workspace": 1.0}
    return StageBytes(
        stage=number,
        moment="loss" if number else "backward",
        allocated=(gib - 3.0) * GIB,
        reserve=1.0 * GIB,
        framework=2.0 * GIB,
        total=gib * GIB,
        **{name: value * GIB for name, value in parts.items()},
    )


@pytest.fixture
def answer() -> Estimate:
    job = Job(load_model("llama2-7b"), load_hardware("dgx-h100"), 16, Workload(global_batch=128, tokens=1e12))
    plan = Plan(
        **{"tp": 2.0, "pp": 2.0, "cp": 2.0, "dp": 2.0, "micro_batch": 2.0, "num_microbatches": 32.0},
        **{"zero": 1, "zero_shards": 4.0, "recompute": "full:4", "stage_layers": (15, 17)},
    )
    return Estimate(
        job=job,
        runtime=runtimes()["megatron-lm"],
        plan=plan,
        feasible=True,
        violations=(),
        step=8.0,
        bound=7.5,
        floor=7.25,
        model_flops=4.0e16,
        recompute_flops=4.0e15,
        peak_rate=989e12,
        error_band=0.08,
        band_basis="24 runs of megatron-lm on h100-80gb-sxm at 3 sites",
        oom_probability=0.015625,
        extrapolated_share=0.25,
        time=TimeTerms(4.5, 1.0, 0.5, 0.0, 0.25, 0.5, 1.0, 0.25, 0.0, 0.0),
        capacity=80.0 * GIB,
        stages=(stage(0, 74.0), stage(1, 40.0)),
        sent=SentBytes(2e9, 1e9, 0.0, 5e8, 4e9),
        bill=Bill(0.25, 9e4, 22.0, 4500.0),
    )


@pytest.fixture
def result(answer: Estimate) -> SearchResult:
    slow = replace(
        answer, step=16.0, bill=Bill(None, 1.8e5, 44.0, None), plan=replace(answer.plan, tp=4.0, cp=1.0)
    )
    broken = replace(slow, feasible=False, capacity=60.0 * GIB)
    return SearchResult(
        plans=(answer, slow),
        baselines=(("data-parallel", broken), ("rule-of-thumb", slow)),
        enumerated=123456,
        valid=789,
        fits=456,
        priced=789,
        close=12,
        removed={"degrees-make-gpus": 100000, "batch-divides": 22667},
        nearest=None,
        elapsed=0.5,
        scan=0.25,
        optimality={
            "method": "a scan",
            "proved": False,
            "bound_s": 7.6,
            "gap": 0.05,
            "over": "the grid",
            "proof": "no plan in this space that fits is more than 5.00% faster",
            "played_bound_s": 7.25,
            "refined": 9,
        },
        left_out=("does not fit", None),
    )


@pytest.fixture
def request_(answer: Estimate) -> SearchRequest:
    job = answer.job
    return SearchRequest(job.model, (job.hardware,), (16,), job.workload, (answer.runtime,))


DEFAULTS = {"seq_len": 4096, "sequence_parallel": False, "precision": "bf16"}


@pytest.mark.parametrize("shown", [Format.table, Format.markdown])
def test_the_page_of_an_estimate(answer: Estimate, golden: Golden, shown: Format) -> None:
    suffix = {"table": "txt", "markdown": "md"}[shown.value]
    golden(HERE / f"estimate.{suffix}", page_text(estimate_page(answer, DEFAULTS), shown is Format.markdown))


@pytest.mark.parametrize("shown", [Format.table, Format.markdown])
def test_the_page_of_a_search(
    result: SearchResult, request_: SearchRequest, golden: Golden, shown: Format
) -> None:
    suffix = {"table": "txt", "markdown": "md"}[shown.value]
    text = page_text(search_page(result, request_, DEFAULTS), shown is Format.markdown)
    golden(HERE / f"search.{suffix}", text)


def test_the_page_where_nothing_fits(result: SearchResult, request_: SearchRequest, golden: Golden) -> None:
    near = {
        "plan": None,
        "peak_gib": 99.5,
        "missing_gib": 19.5,
        "gpus": 32,
        "changes": ["--optimizer adam8bit"],
    }
    empty = replace(result, plans=(), nearest=near, fits=0, close=0)
    golden(HERE / "nothing-fits.txt", page_text(search_page(empty, request_, {})))


def test_the_page_of_a_plan_without_a_price(answer: Estimate, golden: Golden) -> None:
    broken = Violation(
        "batch-divides", "global batch 128 over micro-batch 3", "a whole number", "micro-batch 2 or 4"
    )
    plan = replace(answer.plan, micro_batch=3.0, num_microbatches=21.0)
    unpriced = Unpriced(answer.job, answer.runtime, plan, (broken,), answer.capacity)
    golden(HERE / "unpriced.txt", page_text(estimate_page(unpriced, {})))
    golden(HERE / "unpriced.json", json.dumps(estimate_document(unpriced, {}), indent=2) + "\n")


def test_the_documents(answer: Estimate, result: SearchResult, golden: Golden) -> None:
    golden(HERE / "estimate.json", json.dumps(estimate_document(answer, DEFAULTS), indent=2) + "\n")
    golden(HERE / "search.json", json.dumps(search_document(result, DEFAULTS), indent=2) + "\n")


def test_figures_follow_from_the_record(answer: Estimate) -> None:
    """By hand: 128 x 4096 tokens in 8 s on 16 accelerators; 4e16 FLOP in 8 s on 16 of 989 TFLOP/s."""
    document = estimate_document(answer, {})
    assert document["tokens_per_s_per_gpu"] == 4096.0
    assert document["model_tflops_per_gpu"] == 312.5
    assert document["mfu"] == pytest.approx(312.5 / 989)
    assert document["hfu"] == pytest.approx(343.75 / 989)
    assert document["memory"]["peak_gib"] == 74.0
