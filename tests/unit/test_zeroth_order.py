"""Training by forward passes alone (MeZO, ZO2, DistZO2): memory, link, cost in learning, no runner."""

from __future__ import annotations

import pytest

from planner.cost.case import case_of
from planner.cost.estimate import Estimate, estimate
from planner.cost.memory.host_rules import host_states
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.model import ModelSpec
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.runtimes import runtimes
from planner.runtimes.family import Job
from planner.techniques.methods import METHODS
from tests.cases import every
from tests.cli.command import planner
from tests.unit.test_weights_off_device import gpt

GB = 1e9
PRINTED = {
    "opt-1.3b": 3.75, "opt-2.7b": 4.14, "opt-6.7b": 4.99, "opt-13b": 6.18, "opt-30b": 8.86, "opt-66b": 12.07,
    "opt-175b": 18.04,
}  # fmt: skip
"""GB of a GPU in fp16 (table of the repository of arXiv:2503.12668)."""


def opt(name: str) -> ModelSpec:
    return gpt(96, 12288) if name == "opt-175b" else load_model(name)


def priced(
    model: ModelSpec, gpus: int = 1, tokens: int = 2048, method: str = "zeroth-order", streams: bool = True
) -> Estimate:
    """Price one sequence on each accelerator, blocks streaming from the host or all on the device."""
    work = Workload(seq_len=tokens, global_batch=gpus, method=method, precision="fp16")
    job = Job(model, load_hardware("dgx-a100-80gb"), gpus, work)
    runtime = runtimes()["deepspeed"].with_traits(engine="zo2") if streams else runtimes()["deepspeed"]
    plan = Plan(dp=float(gpus))
    if streams:
        plan = Plan(dp=float(gpus), zero=3, zero_shards=float(gpus), offload="weights")
    return estimate(plan, job, runtime)


@every("name", PRINTED)
def test_memory_is_what_zo2_printed(name: str) -> None:
    """3.75 GB of OPT-1.3B to 18.04 of 175B, each within 13%."""
    assert priced(opt(name)).peak / GB == pytest.approx(PRINTED[name], rel=0.13)


def test_the_host_holds_two_bytes_of_a_parameter_and_nothing_else() -> None:
    answer = priced(opt("opt-175b"))
    held = host_states(answer.plan, case_of(answer.plan, answer.job, answer.runtime))
    assert list(held) == ["weights"]
    assert float(held["weights"]) == pytest.approx(2 * answer.job.model.params, rel=0.01)


def test_30_b_train_where_all_weights_with_adam_do_not() -> None:
    """MeZO (arXiv:2305.17333): 30 B on one A100 of 80 GB, 2.7 B with Adam."""
    assert priced(load_model("opt-30b"), tokens=512, streams=False).peak < 80 * GB
    assert priced(load_model("opt-66b"), tokens=512, streams=False).peak > 80 * GB
    small = priced(load_model("opt-2.7b"), tokens=512, method="full", streams=False)
    assert (
        small.peak < 80 * GB < priced(load_model("opt-6.7b"), tokens=512, method="full", streams=False).peak
    )


def test_a_step_is_two_forward_passes() -> None:
    """Four FLOPs of a parameter and token in place of six, and less time than with a backward pass."""
    model = load_model("opt-1.3b")
    none, full = (priced(model, method=method, streams=False) for method in ("zeroth-order", "full"))
    assert none.model_flops == pytest.approx(full.model_flops * 2 / 3)
    assert none.recompute_flops == 0.0
    assert 0.5 < none.time.compute / full.time.compute < 0.8
    assert none.sent.dp == none.time.dp_comm == none.time.optimizer == 0.0


def test_more_accelerators_share_the_way_from_the_host() -> None:
    """DistZO2 (arXiv:2507.03211): 3 times ZO2 on OPT-175B; on how many is not printed. Priced, on four."""
    model = opt("opt-175b")
    alone, four = priced(model, 1, 512), priced(model, 4, 512)
    assert alone.time.offload + alone.time.compute == pytest.approx(alone.step, rel=0.05)
    assert 3.0 < 4 * alone.step / four.step < 16.0


def test_what_it_costs_in_learning_stands_beside_the_price() -> None:
    job = ("opt-13b", "--hardware", "dgx-a100-80gb", "--gpus", "1", "--global-batch", "1", "--method", "zo")
    done = planner("estimate", *job, "--runtime", "deepspeed", "--format", "json")
    assert done.code == 1
    assert done.json["workload"]["method"] == "zeroth-order"
    assert "method-offered" in {fault["rule"] for fault in done.json["violations"]}
    assert "7 of 11 tasks" in done.err
    assert "arXiv:2305.17333" in METHODS["zeroth-order"].learns


def test_no_search_ranks_it() -> None:
    job = ("opt-1.3b", "--hardware", "dgx-a100-80gb", "--gpus", "1", "--global-batch", "1")
    found = planner("search", *job, "--method", "zeroth-order", "--format", "json")
    assert found.code == 1
    assert not found.json["plans"]


def test_several_passes_of_a_step_are_refused() -> None:
    job = Job(
        load_model("opt-1.3b"),
        load_hardware("dgx-a100-80gb"),
        1,
        Workload(seq_len=512, global_batch=4, method="zeroth-order"),
    )
    answer = estimate(Plan(num_microbatches=4.0), job, runtimes()["fsdp"])
    assert "forward-passes-alone" in {fault.rule for fault in answer.violations}
