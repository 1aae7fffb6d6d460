"""The scripts that are written for DeepSpeed and for FSDP, really run: two ranks on processors, over gloo.

VALIDATE_PYTHON names an interpreter with torch, deepspeed, accelerate and transformers; `make validate` makes one.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from planner.inputs.model import ModelSpec
from planner.launchers import Card, launch_files, launchers, target
from planner.plan import Plan
from planner.runtimes import runtimes
from tests.unit.runner_jobs import job, model, plan
from tests.validate.ask import PYTHON, has

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(not has("deepspeed, accelerate"), reason="no interpreter with runners: make validate"),
]

GQA = {"kind": "attention", "heads": 4, "kv_heads": 2, "head_dim": 16}
TINY = model(
    "tiny", {"d": {"mixer": GQA, "ffn": {"kind": "dense", "inner": 128}}}, ["d"] * 4, hidden=64, vocab=512
)
STEP = re.compile(r"^step (\d+) loss ([0-9.]+) rate (\S+) seconds ([0-9.]+)$", re.MULTILINE)


def emitted(runtime: str, folder: Path, what: ModelSpec = TINY, **axes: Any) -> Plan:
    """Write the files of a plan on two ranks, two micro-batches of one sequence each where it has dp 2."""
    task = job(what, 2, seq_len=64, global_batch=4)
    layout = plan(task, **axes)
    wanted = target(runtimes()[runtime], launchers()["torchrun"])
    for name, text in launch_files(layout, task, wanted, Card()).items():
        (folder / name).write_text(text)
    return layout


def environment(**user: str) -> dict[str, str]:
    """Return an environment without a GPU in which `torchrun` is the runners' own."""
    own = {"PATH": f"{PYTHON.parent}:{os.environ['PATH']}", "HOME": os.environ.get("HOME", "/")}
    cpu = {"ACCELERATE_USE_CPU": "true", "DS_ACCELERATOR": "cpu", "CUDA_VISIBLE_DEVICES": ""}
    return own | cpu | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"} | user


def run(folder: Path, **user: str) -> str:
    """Start the folder's script and return what it printed."""
    done = subprocess.run(
        ["bash", str(folder / "train.sh")],
        env=environment(**user), capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


PLANS = [
    ("deepspeed", {"zero": 0}),
    ("deepspeed", {"zero": 1}),
    ("deepspeed", {"zero": 3, "recompute": "full"}),
    ("deepspeed", {"pp": 2, "zero": 0}),
    ("fsdp", {"zero": 0}),
    ("fsdp", {"zero": 2}),
    ("fsdp", {"zero": 3, "recompute": "full"}),
]


@pytest.mark.parametrize(("runtime", "axes"), PLANS, ids=str)
def test_a_smoke_run_needs_nothing_and_says_its_step_time(
    runtime: str, axes: dict[str, Any], tmp_path: Path
) -> None:
    emitted(runtime, tmp_path, **axes)
    before = set(tmp_path.iterdir())
    printed = run(tmp_path, SMOKE="1")
    steps = STEP.findall(printed)
    assert [int(number) for number, *_ in steps] == list(range(1, 21))
    said = re.search(r"planner mfu \S*plan.yaml --step-time ([0-9.]+)$", printed, re.MULTILINE)
    last = sorted(float(seconds) for *_, seconds in steps[-10:])
    assert said and float(said[1]) in last
    assert {path.name for path in set(tmp_path.iterdir()) - before} <= {"__pycache__"}
