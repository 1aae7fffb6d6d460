"""The script that fills a user's run into nanotron's YAML, started with a stand-in for nanotron's own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from planner.runtimes import runtimes
from tests.unit.runner_jobs import MHA, job, plan

STAND_IN = """import shutil, sys
shutil.copy(sys.argv[sys.argv.index("--config-file") + 1], "resolved.yaml")
"""


SEEN = """import os, pathlib
pathlib.Path("seen").write_text(os.environ["HF_DATASETS_CACHE"])
"""


def resolved(folder: Path, *arguments: str, stand_in: str = STAND_IN, **user: str) -> dict[str, Any]:
    """Return the configuration that nanotron's script is started with."""
    task = job(MHA, 8, seq_len=2048, global_batch=8)
    nanotron = runtimes()["nanotron"]
    assert nanotron.command is not None
    command = nanotron.command(plan(task, zero=1), task, nanotron.versions[0])
    for name, text in (command.files or {}).items():
        (folder / name).write_text(text)
    (folder / "run_train.py").write_text(stand_in)
    start = [sys.executable, str(folder / "start.py"), *arguments]
    subprocess.run(start, env=os.environ | user, cwd=folder, check=True)
    found: dict[str, Any] = yaml.safe_load((folder / "resolved.yaml").read_text())
    return found


def told(folder: Path) -> dict[str, str]:
    return {"DATA_PATH": "data", "TOKENIZER_PATH": "words", "OUTPUT_DIR": str(folder / "out")}


def test_a_users_numbers_stand_in_place_of_the_plans(tmp_path: Path) -> None:
    numbers = {
        "LEARNING_RATE": "1e-3",
        "WARMUP_STEPS": "7",
        "DECAY_STEPS": "50",
        "SEED": "3",
        "TRAIN_STEPS": "60",
    }
    found = resolved(tmp_path, **told(tmp_path), **numbers, SAVE_INTERVAL="5")
    rates = found["optimizer"]["learning_rate_scheduler"]
    assert (rates["learning_rate"], rates["lr_warmup_steps"]) == (1e-3, 7)
    assert (rates["lr_decay_starting_step"], rates["lr_decay_steps"]) == (7, 43)
    assert (found["tokens"]["train_steps"], found["checkpoints"]["checkpoint_interval"]) == (60, 5)
    assert found["general"]["seed"] == found["data_stages"][0]["data"]["seed"] == 3


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("allenai/c4", "allenai/c4"),
        ("0.7 a 0.3 b", {"a": 0.7, "b": 0.3}),
        ("a b", {"a": 1.0, "b": 1.0}),
    ],
)
def test_a_blend_is_what_nanotron_mixes(given: str, wanted: object, tmp_path: Path) -> None:
    found = resolved(tmp_path, **(told(tmp_path) | {"DATA_PATH": given}))
    assert found["data_stages"][0]["data"]["dataset"]["hf_dataset_or_datasets"] == wanted


def test_it_goes_on_from_the_last_checkpoint(tmp_path: Path) -> None:
    assert "resume_checkpoint_path" not in resolved(tmp_path, **told(tmp_path))["checkpoints"]
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "latest.txt").write_text("10")
    found = resolved(tmp_path, **told(tmp_path))["checkpoints"]
    assert found["resume_checkpoint_path"] == found["checkpoints_path"] == str(tmp_path / "out")


def test_a_smoke_run_needs_no_data_and_saves_nothing(tmp_path: Path) -> None:
    found = resolved(tmp_path, "--smoke", "20")
    assert found["data_stages"][0]["data"]["dataset"] is None
    assert found["tokens"]["train_steps"] == 20 < found["checkpoints"]["checkpoint_interval"]
    assert found["checkpoints"]["save_final_state"] is False


def test_the_datasets_library_keeps_its_files_where_the_user_says(tmp_path: Path) -> None:
    """Read when nanotron imports it: the stand-in for nanotron's program sees the variable."""
    found = resolved(tmp_path, **told(tmp_path), DATA_CACHE="/cache", stand_in=STAND_IN + SEEN)
    assert found["checkpoints"]["checkpoints_path"] == str(tmp_path / "out")
    assert (tmp_path / "seen").read_text() == "/cache"
