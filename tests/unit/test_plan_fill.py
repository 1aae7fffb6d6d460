"""Frozen components in the idle time of a plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.runtimes import runtimes
from planner.runtimes.family import Job
from planner.simulate.plan import play_plan
from planner.simulate.plan_fill import encoder_component, filled_plan, without_encoder
from tests.cli.command import planner

BRIDGE = runtimes()["megatron-bridge"]
PIPED = Plan(pp=4.0, dp=4.0, zero=1, zero_shards=4.0, micro_batch=1.0, num_microbatches=8.0)
FLAT = Plan(dp=16.0, zero=1, zero_shards=16.0, micro_batch=1.0, num_microbatches=2.0)


def job(images: int = 8) -> Job:
    work = Workload(seq_len=4096, global_batch=32, images=images, freeze_encoder=True)
    return Job(load_model("qwen2.5-vl-7b"), load_hardware("dgx-h100"), 16, work)


def test_an_encoder_in_idle_time_is_between_no_encoder_and_one_on_the_first_stage() -> None:
    """DiffusionPipe's bounds: never longer than frozen parts first, never shorter than the rest alone."""
    asked = job()
    placed = play_plan(PIPED, asked, BRIDGE)
    alone = play_plan(PIPED, *without_encoder(PIPED, asked, BRIDGE))
    component = encoder_component(PIPED, asked, BRIDGE)
    assert len(component) == 32
    busy = placed.record.stages[0].busy - alone.record.stages[0].busy
    assert sum(component) == pytest.approx(busy, rel=1e-6)
    filled = filled_plan(alone, (component,), 8)
    assert filled.makespan == pytest.approx(alone.record.makespan)
    assert filled.least_step <= filled.step <= filled.unfilled_step
    assert filled.step < placed.record.makespan
    assert filled.step == pytest.approx(alone.record.makespan)
    assert filled.unfilled_step == pytest.approx(alone.record.makespan + sum(component) / 4)


def test_without_bubbles_nothing_is_gained() -> None:
    asked = job()
    alone = play_plan(FLAT, *without_encoder(FLAT, asked, BRIDGE))
    filled = filled_plan(alone, (encoder_component(FLAT, asked, BRIDGE),), 2)
    assert filled.step == pytest.approx(filled.unfilled_step)
    assert filled.step == pytest.approx(play_plan(FLAT, asked, BRIDGE).record.makespan, rel=1e-6)


def test_the_command_fills_a_saved_plan(tmp_path: Path) -> None:
    file, plain = tmp_path / "plan.yaml", tmp_path / "plain.yaml"
    said = (
        "--hardware", "dgx-h100", "--gpus", "16", "--seq-len", "4096", "--global-batch", "32", "--runtime",
        "megatron-bridge", "--pp", "4",
    )  # fmt: skip
    frozen = ("--images", "8", "--freeze-encoder")
    assert planner("estimate", "qwen2.5-vl-7b", *said, *frozen, "--save", str(file)).code == 0
    assert planner("estimate", "qwen2.5-7b", *said, "--save", str(plain)).code == 0
    bare = planner("simulate", str(file), "--format", "json").json
    told = planner("simulate", str(file), "--fill", "encoder", "--format", "json").json
    assert told["fill"]["step"] < told["makespan"] == bare["makespan"]
    both = planner("simulate", str(file), "--fill", "encoder", "--fill", "0.1,0.1", "--format", "json").json
    assert both["fill"]["frozen"] == pytest.approx(told["fill"]["frozen"] + 0.2)
    times = planner("simulate", str(plain), "--fill", "0.01", "--fill-parts", "4", "--format", "json").json
    assert times["fill"]["step"] == pytest.approx(times["makespan"])
    refused = planner("simulate", str(plain), "--fill", "encoder")
    assert (refused.code, "no encoder that is left as it is" in refused.err) == (2, True)
    many = planner("simulate", str(file), "--fill", "encoder", "--fill-parts", "100000")
    assert (many.code, "200,000 parts" in many.err) == (2, True)
