"""Megatron-LM's and Megatron-Bridge's files for a whole run and for a smoke run, as they start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from planner.launchers import Card, Target, launch_files, launchers
from planner.runtimes import runtimes
from planner.runtimes.training_run import run_of
from tests.cases import every
from tests.unit.test_launchers import recorded, run, stand_in
from tests.unit.test_megatron_bridge import config  # noqa: F401
from tests.validate.megatron import cases

PLAN = cases.plan(16, 64, tp=2.0, sequence_parallel=True)
SPEAKS = """#!/bin/bash
printf '%s\\0' "$@" > "{folder}/torchrun.argv"
for step in 9000 1200 1100 1300; do
  echo " iteration 1/ 20 | elapsed time per iteration (ms): $step.0 | learning rate: 1E-4"
done
"""


def job(**work: Any) -> Any:
    return cases.job("llama3-8b", 16, **({"seq_len": 2048, "global_batch": 64, "tokens": 1e9} | work))


def started(folder: Path, version: str = "0.20", **user: str) -> tuple[dict[str, list[str]], str]:
    """Return the flags that a script starts Megatron-LM with, and what it prints."""
    runtime = runtimes()["megatron-lm"]
    files = launch_files(PLAN, job(), Target(runtime, launchers()["torchrun"], version), Card())
    for name, text in files.items():
        (folder / name).write_text(text)
    programs = folder / "programs"
    programs.mkdir()
    stand_in(programs, "torchrun", SPEAKS.format(folder=programs))
    done = run(folder / "train.sh", programs, MASTER_ADDR="first", **user)
    assert done.returncode == 0, done.stderr
    found: dict[str, list[str]] = {}
    words = recorded(programs, "torchrun")
    for word in words[words.index("pretrain_gpt.py") + 1 :]:
        if word.startswith("--"):
            last = found.setdefault(word, [])
        else:
            last.append(word)
    return found, done.stdout


REAL = {"DATA_PATH": "0.7 /d/a 0.3 /d/b", "TOKENIZER_PATH": "/t", "OUTPUT_DIR": "/o"}


def test_a_real_run_has_all_that_a_training_needs(tmp_path: Path) -> None:
    found, _ = started(tmp_path, **REAL, MINUTES="230", WANDB_PROJECT="w", TENSORBOARD_DIR="/tb")
    whole = run_of(job())
    # 1e9 tokens in steps of 64 · 2048: 7,630 of them; a tenth of these are fewer than 2,000.
    assert (found["--train-iters"], found["--lr-warmup-iters"]) == (["7630"], ["763"])
    assert found["--lr-decay-iters"] == ["7630"]
    assert (float(found["--lr"][0]), float(found["--min-lr"][0])) == (whole.learning_rate, 3e-5)
    assert found["--data-path"] == ["0.7", "/d/a", "0.3", "/d/b"]
    assert found["--data-cache-path"] == ["/o/cache"]
    assert found["--save"] == found["--load"] == ["/o/checkpoints"]
    assert found["--eval-interval"] == found["--save-interval"] == ["1000"]
    assert (found["--eval-iters"], found["--log-interval"], found["--seed"]) == (["10"], ["1"], ["1234"])
    assert (found["--distributed-timeout-minutes"], found["--ckpt-format"]) == (["10"], ["torch_dist"])
    assert (found["--exit-signal-handler"], found["--exit-duration-in-mins"]) == ([], ["230"])
    assert (found["--tensorboard-dir"], found["--wandb-project"]) == (["/tb"], ["w"])
    assert found["--wandb-exp-name"][0].startswith("llama3-8b-")
    assert "--async-save" not in found  # its buffers are not priced


def test_a_user_sets_the_schedule(tmp_path: Path) -> None:
    found, _ = started(tmp_path, **REAL, TRAIN_STEPS="500", LEARNING_RATE="0.001", SEED="7")
    assert (found["--train-iters"], found["--lr"], found["--seed"]) == (["500"], ["0.001"], ["7"])
    assert not {"--tensorboard-dir", "--wandb-project", "--exit-duration-in-mins"} & set(found)


def test_a_smoke_run_differs_in_data_checkpoints_and_steps_alone(tmp_path: Path) -> None:
    for kind in ("real", "smoke"):
        (tmp_path / kind).mkdir()
    real, _ = started(tmp_path / "real", **REAL)
    smoke, printed = started(tmp_path / "smoke", SMOKE="1")
    apart = {
        "--train-iters", "--eval-iters", "--log-interval", "--tokenizer-type", "--tokenizer-model",
        "--data-path", "--data-cache-path", "--save", "--load", "--save-interval", "--exit-signal-handler",
        "--mock-data",
    }  # fmt: skip
    assert {name: value for name, value in real.items() if name not in apart} == {
        name: value for name, value in smoke.items() if name not in apart
    }
    assert (smoke["--train-iters"], smoke["--eval-iters"]) == (["20"], ["0"])
    assert (smoke["--tokenizer-type"], smoke["--mock-data"]) == (["NullTokenizer"], [])
    assert not {"--save", "--load", "--data-path"} & set(smoke)
    assert "--step-time 1.2" in printed  # the middle one of 9, 1.2, 1.1 and 1.3 s, the lower where it is even


@every(("version", "words"), [("0.17", ["128256", "128255"]), ("0.18", ["128256"])])
def test_the_null_tokenizer_has_no_token_beyond_the_table(
    version: str, words: list[str], tmp_path: Path
) -> None:
    """Before 0.18 its end of a document is the token behind the last: here 128,256 of a table as large."""
    assert started(tmp_path, version, SMOKE="1")[0]["--vocab-size"] == words


def test_bridge_has_the_same_numbers(config: Any, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    for name, value in (REAL | {"MINUTES": "230", "SEED": "7", "WANDB_PROJECT": "w"}).items():
        monkeypatch.setenv(name, value)
    found = config(PLAN, job())
    assert (found.train.train_iters, found.train.exit_duration_in_mins) == (7630, 230)
    assert found.train.exit_signal_handler
    assert (found.scheduler.lr_warmup_iters, found.scheduler.lr_decay_iters) == (763, 7630)
    assert (found.optimizer.lr, found.optimizer.min_lr) == (3e-4, 3e-5)
    assert (found.validation.eval_iters, found.validation.eval_interval) == (10, 1000)
    assert found.dataset.data_path == ["0.7", "/d/a", "0.3", "/d/b"]
    assert (found.dataset.random_seed, found.rng.seed) == (7, 7)
    assert (found.logger.wandb_project, found.logger.tensorboard_dir) == ("w", None)
    assert (found.dist.distributed_timeout_minutes, found.checkpoint.ckpt_format) == (10, "torch_dist")
    assert found.checkpoint.save == found.checkpoint.load == "/o/checkpoints"


@every("smoke", ["", "1"])
@every("method", ["full", "lora"])
def test_the_file_of_bridge_says_what_is_missing(smoke: str, method: str, tmp_path: Path) -> None:
    """Adapters need the weights they are trained beside in a smoke run too; nothing else does."""
    runtime = runtimes()["megatron-bridge"]
    files = launch_files(PLAN, job(method=method), Target(runtime, launchers()["torchrun"], "0.7"), Card())
    text = files["train.py"].split("import torch\n")[0] + "\nfrom types import SimpleNamespace\n"
    whole = files["train.py"]
    body = whole[whole.index("SMOKE = ") : whole.index("def build_config")] + whole[whole.index("def main") :]
    (tmp_path / "head.py").write_text(text + body)
    done = subprocess.run(
        [sys.executable, "head.py"],
        cwd=tmp_path,
        env={"SMOKE": smoke},
        capture_output=True,
        text=True,
        check=False,
    )
    wanted = "CHECKPOINT" if method == "lora" else "" if smoke else "DATA_PATH"
    assert (f"Set the variable {wanted} before" in done.stderr) is bool(wanted), done.stderr


@every("name", ["megatron-lm", "megatron-bridge"])
@every("launcher", ["torchrun", "slurm"])
def test_scripts_are_whole_shell_text(name: str, launcher: str, tmp_path: Path) -> None:
    runtime = runtimes()[name]
    files = launch_files(PLAN, job(), Target(runtime, launchers()[launcher], runtime.versions[0]), Card())
    path = tmp_path / next(iter(files))
    path.write_text(files[path.name])
    assert subprocess.run(["bash", "-n", str(path)], check=False).returncode == 0
