"""Saved tensors on the host: by hand, against a copy engine played layer by layer, and in whole estimates."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from planner.calibrate.runs.plan import offload_name
from planner.cost.case import case_of
from planner.cost.estimate import Estimate, estimate
from planner.cost.step.parts import PlanParts
from planner.cost.traffic.host_copies import exposed_copies_seconds, link_bytes, linked_bytes
from planner.cost.traffic.shard_groups import groups
from planner.errors import InputError
from planner.formulas.activation_offload import (
    copied_bytes,
    copy_exposed_seconds,
    device_bytes,
    offloaded_layers,
)
from planner.runtimes import runtimes
from planner.runtimes.family import Job
from planner.techniques.offload import OFFLOADS
from planner.techniques.offload.family import read_offload
from tests.cases import every
from tests.cli.command import planner
from tests.unit.cost_jobs import DENSE, GQA, MODELS, job, model, plan_of, runtime

# Forward and backward as Transformer Engine plays them (pytorch/cpu_offload.py, DefaultOffloadSynchronizer):
# layers 0 to n - 1 of L go to the host, one copy after the other on a stream of its own. The copy of layer i
# starts after its forward, and forward of layer L - n + i waits for it; the copy back starts with backward of
# layer L - 1 - n + i, once the layer before is gone, and backward of layer i waits for it.


def forward_played(layers: int, gone: int, window: float, transfer: float) -> tuple[float, int]:
    """Return the seconds of a forward pass, and the most layers whose tensors are on the device at once."""
    now = link = 0.0
    copied: dict[int, float] = {}
    here: set[int] = set()
    most = 0
    for layer in range(layers):
        if 0 <= (waited := layer - (layers - gone)) < gone:
            now = max(now, copied[waited])
            here.discard(waited)
        here.add(layer)
        most = max(most, len(here))
        now += window
        if layer < gone:
            link = max(link, now) + transfer
            copied[layer] = link
    return now, most


def backward_played(layers: int, gone: int, window: float, transfer: float) -> tuple[float, int]:
    """Return the same of a backward pass, which starts with the layers that stayed."""
    now = link = 0.0
    back: dict[int, float] = {}
    here = set(range(gone, layers))
    most = len(here)
    for layer in range(layers - 1, -1, -1):
        here.discard(layer + 1)
        if 0 <= (started := layer - (layers - 1 - gone)) < gone:
            link = max(link, now) + transfer
            back[started] = link
            here.add(started)
        most = max(most, len(here))
        now = max(now, back.get(layer, 0.0)) + window
    return now, most


@every("play", [forward_played, backward_played])
def test_exposed_copies_and_layers_on_the_device_are_those_of_a_played_pass(play: Any) -> None:
    for layers, window, transfer in product(
        (1, 2, 3, 5, 8, 13), (1.0, 2.0), (0.0, 0.5, 1.0, 1.75, 4.0, 40.0)
    ):
        for gone in range(layers):
            seconds, most = play(layers, gone, window, transfer)
            exposed = float(copy_exposed_seconds(transfer, window, layers, gone))
            assert exposed == pytest.approx(seconds - layers * window, abs=1e-9), (layers, gone, transfer)
            assert most == layers - gone
            assert float(device_bytes(7.0 * layers, layers, gone)) == pytest.approx(7.0 * most)


def test_bytes_of_twenty_layers_of_eighty() -> None:
    """Llama 3 70B with 3 GB saved by each of 80 layers."""
    assert float(copied_bytes(240e9, 80, 20)) == 60e9
    assert float(device_bytes(240e9, 80, 20)) == 180e9
    # 3 GB at 450 GB/s are 6.67 ms, behind forwards of 15 ms; over a link of 63 GB/s 47.6 ms: 20 copies take
    # 952 ms, of which 78 layers hide 1170 ms; 40 copies 1905 ms, and 735 ms are left.
    assert float(copy_exposed_seconds(3e9 / 450e9, 0.015, 80, 20)) == 0
    assert float(copy_exposed_seconds(3e9 / 63e9, 0.015, 80, 20)) == 0
    assert float(copy_exposed_seconds(3e9 / 63e9, 0.015, 80, 40)) == pytest.approx(0.735, abs=5e-4)


def test_a_layer_that_runs_stays() -> None:
    assert [float(offloaded_layers(layers, 9)) for layers in (12, 10, 9, 1, 0)] == [9, 9, 8, 0, 0]
    assert float(copy_exposed_seconds(1.0, 1.0, 0, 9)) == float(copied_bytes(0.0, 0, 9)) == 0


def dense(layers: int) -> Any:
    return model("dense", {"a": {"mixer": GQA, "ffn": DENSE}}, f"{layers} a")


def linked(work: Job, rate: float) -> Job:
    """Return the job on accelerators with a host link of this rate."""
    pool = work.hardware.pool
    accelerator = pool.accelerator.model_copy(update={"host_link": rate, "host_copy": None})
    cluster = work.hardware.model_copy(
        update={"pools": (pool.model_copy(update={"accelerator": accelerator}),)}
    )
    return replace(work, hardware=cluster)


def priced(layers: int, offload: str, rate: float = 63e9, **fields: Any) -> Estimate:
    work = linked(job(dense(layers), 2, seq_len=4096, global_batch=8), rate)
    return estimate(plan_of(work, **({"zero": 1, "offload": offload} | fields)), work, runtime())


def test_a_stage_holds_what_a_shallower_one_would() -> None:
    """Twelve layers of which three are away hold the saved tensors of nine."""
    stage, shallow = priced(12, "activations:3").stages[0], priced(9, "none").stages[0]
    assert stage.activations == pytest.approx(shallow.activations, rel=1e-12)
    assert stage.weights > shallow.weights


def test_a_pipeline_stage_holds_it_for_each_micro_batch_in_flight() -> None:
    """Stages of six layers, two away each: those of four layers in a pipeline of eight."""
    work = [job(dense(layers), 4, global_batch=16) for layers in (12, 8)]
    deep, shallow = (
        estimate(plan_of(one, pp=2, zero=0, offload=name), one, runtime()).stages
        for one, name in zip(work, ("activations:2", "none"), strict=True)
    )
    for stage, other in zip(deep, shallow, strict=True):
        assert stage.activations == pytest.approx(other.activations, rel=1e-12)


def test_copies_that_nothing_hides_are_in_the_step() -> None:
    """Four micro-batches on each of two ranks; five layers of twelve over a link of 1 GB/s."""
    layer_bytes = priced(12, "none").stages[0].activations - priced(11, "none").stages[0].activations
    layer_seconds = (priced(12, "none").time.compute - priced(11, "none").time.compute) / 4
    known, plain = priced(12, "activations:5", 1e9), priced(12, "none", 1e9)
    exposed = 4 * (2 * 5 * layer_bytes / 1e9 - 10 * layer_seconds)
    assert exposed > 0
    assert known.time.offload == pytest.approx(exposed, rel=1e-9)
    assert known.step - plain.step == pytest.approx(exposed, rel=1e-9)
    assert priced(12, "activations:5", 1e12).step == plain.step


@every(("zero", "ep"), [(1, 1), (3, 1), (3, 16)])
def test_copies_wait_for_messages_to_other_nodes_on_their_link(zero: int, ep: int) -> None:
    """Two nodes of eight: each card carries an eighth of a ring pass, and half of what tokens take."""
    work = linked(job(dense(12) if ep == 1 else MODELS["experts"], 16, seq_len=4096, global_batch=32), 5e9)
    plan = plan_of(work, zero=zero, ep=ep, offload="activations:5")
    parts = PlanParts(plan, case_of(plan, work, runtime()))
    case, passes = parts.case, parts.passes
    forward, backward = (
        float(np.max(one))
        for one in linked_bytes(case, plan, link_bytes(case, groups(case, plan, passes.weights)))
    )
    dense_bytes = 2.0 * float(np.max(passes.weights.trained)) * 15 / 16 / 8
    gathered = dense_bytes if zero == 3 else dense_bytes / plan.num_microbatches
    assert forward == pytest.approx(gathered)
    assert backward >= forward * (zero == 3)
    sent = float(np.max(passes.layers.routed))
    assert (sent > 0) == (ep > 8)
    known, alone = (
        float(np.max(exposed_copies_seconds(one, plan, passes.layers, passes.weights)))
        for one in (case, case_of(plan, linked(work, 1e15), runtime()))
    )
    assert known > alone == 0.0


def test_gradients_grow_while_activations_come_back() -> None:
    """One micro-batch, gradients made in backward: those of half the layers are there at the peak."""
    traits = {"logit_bytes": 0.0}
    work = job(dense(12), 1, seq_len=8192, global_batch=1)
    none, half = (
        estimate(plan_of(work, zero=3, offload=name), work, runtime(**traits)).stages[0]
        for name in ("none", "activations:6")
    )
    everything = 4 * dense(12).params
    assert (none.gradients, half.gradients) == (0, pytest.approx(everything / 2))


@every(("text", "layers"), [("activations:20", 20), ("ACTIVATIONS:1", 1), ("none", 0), ("cpu", 0)])
def test_choices_are_read(text: str, layers: int) -> None:
    chosen = read_offload(OFFLOADS, text)
    assert chosen.layers == layers
    assert read_offload(OFFLOADS, chosen.spelled) == chosen


@every(
    ("text", "expected"),
    [
        ("activations", "activations:N with N layers"),
        ("activations:", "activations:N with N layers"),
        ("activations:0", "activations:N with N layers"),
        ("activations:-3", "activations:N with N layers"),
        ("activations:2.5", "activations:N with N layers"),
        ("optimizer:2", "above 0 and at most 100%"),
        ("weights:2", "weights, without an argument"),
        ("none:", "none, without an argument"),
        ("activation:2", "nearest: activations"),
    ],
)
def test_other_words_are_refused_with_what_is_right(text: str, expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        read_offload(OFFLOADS, text)


@every(
    ("text", "name"),
    [
        ("activations:20-layers", "activations:20"),
        ("activation_offload_24_layers", "activations:24"),
        ("activations:8", "activations:8"),
        ("optimizer", "optimizer"),
        ("layers", "layers"),
    ],
)
def test_spellings_of_run_tables(text: str, name: str) -> None:
    assert offload_name(text) == name


@every(("fields", "names"), [
    ({}, set()),
    ({"zero": 3}, set()),
    ({"tp": 2.0, "cp": 2.0, "sequence_parallel": True}, set()),
    ({"pp": 2}, {"activation-offload-without-pipeline"}),
    ({"recompute": "selective"}, {"activation-offload-without-recompute"}),
    ({"recompute": "full:2"}, {"activation-offload-without-recompute"}),
    ({"offload": "activations:11"}, set()),
    ({"offload": "activations:12"}, {"activation-offload-layers"}),
])  # fmt: skip
@every("name", ["megatron-lm", "megatron-bridge"])
def test_megatron_core_moves_them_without_pipeline_and_recompute(
    name: str, fields: dict[str, Any], names: set[str]
) -> None:
    work = job(dense(12), 8)
    plan = plan_of(work, **({"zero": 1, "offload": "activations:4"} | fields))
    found = estimate(plan, work, runtimes()[name]).violations
    assert {fault.rule for fault in found} == names


@every("name", ["deepspeed", "torchtitan", "fsdp", "nanotron"])
def test_others_refuse_and_say_what_they_offer(name: str) -> None:
    work, entry = job(dense(12), 8), runtimes()[name]
    plan = plan_of(work, zero=entry.default_zero, offload="activations:4")
    told = {fault.rule: fault for fault in estimate(plan, work, entry).violations}
    assert told["offload-offered"].found == "offload activations:4"
    assert told["offload-offered"].expected == f"one of {', '.join(entry.offloads)}"


def test_two_accelerators_share_the_memory_of_a_grace() -> None:
    """github.com/NVIDIA/Megatron-LM/issues/6491: four GB300 copy at 170 to 184 GB/s each."""
    work = job(dense(12), 4, hardware="gb300-nvl72")
    case = case_of(plan_of(work), work, runtime())
    assert (case.host_link, case.host_copy) == (450e9, 177e9)
    usual = case_of(plan_of(job(dense(12), 4)), job(dense(12), 4), runtime())
    assert usual.host_copy == usual.host_link


def test_a_host_link_must_be_known() -> None:
    work = job(dense(12), 4, hardware="tpu-v5p-pod")
    plan = plan_of(work, zero=1, offload="activations:4")
    assert "offload-has-link" in {fault.rule for fault in estimate(plan, work, runtime()).violations}


JOB = ("llama2-7b", "--hardware", "dgx-h100", "--gpus", "8", "--global-batch", "64", "--format", "json")


def test_an_estimate_takes_layers_and_a_search_finds_them() -> None:
    answer = planner("estimate", *JOB, "--offload", "Activations:12").json
    plain = planner("estimate", *JOB).json
    assert answer["plan"]["offload"] == "activations:12"
    held, whole = (one["memory"]["stages"][0]["activations_gib"] for one in (answer, plain))
    assert 20 / 32 * 0.99 < held / whole < 20 / 32 * 1.05
    refused = planner("estimate", *JOB, "--offload", "activations")
    assert (refused.code, refused.out) == (2, "")
    assert "--offload: found 'activations'; expected activations:N" in refused.err
    found = planner("search", *JOB, "--offload", "activations", "--top", "3")
    assert found.code == 0
    assert {plan["plan"]["offload"].partition(":")[0] for plan in found.json["plans"]} == {"activations"}
    space = found.json["space"]
    assert space["enumerated"] == space["valid"] + sum(space["removed"].values())
