"""Inputs of modules on the host: bytes by Megatron-core's own rule, copies, rules, files read back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planner.cost.estimate import Estimate, estimate
from planner.errors import InputError
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.runtimes import runtimes
from planner.runtimes.family import Job
from planner.runtimes.imports.dispatch import read_runner_file
from planner.techniques.offload import OFFLOADS
from planner.techniques.offload.family import read_offload
from tests.cases import every
from tests.cli.command import planner
from tests.unit.test_activation_offload import linked

LAYERS, TOKENS, HIDDEN, KEYS = 32, 4096, 4096, 2 * 1024
"""Llama 3 8B on one rank of data parallelism: layers, tokens, its width, and that of keys and values."""


def priced(model: str, offload: str, rate: float = 63e9, length: int = TOKENS, **axes: Any) -> Estimate:
    work = Workload(seq_len=length, global_batch=64)
    job = linked(Job(load_model(model), load_hardware("dgx-h100"), 8, work), rate)
    plan = Plan(
        **({"dp": 8.0, "zero": 1, "zero_shards": 8.0, "num_microbatches": 8.0, "offload": offload} | axes)
    )
    return estimate(plan, job, runtimes()["megatron-lm"])


def gone(model: str, offload: str, **fields: Any) -> float:
    """Bytes of activations that leave the device."""
    before, after = (priced(model, name, **fields).stages[0].activations for name in ("none", offload))
    return float(before - after)


@every(
    ("modules", "width"),
    [
        ("core_attn", HIDDEN + KEYS),
        ("core_attn+attn_proj", 2 * HIDDEN + KEYS),
        ("qkv_linear", 2 * HIDDEN),
        ("attn_norm+mlp_norm", 0),
    ],
)
def test_of_every_layer_but_one_the_inputs_leave(modules: str, width: int) -> None:
    """Queries, keys, values; attention's result with its projection; a norm in its product is no module."""
    expected = (LAYERS - 1) * TOKENS * width * 2
    assert gone("llama3-8b", f"modules:{modules}") == pytest.approx(expected, rel=1e-3)


def test_inputs_of_experts_leave() -> None:
    """Qwen3 30B-A3B, 48 layers: eight copies of a token of 2,048, and what 768 gates and ups make of them."""
    experts = {"ep": 8.0, "micro_batch": 1.0}
    first, act = (gone("qwen3-30b-a3b", f"modules:{name}", **experts) for name in ("expert_fc1", "moe_act"))
    assert first == pytest.approx(47 * TOKENS * 8 * 2048 * 2)
    assert act == pytest.approx(47 * TOKENS * 8 * 2 * 768 * 2)


def test_small_tensors_stay() -> None:
    """128 tokens of 6,144 are fewer than 2^20 elements."""
    assert gone("llama3-8b", "modules:core_attn", length=128) == 0


def test_copies_that_the_pass_of_a_layer_does_not_hide_are_in_the_step() -> None:
    """At 1 GB/s; attention's result is copied with its inputs, and again before its projection."""
    plain = priced("llama3-8b", "none", 1e9)
    core, both = (
        priced("llama3-8b", f"modules:{name}", 1e9) for name in ("core_attn", "core_attn+attn_proj")
    )
    more = TOKENS * HIDDEN * 2 / 1e9
    assert both.time.offload - core.time.offload == pytest.approx(8 * 2 * (LAYERS - 1) * more)
    assert core.step - plain.step == pytest.approx(core.time.offload)
    assert priced("llama3-8b", "modules:core_attn", 1e13).step == plain.step


@every(
    ("model", "axes", "rule"),
    [
        ("llama3-8b", {"offload": "modules:attn_proj"}, "offload-attention-result-with-core"),
        ("llama3-8b", {"offload": "modules:moe_act"}, "offload-modules-in-model"),
        ("llama3-8b", {"offload": "modules:core_attn", "recompute": "full"}, "offload-modules-that-are-kept"),
        (
            "qwen3-30b-a3b",
            {"offload": "modules:moe_act", "recompute": "selective:moe", "ep": 8.0},
            "offload-modules-that-are-kept",
        ),
        ("llama3-8b", {"offload": "modules:core_attn"}, ""),
        (
            "llama3-8b",
            {
                "offload": "modules:core_attn",
                "pp": 2.0,
                "dp": 4.0,
                "zero_shards": 4.0,
                "num_microbatches": 16.0,
            },
            "",
        ),
    ],
)
def test_what_megatron_core_refuses_is_refused(model: str, axes: dict[str, Any], rule: str) -> None:
    found = [fault.rule for fault in priced(model, **axes).violations]
    assert found == ([rule] if rule else [])


def test_graphs_of_whole_passes_and_norms_are_refused_with_it() -> None:
    job = Job(
        load_model("qwen3-30b-a3b"), load_hardware("gb300-nvl72"), 8, Workload(seq_len=4096, global_batch=64)
    )
    plan = Plan(dp=8.0, ep=8.0, zero=1, zero_shards=8.0, num_microbatches=8.0, offload="modules:core_attn")
    norms, rule = replace(plan, offload="modules:attn_norm"), "offload-modules-with-graphs"
    for graphed, one, refused in (
        ("attention", plan, False),
        ("router", plan, True),
        ("attention", norms, True),
    ):
        runtime = runtimes()["megatron-bridge"].with_traits(graphed=graphed)
        found = [fault.rule for fault in estimate(one, job, runtime).violations]
        assert found == ([rule] if refused else [])
    old = replace(runtimes()["megatron-lm"].with_traits(graphed="attention"), release="0.18")
    for modules, refused in (("core_attn", True), ("expert_fc1", False)):
        one = replace(plan, offload=f"modules:{modules}")
        assert (rule in [fault.rule for fault in estimate(one, job, old).violations]) == refused


def test_each_choice_of_modules_is_priced_by_itself() -> None:
    """One process prices many plans of one shape: what was remembered of a layer is that of its modules."""
    names = ("none", "modules:core_attn+attn_proj", "modules:expert_fc1", "modules:core_attn")
    job = Job(
        load_model("qwen3-30b-a3b"), load_hardware("dgx-h100"), 8, Workload(seq_len=4096, global_batch=64)
    )
    plan = Plan(dp=8.0, ep=8.0, zero=1, zero_shards=8.0, num_microbatches=8.0)
    held = [
        estimate(replace(plan, offload=name), job, runtimes()["megatron-lm"]).stages[0].activations
        for name in names
    ]
    assert len(set(held)) == len(held)


def test_a_search_keeps_inputs_of_modules_on_the_host_where_a_plan_fits_by_that() -> None:
    asked = ("deepseek-v3", "--hardware", "gb200-nvl72", "--gpus", "256", "--global-batch", "4096")
    fixed = ("--precision", "mxfp8", "--runtime", "megatron-bridge", "--tp", "2", "--pp", "2", "--vpp", "4")
    degrees = ("--cp", "1", "--ep", "64", "--micro-batch", "2", "--zero", "1", "--recompute", "none")
    found = planner("search", *asked, *fixed, *degrees, "--format", "json").json["plans"]
    assert found[0]["plan"]["offload"] == "modules:core_attn+attn_proj"
    kept = planner("search", *asked, *fixed, *degrees, "--offload", "none", "--format", "json")
    assert all(plan["plan"]["offload"] == "none" for plan in kept.json["plans"])


@every(
    ("text", "expected"),
    [
        ("modules", "modules joined by"),
        ("modules:core", "core_attn"),
        ("modules:core_attn+", "modules joined by"),
    ],
)
def test_other_modules_are_refused(text: str, expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        read_offload(OFFLOADS, text)


def test_modules_have_one_spelling() -> None:
    assert read_offload(OFFLOADS, "modules:attn_proj+core_attn").spelled == "modules:core_attn+attn_proj"


@every("runtime", ["megatron-lm", "megatron-bridge"])
def test_files_say_it_and_are_read_back(runtime: str, tmp_path: Path) -> None:
    asked = ("estimate", "llama3-8b", "--hardware", "dgx-h100", "--gpus", "8", "--runtime", runtime)
    offload = "modules:core_attn+attn_proj"
    planner(*asked, "--offload", offload, "--save", str(tmp_path / "plan.yaml"))
    planner("emit", str(tmp_path / "plan.yaml"), "--out", str(tmp_path / "out"))
    found = read_runner_file(tmp_path / "out" / "train.sh")
    assert (found.options["offload"], found.unknown) == (offload, ())
