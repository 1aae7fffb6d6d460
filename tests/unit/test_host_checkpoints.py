"""Inputs of recomputed layers in host memory beside tiles (ALST, arXiv:2506.13996).

Lengths that train and their settings stand in the authors' configurations (github.com/snowflakedb/
ArcticTraining, projects/sequence-parallelism, run-h100-*.yml), which `tests.unit.test_tiles` prices without.
"""

from __future__ import annotations

import ast
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planner.cost.estimate import Estimate, estimate
from planner.cost.settings import with_value
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.runtimes.deepspeed import ENTRY as DEEPSPEED
from planner.runtimes.family import Job
from tests.cases import every
from tests.cli.command import planner

GIB = 2.0**30
CARD = load_hardware("dgx-h100").pool.accelerator.memory_usable / GIB
TILES = {"loss_tiles": "256", "mlp_tiles": "256"}
HOST = TILES | {"host_checkpoints": "true"}
FUSED = {"fused_norm": True, "fused_activation": True, "fused_rope": True}
"""The kernels of the authors' models, which the planner's script does not have."""


def priced(
    tokens: int, settings: dict[str, str], gpus: int = 8, model: str = "llama3.1-8b", **traits: Any
) -> Estimate:
    """Price a model as the authors ran it: ZeRO-3, states on the host, one sequence over all ranks."""
    plan = Plan(
        cp=float(gpus), cp_method="all-to-all", zero=3, zero_shards=float(gpus), recompute="full",
        offload="optimizer",
    )  # fmt: skip
    job = Job(load_model(model), load_hardware("dgx-h100"), gpus, Workload(seq_len=tokens, global_batch=1))
    runtime = DEEPSPEED.with_traits(**traits)
    for name, value in settings.items():
        runtime = with_value(runtime, name, value)
    return estimate(plan, job, runtime)


def peak(*which: Any, **how: Any) -> float:
    answer = priced(*which, **how)
    assert not answer.violations
    return float(answer.peak) / GIB


@every(
    ("gpus", "trained", "next_one"),
    [(8, 3_700_736, 4_401_152), (32, 15_007_744, 16_007_168)],
    ids=["one node", "four nodes"],
)
def test_the_longest_context_of_alst_fits_and_the_next_one_does_not(
    gpus: int, trained: int, next_one: int
) -> None:
    """3.7 M tokens on eight H100 and 15 M on 32, rounded to whole tiles; 19 and 7% more do not.

    The script's kernels are plain ones, with which the longest is priced 0.5 GiB above the card.
    """
    longest = peak(trained, HOST, gpus=gpus)
    assert longest < CARD or longest - CARD == pytest.approx(0.47, abs=0.02)
    assert peak(trained, HOST, gpus=gpus, **FUSED) < CARD < peak(next_one, HOST, gpus=gpus)


def test_without_tiled_feed_forwards_two_thirds_as_many_tokens_fit() -> None:
    """2.4 M tokens, with the fused kernels of the authors' model; 3.0 M do not."""
    whole = HOST | {"mlp_tiles": "1"}
    assert peak(2_400_256, whole, **FUSED) < CARD < peak(3_000_320, whole, **FUSED)


def test_the_limit_without_is_priced_a_quarter_too_high_and_not_for_checkpoints() -> None:
    """1.2 M tokens trained and no more.

    All that a rank needs of 3.7 M tokens without their checkpoints is at most a card; as much for 1.2 M, and
    their checkpoints, leave a seventh of it free, by the authors' own rows.
    """
    short, long = priced(1_200_128, TILES), priced(3_700_736, HOST)
    checkpoints = 32 * 2 * 4096 * 1_200_128 / 8
    beside = CARD * GIB * 1_200_128 / 3_700_736
    assert float(short.peak) < 0.86 * CARD * GIB
    assert beside + checkpoints < 0.85 * CARD * GIB
    assert float(long.peak) < CARD * GIB


def test_inputs_of_all_layers_but_two_are_gone() -> None:
    """((100_000 * 4096) * 2 * 32 / 2**30) GB for each rank, says the authors' code.

    What the last norm keeps, four times as wide as an input, no longer counts as there beside a layer.
    """
    kept, gone = (peak(800_768, settings) for settings in (TILES, HOST))
    layer = 800_768 / 8 * 4096 * 2 / GIB
    assert 30 * layer < kept - gone < 1.1 * (30 + 4) * layer


def test_copies_up_are_waited_for_and_copies_down_hide_behind_a_long_forward() -> None:
    kept, gone = priced(800_768, TILES), priced(800_768, HOST)
    link = load_hardware("dgx-h100").pool.accelerator.host_link
    copy = 30 * 800_768 / 8 * 4096 * 2 / float(link or 0)
    assert float(gone.step) - float(kept.step) == pytest.approx(copy, rel=1e-6)


def test_a_node_must_hold_the_inputs_beside_the_states() -> None:
    """Four million tokens of a 70B on four nodes are at the brink of the host's memory (authors' comment)."""

    def broken(tokens: int) -> set[str]:
        return {fault.rule for fault in priced(tokens, HOST, gpus=32, model="llama3-70b").violations}

    assert "host-holds-checkpoints" not in broken(4_005_888)
    assert "host-holds-checkpoints" in broken(4_505_600)


def test_key_value_heads_are_copied_where_there_are_more_ranks() -> None:
    """Eight heads of keys and values over 32 ranks: each rank has one, four have the same."""
    few, many = priced(65_536, TILES, gpus=8), priced(131_072, TILES, gpus=16)
    assert not few.violations
    assert not many.violations
    assert float(many.sent.cp) / float(few.sent.cp) == pytest.approx((15 / 16) / (7 / 8) * 3 / 2.5, rel=1e-6)


@every(
    ("axes", "rule"),
    [
        ({"pp": 2.0, "zero": 1, "zero_shards": 4.0, "dp": 4.0, "cp": 1.0}, "host-checkpoints-unpiped"),
        ({}, ""),
    ],
)
def test_what_the_script_cannot_do_is_refused(axes: dict[str, Any], rule: str) -> None:
    plan = Plan(cp=8.0, cp_method="all-to-all", zero=3, zero_shards=8.0, recompute="full")
    job = Job(
        load_model("llama3.1-8b"),
        load_hardware("dgx-h100"),
        8,
        Workload(seq_len=65_536, global_batch=int(axes.get("dp", 1))),
    )
    runtime = with_value(DEEPSPEED, "host_checkpoints", "true")
    faults = {fault.rule for fault in estimate(replace(plan, **axes), job, runtime).violations}
    assert {name for name in faults if name.startswith("host-")} == ({rule} if rule else set())


MEASURED = [
    ("llama3-70b", 32, 4_005_888, 47.70),
    ("llama3-70b", 64, 10_010_624, 53.83),
    ("qwen3-32b", 32, 7_004_160, 71.55),
    ("qwen3-32b", 64, 15_007_744, 71.00),
]


@every(("model", "gpus", "tokens", "gigabytes"), MEASURED)
def test_memory_in_use_is_what_the_authors_saw(model: str, gpus: int, tokens: int, gigabytes: float) -> None:
    """GB by nvidia-smi in comments of the authors' configurations, with the kernels of their models."""
    answer = priced(tokens, HOST, gpus=gpus, model=model, **FUSED)
    assert float(answer.peak) / 1e9 == pytest.approx(gigabytes, rel=0.1)


@every(
    ("tokens", "settings", "fused", "gigabytes", "within"),
    [
        (65_000, {}, False, 137.36, 0.1),
        (300_032, {"loss_tiles": "64"}, True, 134.96, 0.15),
        (650_240, {"loss_tiles": "64", "host_checkpoints": "true"}, True, 126.81, 0.15),
        (1_200_128, HOST, True, 136.15, 0.05),
    ],
    ids=["nothing", "tiled loss", "inputs on the host", "tiled feed-forwards"],
)
def test_memory_on_one_h200_with_weights_on_the_host(
    tokens: int, settings: dict[str, str], fused: bool, gigabytes: float, within: float
) -> None:
    """run-h200-sp1-llama-8b-*.yml, weights and states on the host."""
    plan = Plan(zero=3, recompute="full", offload="weights")
    job = Job(
        load_model("llama3.1-8b"), load_hardware("dgx-h200"), 1, Workload(seq_len=tokens, global_batch=1)
    )
    runtime = DEEPSPEED.with_traits(**(FUSED if fused else {}))
    for name, value in settings.items():
        runtime = with_value(runtime, name, value)
    assert float(estimate(plan, job, runtime).peak) / 1e9 == pytest.approx(gigabytes, rel=within)


JOB = (
    "llama3-8b", "--hardware", "dgx-h100", "--gpus", "8", "--seq-len", "2Mi", "--global-batch", "1",
    "--runtime", "deepspeed",
)  # fmt: skip
LAYOUT = ("--zero", "3", "--recompute", "full", "--cp", "8", "--cp-method", "a2a", "--offload", "optimizer")
SET = ("--set", "loss_tiles=256", "--set", "mlp_tiles=256", "--set", "cpu_checkpointing=true")


def test_files_say_it_and_are_read_back_at_the_same_price(tmp_path: Path) -> None:
    saved, out = tmp_path / "plan.yaml", tmp_path / "out"
    done = planner("estimate", *JOB, *LAYOUT, *SET, "--save", str(saved), "--format", "json")
    assert planner("emit", str(saved), "--out", str(out)).code == 0
    said = json.loads((out / "ds_config.json").read_text())
    assert said["activation_checkpointing"] == {"cpu_checkpointing": True}
    ast.parse((out / "train.py").read_text())
    again = planner(
        "estimate", "--from", str(out / "ds_config.json"), "--hardware", "dgx-h100", "--gpus", "8",
        "--format", "json",
    )  # fmt: skip
    assert again.json["settings"]["host_checkpoints"] == "true"
    assert again.json["step_time_s"] == done.json["step_time_s"]
    assert again.json["memory"] == done.json["memory"]


def test_a_search_puts_inputs_on_the_host_where_nothing_fits_without() -> None:
    found = planner("search", *JOB, "--format", "json").json
    best = found["plans"][0]
    assert best["settings"]["host_checkpoints"] == "true"
    assert best["plan"]["recompute"] == "full"
