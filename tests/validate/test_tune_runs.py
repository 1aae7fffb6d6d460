"""`planner tune --run` with a real training: DeepSpeed on two processors over gloo, killed and resumed.

VALIDATE_PYTHON names an interpreter with torch and deepspeed; `make validate-full` makes one.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from planner.cli.tune import LOG, MISSED, ROWS, SITE, STATE
from planner.inputs.load_hardware import load_hardware
from planner.plan import Plan
from planner.report.layout import layout
from planner.report.plan_file import read_plan_file
from tests.helpers import ROOT, run_planner
from tests.validate.test_first_screen_runs import CONFIG
from tests.validate.test_own_scripts import LIMIT, STEP, environment
from tests.validate.test_own_scripts import pytestmark as pytestmark

JOB = (
    "config.json", "--hardware", "dgx-h100", "--gpus", "2", "--seq-len", "64", "--global-batch", "4",
    "--runtime", "deepspeed", "--cp", "1",
)  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    done = run_planner("search", *JOB, "--save", "plan.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return tmp_path


def start(folder: Path) -> subprocess.Popen[bytes]:
    """Start a tuning of two plans in a session of its own, its words in a file."""
    env = environment(folder, read_plan_file(folder / "plan.yaml").plan, "deepspeed", PYTHONPATH=str(ROOT))
    env |= {name: value for name, value in os.environ.items() if name == "TORCH_EXTENSIONS_DIR"}
    with (folder / "words").open("wb") as words:
        return subprocess.Popen(
            [sys.executable, "-m", "planner", "tune", "plan.yaml", "--run", "--top", "2", "--out", "tuned"],
            cwd=folder, env=env, stdout=words, stderr=subprocess.STDOUT,
        )  # fmt: skip


def trials(folder: Path) -> list[dict[str, Any]]:
    return list(json.loads((folder / "tuned" / STATE).read_text(encoding="utf-8"))["trials"])


def until(folder: Path, part: str, word: str) -> None:
    """Wait until a trial's unfinished log has a word."""
    for _ in range(LIMIT):
        log = folder / "tuned" / part / f"{LOG}.part"
        if log.is_file() and word in log.read_text(encoding="utf-8"):
            return
        time.sleep(1)
    raise AssertionError((folder / "words").read_text(encoding="utf-8")[-3000:])


def test_a_tuning_that_was_killed_resumes_where_it_was(folder: Path) -> None:
    process = start(folder)
    while not (folder / "tuned" / STATE).is_file():
        time.sleep(0.2)
    first, second = (one["folder"] for one in trials(folder))
    until(folder, second, "\nstep 2 ")
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert [one["state"] for one in trials(folder)] == ["measured", "to run"]
    kept = (folder / "tuned" / first / LOG).read_text(encoding="utf-8")
    assert len(STEP.findall(kept)) == 20
    assert start(folder).wait(LIMIT) == 0
    words = (folder / "words").read_text(encoding="utf-8")
    assert f"running tuned/{first}" not in words
    assert f"running tuned/{second}" in words
    assert (folder / "tuned" / first / LOG).read_text(encoding="utf-8") == kept
    done = trials(folder)
    assert [one["state"] for one in done] == ["measured", "measured"]
    assert all(one["elsewhere"] and one["measured_s"] > 0 for one in done)
    assert "ran on CPUs" in words
    assert "%" not in words[words.rindex("#  plan") :]


PROCESSORS = """\
name: two-processors
pools:
  - accelerator:
      name: a-processor
      vendor: unknown
      arch: processor
      memory: 8 GiB
      memory_visible: 8 GiB
      memory_bandwidth: 20 GB/s
      peak: {bf16: 0.05 TFLOP/s}
      template: true
    node:
      name: two
      accelerators: 2
      scaleup:
        name: memory
        link: memory
        topology: host
        domain: 2
        bandwidth: 5 GB/s
        pair_bandwidth: 5 GB/s
        efficiency: '1'
        latency: 100 us
"""
"""Rough numbers of a processor's core: what is measured on it is what the tuning is for."""


def test_a_tuning_on_the_processors_it_is_for_calibrates_and_ranks_again(tmp_path: Path) -> None:
    """The trials are of the cluster itself, so that their times count: a real run from end to end."""
    (tmp_path / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    (tmp_path / "two.yaml").write_text(PROCESSORS, encoding="utf-8")
    job = ("config.json", "--hardware", "two.yaml", "--gpus", "2", "--seq-len", "256", "--global-batch", "16")
    done = run_planner(
        "search", *job, "--runtime", "deepspeed", "--cp", "1", "--save", "plan.yaml", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert start(tmp_path).wait(LIMIT) == 0
    done_trials, words = trials(tmp_path), (tmp_path / "words").read_text(encoding="utf-8")
    assert [(one["state"], one["elsewhere"]) for one in done_trials] == [("measured", False)] * 2
    page = words[words.rindex("#  plan") :]
    best = min(done_trials, key=lambda one: one["measured_s"])
    assert f"Fastest: {best['plan']}." in page
    rows = (tmp_path / "tuned" / ROWS).read_text(encoding="utf-8").splitlines()
    assert len(rows) == 3
    fitted = load_hardware(str(tmp_path / "tuned" / SITE)).pool.calibration
    assert fitted is not None
    assert fitted.runs == 2
    assert fitted.missed is not None
    told = run_planner("tune", "plan.yaml", "--out", "tuned", "--format", "json", cwd=tmp_path)
    again = {plan_name(one["plan"]): one["step_time_s"] for one in json.loads(told.stdout)["ranked_again"]}
    if fitted.missed > MISSED:
        assert "Not ranked again" in page
        assert not again
        return
    assert "Ranked again, calibrated by these runs" in page
    for one in done_trials:
        off = abs(again.get(one["plan"], one["measured_s"]) / one["measured_s"] - 1)
        assert off <= abs(one["estimated_s"] / one["measured_s"] - 1) + 0.01


def plan_name(axes: dict[str, Any]) -> str:
    return layout(Plan(**{**axes, "stage_layers": tuple(axes["stage_layers"] or ()) or None}))
