"""GPT-OSS on torchtitan: what its model takes, what it costs, and its files read back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planner.cost.case import case_of
from planner.cost.estimate import estimate
from planner.cost.layer.blocks import block_operators
from planner.cost.layer.operators import Pricer
from planner.cost.legal import all_rules
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.model import ModelSpec
from planner.inputs.workload import Workload
from planner.launchers import Card, Target, launch_files, launchers
from planner.plan import Plan
from planner.rules import violations
from planner.runtimes import runtimes
from planner.runtimes.family import Job
from tests.cases import every
from tests.cli.command import planner

TITAN = runtimes()["torchtitan"]
PLAN = Plan(
    dp=64.0, ep=8.0, zero=3, zero_shards=64.0, micro_batch=1.0, num_microbatches=4.0, recompute="full",
    cp_method="all-gather",
)  # fmt: skip


def job(model: ModelSpec | None = None, **work: Any) -> Job:
    fields = {"seq_len": 4096, "global_batch": 256} | work
    return Job(model or load_model("gpt-oss-20b"), load_hardware("dgx-h100"), 64, Workload(**fields))


def broken(asked: Job, plan: Plan = PLAN, release: str = "") -> set[str]:
    runtime = replace(TITAN, release=release)
    return {one.rule for one in violations(all_rules(plan, case_of(plan, asked, runtime)))}


@every("name", ["gpt-oss-20b", "gpt-oss-120b"])
def test_files_are_read_back_as_priced(tmp_path: Path, name: str) -> None:
    asked = job(load_model(name))
    files = launch_files(PLAN, asked, Target(TITAN, launchers()["torchrun"], TITAN.versions[0]), Card())
    for file, text in files.items():
        (tmp_path / file).write_text(text, "utf-8")
    told = planner(
        "estimate", "--from", str(tmp_path / "train.sh"), "--hardware", "dgx-h100", "--format", "json"
    )
    assert told.code in (0, 1), told.err
    assert told.json["step_time_s"] == pytest.approx(float(estimate(PLAN, asked, TITAN).step), rel=1e-6)
    assert told.json["model"]["name"] == name


def changed(**fields: Any) -> ModelSpec:
    model = load_model("gpt-oss-20b")
    blocks = {}
    for name, block in model.blocks.items():
        mixer = block.attention
        assert mixer is not None
        blocks[name] = block.model_copy(update={"mixer": mixer.model_copy(update=fields)})
    return model.model_copy(update={"blocks": blocks})


def told(**numbers: Any) -> ModelSpec:
    model = load_model("gpt-oss-20b")
    return model.model_copy(update={"numerics": model.numerics.model_copy(update=numbers)})


@every(
    ("asked", "plan", "rule"),
    [
        (job(changed(output_bias=False)), PLAN, "model-in-torchtitan"),
        (job(changed(sinks=False)), PLAN, "model-in-torchtitan"),
        (job(changed(qk_norm="head")), PLAN, "model-in-torchtitan"),
        (job(told(activation="silu")), PLAN, "model-in-torchtitan"),
        (job(told(activation=None)), PLAN, "model-in-torchtitan"),
        (job(precision="fp8"), PLAN, "sinking-in-16-bit"),
        (job(), replace(PLAN, cp=2.0, dp=32.0), "sinks-see-whole-sequences"),
    ],
)
def test_what_its_model_has_not_is_refused(asked: Job, plan: Plan, rule: str) -> None:
    assert not broken(job())
    assert rule in broken(asked, plan)


def test_older_releases_have_no_such_model() -> None:
    assert "release-has-sinks" in broken(job(), release="0.2.2")


def test_sinks_keep_attention_s_result_twice() -> None:
    model = load_model("gpt-oss-20b")
    pricer = Pricer(case_of(PLAN, job(), TITAN), PLAN)
    found = {one.name: one for one in block_operators(pricer, model.blocks[model.layers[0]])}
    assert float(found["sinks"].saved) == 2 * 4096 * 64 * 64
    other = Pricer(case_of(PLAN, job(), runtimes()["megatron-lm"]), PLAN)
    assert "sinks" not in {one.name for one in block_operators(other, model.blocks[model.layers[0]])}
