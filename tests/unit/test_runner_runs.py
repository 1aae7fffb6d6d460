"""What each runtime's files say of a run beside its plan, and what their smoke runs leave out."""

from __future__ import annotations

import json
import math
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from planner.inputs.numerics import Numerics
from planner.rules import violations
from planner.runtimes import runtimes
from planner.runtimes.family import Command
from planner.runtimes.script_run import LOOP
from planner.runtimes.training_run import FIELDS, TrainingRun, run_of
from planner.runtimes.variables import without_effect
from tests.cases import every
from tests.unit.runner_jobs import LATENT, MHA, WIDE_HEADS, job, plan

NAMES = ("torchtitan", "deepspeed", "fsdp", "nanotron")


def command(name: str, version: str | None = None, **axes: Any) -> Command:
    task = job(MHA, 8, seq_len=2048, global_batch=64)
    runtime = runtimes()[name]
    assert runtime.command is not None
    axes = {"zero": runtime.default_zero} | axes
    return runtime.command(plan(task, **axes), task, version or runtime.versions[0])


def run() -> TrainingRun:
    return run_of(job(MHA, 8, seq_len=2048, global_batch=64))


CASES = [(name, version) for name in NAMES for version in runtimes()[name].versions]


@every(("name", "version"), CASES)
def test_a_real_run_is_told_its_schedule_and_where_to_go_on(name: str, version: str) -> None:
    start = command(name, version)
    wanted = {"TRAIN_STEPS", "LEARNING_RATE", "WARMUP_STEPS", "SEED", "LOG_INTERVAL", "SAVE_INTERVAL"}
    assert wanted <= set(start.defaults)
    assert start.defaults["LEARNING_RATE"] == "0.0003"
    assert set(start.production_needs) == {"DATA_PATH", "TOKENIZER_PATH", "OUTPUT_DIR"}
    assert start.needs == ()
    assert not any("placeholder" in note for note in start.notes)
    assert any("goes on from the last checkpoint" in note for note in start.notes)


@every(("name", "version"), CASES)
def test_a_smoke_run_has_twenty_steps_and_asks_for_nothing(name: str, version: str) -> None:
    start = command(name, version)
    assert start.smoke is not None
    assert "20" in start.smoke
    assert start.step_line is not None
    assert not any("${" in part for part in (*start.program, *start.smoke, *start.closing))


@every(("name", "version"), CASES)
def test_a_variable_of_a_run_is_taken_or_has_a_reason(name: str, version: str) -> None:
    known = command(name, version).variables
    documented = {*FIELDS, "MINUTES", "TENSORBOARD_DIR", "WANDB_PROJECT", "DATA_CACHE"}
    assert documented - set(known) == set(without_effect(known))


def test_tensor_parallel_fsdp_writes_its_first_weights_to_the_users_folder() -> None:
    start = command("fsdp", tp=2)
    assert start.needs == ("OUTPUT_DIR",)
    assert start.smoke is not None
    assert start.smoke[-2:] == ("--output_dir", "${OUTPUT_DIR}")


def test_the_toml_has_the_whole_schedule() -> None:
    config = tomllib.loads((command("torchtitan", "0.2.2").files or {})["titan_plan.toml"])
    known = run()
    assert config["optimizer"]["lr"] == known.learning_rate
    rates = {"warmup_steps": known.warmup_steps, "decay_type": "cosine", "min_lr_factor": 0.1}
    assert config["lr_scheduler"] == pytest.approx(rates)
    assert config["comm"] == {"init_timeout_seconds": 600, "train_timeout_seconds": 600}


@every(("version", "seed"), [("0.2.0", "--training.seed"), ("0.2.2", "--debug.seed")])
def test_the_seed_is_where_the_release_looks_for_it(version: str, seed: str) -> None:
    start = command("torchtitan", version)
    assert seed in start.production
    assert ("DECAY_STEPS" in start.defaults) == (version == "0.2.2"), "total_steps came with 0.2.2"


def test_the_optimizer_of_deepspeed_is_that_of_the_run() -> None:
    config = json.loads((command("deepspeed").files or {})["ds_config.json"])
    wanted = {"lr": 3e-4, "betas": [0.9, 0.95], "weight_decay": 0.1}
    assert config["optimizer"]["params"] == wanted


def rate_at(step: int, **options: Any) -> float:
    """Return the rate of a step, by the function that the scripts are written with."""
    text = LOOP[LOOP.index("def rate_at") : LOOP.index("def over_ranks")]
    scope: dict[str, Any] = {"math": math}
    exec(compile(text, "loop", "exec"), scope)
    known = {"learning_rate": 1.0, "min_learning_rate": 0.1, "warmup_steps": 10, "decay_steps": 110}
    rate: float = scope["rate_at"](SimpleNamespace(**known, **options), step)
    return rate


def test_the_rate_rises_in_a_line_and_falls_in_a_cosine() -> None:
    """By hand: a tenth of the way up a step; half of the depth half of the way down; then the lowest."""
    assert [rate_at(step) for step in (1, 5, 10)] == pytest.approx([0.1, 0.5, 1.0])
    assert rate_at(60) == pytest.approx(0.55)
    assert [rate_at(step) for step in (110, 500)] == pytest.approx([0.1, 0.1])


def test_a_script_is_python_without_the_data_set_library_in_a_smoke_run(tmp_path: Path) -> None:
    for name in ("deepspeed", "fsdp"):
        text = (command(name).files or {})["train.py"]
        compile(text, name, "exec")
        top = [line for line in text.splitlines() if line.startswith(("import ", "from "))]
        assert not any("datasets" in line for line in top)


LLAMA = {
    "kind": "llama3", "factor": 8, "original_positions": 8192, "low_freq_factor": 1, "high_freq_factor": 4,
}  # fmt: skip


@every(("model", "refused"), [(MHA, False), (LATENT, False), (WIDE_HEADS, True)])
def test_torchtitan_stretches_llamas_positions_where_they_are_complex_alone(
    model: Any, refused: bool
) -> None:
    """Cosines and sines, as of Qwen3's code, do not stretch so (b5bcd76c, models/common/rope.py)."""
    own = Numerics.model_validate({"rope_theta": 5e5, "rope_scaling": LLAMA})
    task = job(model.model_copy(update={"numerics": own}), 8, seq_len=2048, global_batch=64)
    runtime = runtimes()["torchtitan"]
    found = [one.found for one in violations(runtime.rules(plan(task, zero=3), task))]
    assert any("numerics.rope_scaling llama3" in text for text in found) == refused
