"""Plans tried in turn: each once, whatever stops in between, and ranked by what they took."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from planner.cli.tune import LOG, SITE, STATE
from tests.cli.command import planner

JOB = (
    "llama3.2-1b", "--hardware", "dgx-h100", "--gpus", "2", "--seq-len", "8192", "--global-batch", "8",
    "--micro-batch", "1", "--quiet",
)  # fmt: skip
STUB = """\
#!/bin/bash
echo start >> "$CALLS"
case "$*" in *--micro-batch-size*) ;; *) exit 1 ;; esac
[[ -n "$DIES" && $(wc -l < "$CALLS") == "$DIES" ]] && { echo "$WORDS"; exit 1; }
for step in 1 2 3 4 5 6; do
  now=$(echo "$MILLISECONDS" | cut -d' ' -f"$(wc -l < "$CALLS")")
  echo " iteration $step/ 20 | elapsed time per iteration (ms): $now | lm loss: 1.0 |"
done
"""


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a saved plan, where torchrun prints what a run would and counts its calls."""
    stub = tmp_path / "bin" / "torchrun"
    stub.parent.mkdir()
    stub.write_text(STUB, encoding="utf-8")
    stub.chmod(0o755)
    values = {"CALLS": str(tmp_path / "calls"), "DIES": "", "WORDS": "", "MILLISECONDS": "900 900"}
    for name, value in (values | {"PATH": f"{stub.parent}:{os.environ['PATH']}"}).items():
        monkeypatch.setenv(name, value)
    saved = tmp_path / "plan.yaml"
    assert planner("estimate", *JOB, "--save", str(saved)).code == 0
    return saved


def tune(plan: Path, *more: str, code: int = 0) -> dict[str, Any]:
    done = planner(
        "tune", str(plan), "--out", str(plan.parent / "tuned"), "--top", "2", *more, "--format", "json"
    )
    assert done.code == code, done.err
    return dict(json.loads(done.out))


def calls(plan: Path) -> int:
    path = plan.parent / "calls"
    return len(path.read_text(encoding="utf-8").splitlines()) if path.is_file() else 0


def test_scripts_are_written_and_nothing_runs(plan: Path) -> None:
    told = tune(plan, "--dry-run")
    assert [one["state"] for one in told["trials"]] == ["to run", "to run"]
    assert told["ranked_again"] == []
    for one in told["trials"]:
        script = plan.parent / "tuned" / one["folder"] / "train.sh"
        assert "export SMOKE=${SMOKE-1}" in script.read_text(encoding="utf-8")
    assert calls(plan) == 0


def test_each_plan_is_run_once_and_the_cluster_calibrated(
    plan: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each takes a fifth longer than its estimate."""
    slow = [1.2 * one["estimated_s"] for one in tune(plan, "--dry-run")["trials"]]
    monkeypatch.setenv("MILLISECONDS", " ".join(f"{1000 * seconds:.4f}" for seconds in slow))
    told = tune(plan, "--run")
    assert [one["state"] for one in told["trials"]] == ["measured", "measured"]
    assert [one["measured_s"] for one in told["trials"]] == pytest.approx(slow, rel=1e-5)
    assert calls(plan) == 2
    again = [one["step_time_s"] for one in told["ranked_again"]]
    assert again == sorted(again)
    words = [word if word != "dgx-h100" else str(plan.parent / "tuned" / SITE) for word in JOB]
    after = json.loads(planner("estimate", *words, "--format", "json").out)["step_time_s"]
    assert abs(after / slow[0] - 1) < 0.1
    page = planner("tune", str(plan), "--out", str(plan.parent / "tuned"), "--run")
    assert calls(plan) == 2
    assert "Fastest: " in page.out
    assert "Ranked again, calibrated by these runs" in page.out
    assert "running" not in page.err


def test_a_tuning_that_was_stopped_goes_on(plan: Path) -> None:
    """The first plan's log was written by hand, and the second's run was killed before its end."""
    first, second = (one["folder"] for one in tune(plan, "--dry-run")["trials"])
    out = plan.parent / "tuned"
    line = " iteration 1/ 20 | elapsed time per iteration (ms): 700 | lm loss: 1.0 |\n"
    (out / first / LOG).write_text(line, encoding="utf-8")
    (out / second / f"{LOG}.part").write_text(line, encoding="utf-8")
    told = tune(plan, "--run")
    assert [one["measured_s"] for one in told["trials"]] == [pytest.approx(0.7), pytest.approx(0.9)]
    assert calls(plan) == 1


def test_times_of_processors_are_not_held_against_an_accelerator(plan: Path) -> None:
    out = plan.parent / "tuned"
    for one in tune(plan, "--dry-run")["trials"]:
        lines = "".join(f"step {number} loss 6.1 rate 1e-4 seconds 9.5\n" for number in range(1, 7))
        (out / one["folder"] / LOG).write_text(lines + "devices: cpu\n", encoding="utf-8")
    told = tune(plan)
    assert [one["measured_s"] for one in told["trials"]] == [9.5, 9.5]
    assert [one["elsewhere"] for one in told["trials"]] == [True, True]
    assert told["ranked_again"] == []
    assert not (out / SITE).exists()
    page = planner("tune", str(plan), "--out", str(out)).out
    assert "ran on CPUs" in page
    assert "Fastest" not in page
    assert "%" not in page


def test_a_trial_far_from_its_estimate_is_told_in_times(plan: Path) -> None:
    first = tune(plan, "--dry-run")["trials"][0]
    seconds = 27.1 * first["estimated_s"]
    line = f" iteration 1/ 20 | elapsed time per iteration (ms): {1000 * seconds:.4f} | lm loss: 1.0 |\n"
    (plan.parent / "tuned" / first["folder"] / LOG).write_text(line, encoding="utf-8")
    page = " ".join(planner("tune", str(plan), "--out", str(plan.parent / "tuned")).out.split())
    assert " 27x " in page
    assert "Not ranked again: calibrated by these runs, prices still miss them by" in page
    assert tune(plan)["ranked_again"] == []


@pytest.mark.parametrize(
    ("words", "state"), [("torch.OutOfMemoryError: CUDA out of memory.", "out of memory"), ("boom", "failed")]
)
def test_a_run_that_dies_does_not_stop_the_next(
    plan: Path, monkeypatch: pytest.MonkeyPatch, words: str, state: str
) -> None:
    monkeypatch.setenv("DIES", "1")
    monkeypatch.setenv("WORDS", words)
    told = tune(plan, "--run", code=1)
    assert [one["state"] for one in told["trials"]] == [state, "measured"]


def test_another_job_and_another_launcher_are_refused(plan: Path) -> None:
    tune(plan, "--dry-run")
    other = plan.parent / "other.yaml"
    words = [word if word != "8" else "16" for word in JOB]
    assert planner("estimate", *words, "--save", str(other)).code == 0
    done = planner("tune", str(other), "--out", str(plan.parent / "tuned"))
    assert (done.code, "of another job" in done.err) == (2, True)
    done = planner("tune", str(plan), "--run", "--launcher", "slurm")
    assert (done.code, "--launcher torchrun" in done.err) == (2, True)
    (plan.parent / "tuned" / STATE).write_text("{", encoding="utf-8")
    done = planner("tune", str(plan), "--out", str(plan.parent / "tuned"))
    assert (done.code, "--force starts anew" in done.err) == (2, True)
