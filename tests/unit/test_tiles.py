"""Feed-forwards and losses in tiles of a long sequence (ALST, arXiv:2506.13996): memory, time, rules, files.

Lengths that train and their settings stand in the authors' configurations (github.com/snowflakedb/
ArcticTraining, projects/sequence-parallelism, run-h100-*.yml): Llama 8B on eight H100, ZeRO-3, optimizer
states on the host, layers recomputed.
"""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path
from typing import Any

from planner.cost.estimate import Estimate, estimate
from planner.cost.settings import with_value
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.rules import violations
from planner.runtimes.deepspeed import ENTRY as DEEPSPEED
from planner.runtimes.deepspeed.tiles import COUNTS
from planner.runtimes.family import Job
from planner.techniques.settings import SETTINGS
from tests.cases import every
from tests.cli.command import planner
from tests.unit import runner_jobs as jobs

GIB = 2.0**30
CARD = load_hardware("dgx-h100").pool.accelerator.memory_usable / GIB
SHORT = {"loss_tiles": "1", "mlp_tiles": "1"}
LOSS = {"loss_tiles": "256", "mlp_tiles": "1"}
BOTH = {"loss_tiles": "256", "mlp_tiles": "256"}
ULYSSES = {"cp": 8.0, "cp_method": "all-to-all", "dp": 1.0}


def priced(tokens: int, settings: dict[str, str], **axes: Any) -> Estimate:
    """Price Llama 8B on eight H100 as the authors ran it."""
    plan = Plan(dp=8.0, zero=3, zero_shards=8.0, recompute="full", offload="optimizer")
    plan = replace(plan, **axes)
    work = Workload(seq_len=tokens, global_batch=int(plan.dp))
    job = Job(load_model("llama3.1-8b"), load_hardware("dgx-h100"), 8, work)
    runtime = DEEPSPEED
    for name, value in settings.items():
        runtime = with_value(runtime, name, value)
    return estimate(plan, job, runtime)


def peak(tokens: int, settings: dict[str, str], **axes: Any) -> float:
    answer = priced(tokens, settings, **axes)
    assert not answer.violations
    return float(answer.peak) / GIB


@every(
    ("tokens", "settings", "axes"),
    [
        (32_768, SHORT, {}),
        (1_099_776, LOSS, ULYSSES),
        (1_200_128, BOTH, ULYSSES),
    ],
    ids=["nothing", "tiled loss and Ulysses", "tiled feed-forwards too"],
)
def test_the_longest_sequence_of_alst_fits_and_one_twice_as_long_does_not(
    tokens: int, settings: dict[str, str], axes: dict[str, Any]
) -> None:
    """Sequences of 32 K, 1.1 M and 1.2 M tokens, rounded to whole tiles."""
    assert peak(tokens, settings, **axes) < CARD < peak(2 * tokens, settings, **axes)


def test_the_tiled_loss_alone_is_priced_too_high_by_an_eighth_of_the_card() -> None:
    """160 K tokens on each of eight H100 trained; priced they need 13% more than there is."""
    assert CARD < peak(160_000, LOSS) < 1.15 * CARD
    assert peak(160_000, SHORT) > 3 * CARD


def test_a_million_tokens_need_a_quarter_of_what_they_need_in_one_piece() -> None:
    whole, tiled = (peak(2**20, settings, **ULYSSES, offload="none") for settings in (SHORT, BOTH))
    assert whole > 240
    assert tiled < CARD


def test_more_tiles_need_less_until_what_all_share_is_left() -> None:
    needs = [peak(2**20, LOSS | {"mlp_tiles": str(tiles)}, **ULYSSES) for tiles in (1, 2, 8, 32, 256)]
    assert needs == sorted(needs, reverse=True)
    assert needs[-2] - needs[-1] < 0.05 * (needs[0] - needs[-1])


@every("recompute", ["none", "full"])
def test_tiles_run_forward_once_more_in_backward(recompute: str) -> None:
    """``TiledMLP``: forward twice, three times under recompute of layers."""
    whole, tiled = (
        priced(65_536, settings, recompute=recompute)
        for settings in (LOSS | {"mlp_tiles": "1"}, LOSS | {"mlp_tiles": "2"})
    )
    model = load_model("llama3.1-8b")
    products = 3 * 2 * 65_536 * model.hidden * 14336 * len(model.layers)
    spared = products / 3 if recompute == "full" else 0.0
    more = float(tiled.step) - float(whole.step)
    fastest, slowest = (products + spared) / 900e12, (products + spared) / 400e12
    assert fastest < more < slowest


@every(
    ("settings", "axes", "rule"),
    [
        (BOTH, {"zero": 0, "offload": "none"}, "mlp-tiles-zero"),
        (BOTH, {"tp": 2.0, "dp": 4.0}, "loss-tiles-alone"),
        (BOTH, {"pp": 2.0, "dp": 4.0, "zero": 1, "offload": "none"}, "mlp-tiles-alone"),
    ],
)
def test_what_the_script_does_not_tile_is_refused(
    settings: dict[str, str], axes: dict[str, Any], rule: str
) -> None:
    assert rule in {fault.rule for fault in priced(65_536, settings, **axes).violations}


def test_files_say_the_numbers_of_tiles_that_a_setting_has() -> None:
    known = {float(value) for value in SETTINGS["mlp_tiles"].values} - {1.0}
    assert known == set(COUNTS) == {float(value) for value in SETTINGS["loss_tiles"].values} - {1.0}


def test_tiles_are_alike() -> None:
    faults = {fault.rule for fault in priced(65_600, BOTH).violations}
    assert {"mlp-tiles-are-alike", "loss-tiles-are-alike"} <= faults


def test_a_tied_head_experts_compiled_layers_and_weights_gathered_for_each_tile_are_refused() -> None:
    tiled = DEEPSPEED.with_traits(loss_chunks=4.0, mlp_tiles=4.0)

    def broken(model: Any) -> set[str]:
        task = jobs.job(model, 8)
        return {fault.rule for fault in violations(tiled.rules(jobs.plan(task, zero=3), task))}

    assert broken(jobs.DENSE) == set()
    assert broken(jobs.TIED) == {"loss-tiles-untied"}
    assert broken(jobs.MOE) == {"mlp-tiles-architecture", "loss-tiles-architecture"}
    short = DEEPSPEED.with_traits(mlp_tiles=4.0, reuse_elements=1e8)
    task = jobs.job(jobs.DENSE, 8)
    faults = {fault.rule for fault in violations(short.rules(jobs.plan(task, zero=3), task))}
    assert faults == {"mlp-tiles-gathered-once"}
    assert not violations(short.rules(jobs.plan(task, zero=2), task))
    compiled = tiled.with_traits(compiled=True)
    faults = {fault.rule for fault in violations(compiled.rules(jobs.plan(task, zero=3), task))}
    assert faults == {"mlp-tiles-uncompiled", "loss-tiles-uncompiled"}


JOB = (
    "llama3-8b", "--hardware", "dgx-h100", "--gpus", "8", "--seq-len", "1Mi", "--global-batch", "2",
)  # fmt: skip
LAYOUT = ("--zero", "3", "--recompute", "full", "--cp", "8", "--cp-method", "a2a")
TILES = ("--set", "tiled_loss=64", "--set", "tiled_mlp=32")


def test_files_say_tiles_and_are_read_back_at_the_same_price(tmp_path: Path) -> None:
    saved, out = tmp_path / "plan.yaml", tmp_path / "out"
    done = planner(
        "estimate", *JOB, "--runtime", "deepspeed", *LAYOUT, *TILES, "--save", str(saved), "--format", "json"
    )
    assert planner("emit", str(saved), "--out", str(out)).code == 0
    script = (out / "train.py").read_text()
    ast.parse(script)
    assert "MLP_TILES = 32\nLOSS_TILES = 64\n" in script
    again = planner(
        "estimate", "--from", str(out / "ds_config.json"), "--hardware", "dgx-h100", "--gpus", "8",
        "--format", "json",
    )  # fmt: skip
    assert again.json["step_time_s"] == done.json["step_time_s"]
    assert again.json["memory"] == done.json["memory"]


def test_others_say_that_no_setting_of_theirs_tiles_a_feed_forward() -> None:
    job = ("llama3-8b", "--hardware", "dgx-h100", "--gpus", "8", "--tp", "8", "--runtime", "megatron-lm")
    done = planner("estimate", *job, "--set", "mlp_tiles=32")
    assert done.code == 2
    assert "32 with megatron-lm" in done.err
    assert "a runtime that has it: deepspeed" in done.err


def test_a_search_finds_the_tiles_without_which_nothing_fits() -> None:
    found = planner("search", *JOB, "--runtime", "deepspeed", "--format", "json").json
    best = found["plans"][0]
    assert best["settings"].keys() >= {"loss_tiles", "mlp_tiles"}
    short = planner("search", *JOB[:5], "--runtime", "deepspeed", "--format", "json").json
    assert "loss_tiles" not in short["plans"][0]["settings"]
