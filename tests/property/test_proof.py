"""What a search says that it has proved: of the winner, in one unit, and with nothing faster left untold."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.workload import Workload
from planner.report.search_page import search_page
from planner.runtimes import runtimes
from planner.search.optimise import search
from planner.search.request import SearchRequest, objective_value, why_left_out
from planner.search.result import SearchResult
from planner.search.ties import TIE
from tests.cli.command import planner
from tests.deep import in_turn


def request(
    gpus: tuple[int, ...] = (8,), names: tuple[str, ...] = ("megatron-lm",), **more: object
) -> SearchRequest:
    work = Workload(seq_len=4096, global_batch=64)
    runners = tuple(runtimes()[name] for name in names)
    model, cluster = load_model("llama3-8b"), load_hardware("dgx-h100")
    asked = SearchRequest(model, (cluster,), gpus, work, runners, fixed={"cp": 1})
    return replace(asked, **more)  # type: ignore[arg-type]


FASTEST_LEADS = {"offload": "none", "recompute": "none"}
"""Axes with which no plan is held back for its kind or its risk, so that the fastest leads."""


def consistent(found: SearchResult) -> None:
    told = found.optimality
    gap, bound = float(str(told["gap"])), float(str(told["bound_s"]))
    seconds = found.played[0] or found.plans[0].step
    assert told["proved"] == (gap == 0.0)
    assert bound == pytest.approx(seconds * (1 - gap))
    assert str(told["proof"]).startswith("no plan in this space that fits is ")
    assert ("more than" in str(told["proof"])) == (gap > 0)
    assert 0 < bound <= seconds


def test_a_proof_is_the_same_for_every_number_of_plans() -> None:
    """More plans than are refined at most, so that none would be left for the bounds to ask for."""
    few, many = (search(request(top=top, fixed=FASTEST_LEADS)) for top in (1, 300))
    assert len(many.plans) > 250
    assert few.plans[0].plan == many.plans[0].plan
    assert few.optimality["proved"]
    for name in ("proved", "bound_s", "gap", "proof", "refined", "over"):
        assert few.optimality[name] == many.optimality[name]
    consistent(many)


def test_a_runtime_without_a_plan_says_nothing_of_the_bound() -> None:
    """Accelerate's FSDP has no pipeline."""
    fixed = {"pp": 2, "cp": 1}
    both = search(request(names=("megatron-lm", "fsdp"), fixed=fixed))
    one = search(request(fixed=fixed))
    assert both.optimality["bound_s"] == one.optimality["bound_s"]
    assert both.optimality["proved"] == one.optimality["proved"]
    consistent(both)


@pytest.mark.parametrize("objective", ["time", "cost", "energy", "memory"])
def test_over_several_counts_the_gap_is_of_the_objective(objective: str) -> None:
    """The cheapest count is the smallest, whose seconds are the most: its bound is not that of another."""
    found = search(request((8, 32), objective=objective))
    consistent(found)
    alone = [search(request((count,), objective=objective)) for count in (8, 32)]
    values = [objective_value(objective, one.plans[0]) for one in alone]
    assert objective_value(objective, found.plans[0]) == pytest.approx(min(values))
    if all(one.optimality["proved"] for one in alone):
        assert found.optimality["proved"]


LORA = (
    "search", "llama3.1-8b", "--hardware", "rtx4090-8-pcie", "--gpus", "2", "--gpus-per-node", "2",
    "--runtime", "fsdp", "--method", "lora", "--seq-len", "2048", "--global-batch", "16",
    "--memory-limit", "16",
)  # fmt: skip


def test_a_faster_baseline_says_why_it_is_no_plan() -> None:
    """Every baseline that is faster than the best has its reason beside it, in the page and in the JSON."""
    document = planner(*LORA, "--format", "json").json
    faster = [
        row for row in document["baselines"] if row["step_time_s"] < document["plans"][0]["step_time_s"]
    ]
    assert faster, "the case no longer shows it"
    for row in faster:
        assert "6.9% risk" in row["left_out"]
    page = planner(*LORA).out
    assert "risk of" in page
    assert "0.86 times the best" not in page


@pytest.mark.parametrize(
    ("limit", "names"),
    in_turn((None, 60e9, 45e9, 30e9), (("megatron-lm",), ("fsdp",), ("deepspeed", "torchtitan"))),
)
def test_no_baseline_without_a_reason_is_faster_than_the_best(
    limit: float | None, names: tuple[str, ...]
) -> None:
    asked = request(names=names, memory_limit=limit)
    found = search(asked)
    for (_, answer), reason in zip(found.baselines, found.left_out, strict=True):
        assert reason == why_left_out(answer, asked)
        if found.plans and reason is None:
            assert found.plans[0].step <= answer.step * (1 + TIE)
    assert str(search_page(found, asked, {}))


def test_the_least_memory_is_not_bought_with_any_time() -> None:
    """Without a limit, the smallest plan is several times slower than the fastest."""
    own = partial(request, fixed={"offload": "none", "cp": 1})
    fastest = min(search(own()).plans, key=lambda plan: plan.step)
    near = search(own(objective="memory"))
    free = search(own(objective="memory", slowdown=float("inf")))
    assert free.plans[0].step > 2 * fastest.step
    assert free.plans[0].peak < near.plans[0].peak < fastest.peak
    assert all(plan.step <= 1.25 * fastest.step * (1 + 1e-12) for plan in near.plans)
    assert near.optimality["within_s"] == pytest.approx(1.25 * fastest.step, rel=0.02)
    assert free.optimality["within_s"] is None
    consistent(near)
    everything = search(own(top=1000, uniform=True)).plans
    allowed = [plan.peak for plan in everything if plan.step <= float(str(near.optimality["within_s"]))]
    assert near.plans[0].peak <= min(allowed)


def test_how_slow_it_may_be_is_told_and_can_be_changed() -> None:
    job = (
        "search",
        "llama3-8b",
        "--hardware",
        "dgx-h100",
        "--gpus",
        "8",
        "--global-batch",
        "64",
        "--cp",
        "1",
    )
    steps = []
    for more in ((), ("--slowdown", "1.05"), ("--slowdown", "inf")):
        done = planner(*job, "--objective", "memory", *more, "--format", "json")
        assert done.code == 0
        steps.append(done.json["plans"][0]["step_time_s"])
    assert steps[1] < steps[0] < steps[2]
    assert "within 1.25 times the fastest step" in planner(*job, "--objective", "memory").out
    for wrong in (("--objective", "memory", "--slowdown", "0.5"), ("--slowdown", "2")):
        refused = planner(*job, *wrong)
        assert refused.code == 2
        assert "--slowdown" in refused.err
