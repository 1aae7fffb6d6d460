"""What must hold for any search: an axis that is given finds nothing faster than all of them left open."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.api import load_hardware, load_model, search_plans
from planner.inputs.workload import Workload
from planner.runtimes import runtimes
from planner.runtimes.family import Job
from planner.search.optimise import search_counts
from planner.search.request import SearchRequest
from planner.search.result import SearchResult
from planner.search.settings import OpenSettings
from tests.deep import deep

LONG = {
    "experts": ("mixtral-8x7b", 32, 32_768, 64),
    "dense": ("llama3-8b", 64, 1_048_576, 4),
}
"""Model, accelerators, tokens of a sequence, sequences of a step: what a plan recomputes decides."""


def fastest(found: SearchResult) -> float:
    """Return the least step that was found; a careful or a usual plan may lead before it."""
    variants = (one for row in found.variants for one in row)
    return min(plan.step for plan in (*found.plans, *found.on_paper, *variants))


@pytest.mark.parametrize(
    ("name", "axes"),
    [
        ("experts", [{"recompute": "selective:norm"}, {"vpp": 4}, *deep([], [{"cp": 4}])]),
        (
            "dense",
            [{"recompute": "selective:mlp"}, {"cp": 32}, *deep([], [{"zero": 2}, {"cp": 16}, {"cp": 64}])],
        ),
    ],
)
def test_an_axis_that_is_given_finds_nothing_faster(name: str, axes: list[dict[str, int | str]]) -> None:
    model, gpus, tokens, batch = LONG[name]
    workload = Workload(seq_len=tokens, global_batch=batch)
    job = Job(load_model(model), load_hardware("dgx-h100"), gpus, workload)
    whole = fastest(search_plans(job, top=3))
    for fixed in axes:
        assert fastest(search_plans(job, top=1, **fixed)) >= whole * (1 - 1e-9), fixed


def test_a_count_is_left_only_where_nothing_made_of_its_plans_could_lead() -> None:
    """The best plan for four recomputes less than the rows of the scan: its bound is without recompute."""
    workload = Workload(seq_len=4096, global_batch=16, method="lora")
    bridge = (runtimes()["megatron-bridge"],)
    model, cluster, fixed = load_model("qwen3-30b-a3b"), load_hardware("dgx-h100"), {"tp": 1, "pp": 1}
    both = SearchRequest(
        model, (cluster,), (2, 4), workload, bridge, fixed,
        objective="energy", settings=OpenSettings(), top=1,
    )  # fmt: skip
    found = [
        search_counts(replace(both, gpu_counts=counts), advise=False, beside=False).plans[0]
        for counts in ((2,), (4,))
    ]
    joules = [
        plan.bill.joules_per_step or 0.0
        for plan in (*found, *search_counts(both, advise=False, beside=False).plans)
    ]
    assert joules[2] == min(joules[:2])
