"""Kinds of plan: which measured runs stand behind a price, and how wide its band is where none does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.cost.estimate import Estimate, estimate
from planner.cost.kinds import (
    ELSEWHERE_WIDER,
    KINDS,
    beyond_runs,
    kinds_of,
    measured_kinds,
    unmeasured_kinds,
)
from planner.inputs.bands import Band
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.report.layout import layout
from planner.report.search_page import best_measured
from planner.report.unproven import unproven
from planner.runtimes import runtimes
from planner.runtimes.family import Job
from planner.search import earned
from planner.search.optimise import search_counts
from planner.search.request import SearchRequest
from tests.cases import every

MIXTURE = Job(
    load_model("qwen3-30b-a3b"), load_hardware("dgx-h100"), 16, Workload(seq_len=8192, global_batch=64)
)
DENSE = Job(load_model("llama3-8b"), load_hardware("dgx-h100"), 16, Workload(seq_len=8192, global_batch=64))
PLAIN = Plan(tp=1.0, dp=16.0, zero_shards=16.0, num_microbatches=4.0, zero=1, stage_layers=(32,))


@every(
    ("job", "changes", "kind"),
    [
        (DENSE, {"offload": "activations:4"}, "activations on the host"),
        (DENSE, {"tp": 16.0, "dp": 1.0}, "tensor parallelism beyond the fast links"),
        (DENSE, {"cp": 2.0, "dp": 8.0}, "sequences split below 4,096 tokens"),
        (DENSE, {"zero": 3}, "parameters sharded beyond the fast links"),
        (MIXTURE, {}, "experts on every rank"),
        (MIXTURE, {"ep": 16.0}, "experts spread beyond the fast links"),
        (MIXTURE, {"ep": 8.0, "zero": 3, "zero_shards": 8.0}, "experts sharded as parameters"),
        (MIXTURE, {"ep": 8.0, "recompute": "full:2"}, "layers of experts recomputed"),
        (MIXTURE, {"ep": 8.0, "micro_batch": 2.0}, "several sequences in a pass of experts"),
    ],
)
def test_a_plan_is_of_its_kind_alone(job: Job, changes: dict[str, object], kind: str) -> None:
    assert kinds_of(replace(PLAIN, **changes), job) == (kind,)  # type: ignore[arg-type]


def test_plain_plans_are_of_no_kind() -> None:
    assert not kinds_of(PLAIN, DENSE)
    assert not kinds_of(replace(PLAIN, ep=8.0), MIXTURE)


def test_measured_kinds_are_known_ones() -> None:
    assert {kind for _, kind in measured_kinds()} <= set(KINDS)
    assert all(found.runs > 0 for found in measured_kinds().values())


def test_activations_on_the_host_were_measured_beside_grace_and_not_on_h100() -> None:
    """NVIDIA's recipes of Llama 3 70B with full sharding keep 20 or 40 layers' activations on the host."""
    plan, bridge = replace(PLAIN, offload="activations:4"), runtimes()["megatron-bridge"]
    beside_grace = replace(DENSE, hardware=load_hardware("gb200-nvl72"))
    assert unmeasured_kinds(plan, DENSE, bridge) == ("activations on the host",)
    assert not unmeasured_kinds(plan, beside_grace, bridge)


def priced(plan: Plan, job: Job = DENSE) -> Estimate:
    return estimate(plan, job, runtimes()["megatron-lm"])


def test_what_no_run_has_is_called_unproven_and_has_a_wider_band() -> None:
    plain, moved = priced(PLAIN), priced(replace(PLAIN, offload="activations:4"))
    assert not unproven(plain)
    (line,) = unproven(moved)
    assert "no measured Megatron-core run of a dense model on h100 has activations on the host" in line
    assert moved.error_band is not None
    assert plain.error_band is not None
    assert moved.error_band >= plain.error_band * 1.5
    assert "no run there has activations on the host" in moved.band_basis


def test_where_nothing_was_run_what_no_machine_ever_ran_is_told() -> None:
    """Without a band there is none to widen; adapters beside a base on the host have a doubt of their own."""
    cards = replace(DENSE, hardware=load_hardware("rtx4090-8-pcie"), gpus=8)
    plan = Plan(dp=8.0, zero=3, zero_shards=8.0, num_microbatches=8.0, recompute="full")
    plain, moved = (
        estimate(one, cards, runtimes()["fsdp"]) for one in (plan, replace(plan, offload="weights"))
    )
    assert moved.error_band is None
    assert not unproven(plain)
    (line,) = unproven(moved)
    assert (
        "no measured run of whole training, on any machine, has optimizer states on the host or weights"
        in line
    )


def test_a_band_is_widened_once_for_all_kinds() -> None:
    wide = beyond_runs(Band(0.1, "runs"), ("one", "another"))
    assert wide is not None
    assert wide.share == pytest.approx(0.1 * ELSEWHERE_WIDER)
    assert beyond_runs(None, ("one",)) is None
    assert beyond_runs(Band(0.1, "runs"), ()) == Band(0.1, "runs")


def test_a_search_tells_the_best_that_runs_stand_behind_where_its_first_is_of_another_kind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(earned, "DOUBTS", ())  # what is faster need not earn its lead
    model, work = load_model("llama3-70b"), DENSE.workload.model_copy(update={"global_batch": 256})
    known = (runtimes()["megatron-lm"],)
    request = SearchRequest(model, (DENSE.hardware,), (64,), work, known, fixed={"cp": 1})
    found = search_counts(request)
    lead, other = found.plans[0], found.measured
    assert other is not None
    assert unmeasured_kinds(lead.plan, lead.job, lead.runtime)
    assert not unmeasured_kinds(other.plan, other.job, other.runtime)
    assert other.step >= lead.step
    assert layout(other.plan) in best_measured(found)[0]
    alone = search_counts(replace(request, fixed={"cp": 1, "offload": "none"}))
    assert alone.measured is None
    assert not best_measured(alone)
    assert other.step <= alone.plans[0].step * 1.01
