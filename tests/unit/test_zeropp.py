"""ZeRO++ (G. Wang et al., arXiv:2306.10209): volumes, memory, measured pairs, numerics asked for, files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planner.cost.estimate import Estimate, estimate
from planner.cost.settings import with_value
from planner.formulas.zeropp import QUANTISED_GRADIENT, QUANTISED_WEIGHT, regathered_bytes, second_hop_bytes
from planner.inputs.hardware import HardwareProfile
from planner.inputs.load_hardware import load_hardware
from planner.inputs.model import ModelSpec
from planner.inputs.record import Sourced
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.runtimes.deepspeed import ENTRY as DEEPSPEED
from planner.runtimes.family import Job
from tests.cases import every
from tests.cli.command import planner
from tests.unit.runner_jobs import model

ALL = {"quantised_gathers": "true", "quantised_reductions": "true", "secondary_shards": "node"}
GIB = 2.0**30


def test_a_quarter_of_the_bytes_leave_a_node() -> None:
    """Table 1: 3 M become 0.75 M, for weights of M bytes in 16 bit."""
    size, ranks = 2e9, 16.0
    first = size * QUANTISED_WEIGHT / 2.0
    between = second_hop_bytes(size / 2.0 * QUANTISED_GRADIENT, ranks)
    assert regathered_bytes(first, 2.0) == first
    assert first + ranks * between == 0.25 * 3 * size


def gpt(layers: int, hidden: int) -> ModelSpec:
    heads = {"kind": "attention", "heads": hidden // 128, "kv_heads": hidden // 128, "head_dim": 128}
    block = {"d": {"mixer": heads, "ffn": {"kind": "dense", "inner": 4 * hidden, "gated": False}}}
    return model("gpt", block, ["d"] * layers, hidden=hidden, vocab=50304)


def cluster(rate: float) -> HardwareProfile:
    """Return nodes of sixteen V100 whose ports carry so much together. [byte/s]"""
    whole = load_hardware("dgx-2")
    node = whole.pool.node.model_copy(update={"nics": 1, "nic_rate": Sourced(rate)})
    return whole.model_copy(update={"pools": (whole.pool.model_copy(update={"node": node}),)})


def priced(what: ModelSpec, rate: float, tokens: int, gpus: int = 384, **settings: str) -> Estimate:
    work = Workload(seq_len=1024, global_batch=gpus * tokens // 1024, precision="fp16")
    plan = Plan(dp=float(gpus), zero=3, zero_shards=float(gpus), recompute="full", micro_batch=tokens / 1024)
    runtime = DEEPSPEED
    for name, value in settings.items():
        runtime = with_value(runtime, name, value)
    return estimate(plan, Job(what, cluster(rate), gpus, work), runtime)


@every(
    ("tokens", "layers", "hidden", "before", "after"),
    [
        (1024, 40, 6144, 25, 35),
        (1024, 62, 8192, 23, 36),
        (2048, 40, 6144, 40, 53),
        (2048, 62, 8192, 36, 51),
        (2048, 113, 8192, 36, 51),
    ],
)
def test_the_gain_on_384_v100_is_the_measured_one(
    tokens: int, layers: int, hidden: int, before: float, after: float
) -> None:
    """TFLOPS of DeepSpeed's post on ZeRO++, figure 6, with 400 Gb/s a node: the gain within a sixth."""
    what = gpt(layers, hidden)
    plain, fast = (priced(what, 50e9, tokens, **settings) for settings in ({}, ALL))
    gain = float(plain.step) / float(fast.step)
    assert after / before * 5 / 6 < gain < after / before * 7 / 6


def test_slower_networks_gain_more() -> None:
    """Figure 7, with 100 Gb/s a node: 14 to 31 TFLOPS."""
    what = gpt(40, 6144)
    gains = [
        float(priced(what, rate, 1024).step) / float(priced(what, rate, 1024, **ALL).step)
        for rate in (12.5e9, 50e9)
    ]
    assert gains[0] > 31 / 14 > gains[1]


def test_weights_in_eight_bits_are_half_of_what_is_gathered() -> None:
    """arXiv:2302.02390: FSDP's weights in 8 bit on the wire, with scales of their blocks; twice a pass."""
    what = gpt(40, 6144)
    plain, low = (
        float(priced(what, 12.5e9, 1024, **one).sent.dp) for one in ({}, {"quantised_gathers": "true"})
    )
    saved = 2 * (2.0 - QUANTISED_WEIGHT) * what.params * 383 / 384
    assert plain - low == pytest.approx(saved, rel=1e-3)
    assert pytest.approx(1.0, rel=0.01) == QUANTISED_WEIGHT


def test_each_part_is_worth_something_and_the_second_copy_takes_memory() -> None:
    what = gpt(40, 6144)
    plain = priced(what, 12.5e9, 1024)
    for name, value in ALL.items():
        assert priced(what, 12.5e9, 1024, **{name: value}).step < plain.step
    copied = priced(what, 12.5e9, 1024, secondary_shards="node")
    more = float(copied.stages[0].weights - plain.stages[0].weights)
    assert more == pytest.approx(2 * what.params / 16, rel=1e-3)


def test_in_one_node_there_is_no_second_copy() -> None:
    what = gpt(10, 6144)
    plain, copied = (priced(what, 50e9, 1024, 16, **one) for one in ({}, {"secondary_shards": "node"}))
    assert copied.step == pytest.approx(plain.step)
    assert copied.peak == plain.peak


JOB = ("llama3-8b", "--hardware", "dgx-h100", "--gpus", "32", "--seq-len", "4096", "--global-batch", "64")
LAYOUT = ("--runtime", "deepspeed", "--zero", "3", "--recompute", "full")
SET = ("--set", "qwz=true", "--set", "qgz=true", "--set", "hpz=node")


def test_files_say_it_and_are_read_back_at_the_same_price(tmp_path: Path) -> None:
    saved, out = tmp_path / "plan.yaml", tmp_path / "out"
    done = planner("estimate", *JOB, *LAYOUT, *SET, "--save", str(saved), "--format", "json")
    assert planner("emit", str(saved), "--out", str(out)).code == 0
    said = json.loads((out / "ds_config.json").read_text())["zero_optimization"]
    assert said["zero_quantized_weights"]
    assert said["zero_quantized_gradients"]
    assert said["zero_hpz_partition_size"] == 8
    again = planner(
        "estimate", "--from", str(out / "ds_config.json"), "--hardware", "dgx-h100", "--gpus", "32",
        "--format", "json",
    )  # fmt: skip
    assert again.json["settings"] == done.json["settings"]
    assert again.json["step_time_s"] == done.json["step_time_s"]
    assert again.json["memory"] == done.json["memory"]


def test_a_search_takes_what_changes_numerics_only_where_it_is_allowed() -> None:
    words = (*JOB, "--runtime", "deepspeed", "--zero", "3", "--format", "json")
    asked = planner("search", *words, "--allow", "quantised_gathers", "--allow", "quantised_reductions").json
    plain = planner("search", *words).json
    assert {plan["settings"]["quantised_gathers"] for plan in plain["plans"]} == {"false"}
    assert asked["plans"][0]["settings"].get("quantised_gathers") == "true"
    assert asked["plans"][0]["step_time_s"] < plain["plans"][0]["step_time_s"]


@every(
    ("axes", "rule"),
    [(("--tp", "2"), "zeropp-alone"), (("--offload", "weights"), "zeropp-weights-on-device")],
)
def test_what_deepspeed_has_not_is_refused(axes: tuple[str, ...], rule: str) -> None:
    done = planner("estimate", *JOB, *LAYOUT, *SET, *axes, "--format", "json")
    assert done.code == 1
    assert rule in {fault["rule"] for fault in done.json["violations"]}
