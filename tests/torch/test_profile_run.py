"""The whole way on a processor: measure, interrupt, go on, fit, load, and plan with the result."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from planner.inputs.load_hardware import load_hardware
from planner.profile.store import RawTable
from tests.helpers import hears_interrupts, run_planner, user_environment

pytestmark = pytest.mark.torch

PROGRAM = (sys.executable, "-m", "planner")
SHORT = ("profile", "--device", "cpu", "--minutes", "0.5", "--out", "mine.yaml")


TRIES = 8
"""A crowded processor may not reach the whole grid in half a minute: the same command goes on."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which this processor was measured, as often as it takes to reach the whole grid."""
    path = tmp_path_factory.mktemp("profile")
    for _ in range(TRIES):
        done = run_planner(*SHORT, "--format", "json", cwd=path, timeout=120)
        assert done.returncode == 0, done.stderr
        if not any("did not fit in the time" in note for note in json.loads(done.stdout)["notes"]):
            break
    (path / "answer.json").write_text(done.stdout, encoding="utf-8")
    (path / "told.txt").write_text(done.stderr, encoding="utf-8")
    return path


def test_the_answer_names_files_versions_and_errors(folder: Path) -> None:
    answer = json.loads((folder / "answer.json").read_text(encoding="utf-8"))
    assert answer["schema"] == "planner/profile/1"
    assert Path(answer["curves"]).is_file()
    assert {"date", "device", "torch"} <= set(answer["provenance"])
    curves = {fit["curve"]: fit for fit in answer["fits"]}
    assert {"gemm bf16", "attention bf16 64", "experts bf16", "memory_bound"} <= set(curves)
    assert all(0 <= fit["held_out_error"] < 5 for fit in curves.values())
    assert "100%" in (folder / "told.txt").read_text(encoding="utf-8") or answer["points"] > 50


def test_the_profile_loads_and_prices_a_plan(folder: Path) -> None:
    profile = load_hardware(str(folder / "mine.yaml"))
    assert profile.pool.accelerator.kernels.gemm["bf16"].rate > 1e8
    arguments = (
        "llama3-8b",
        "--hardware",
        "mine.yaml",
        "--gpus",
        "1",
        "--seq-len",
        "512",
        "--global-batch",
        "1",
    )
    done = run_planner("estimate", *arguments, "--runtime", "fsdp", "--format", "json", cwd=folder)
    assert done.returncode in (0, 1), done.stderr
    assert json.loads(done.stdout)["step_time_s"] > 1


def test_a_second_run_goes_on_and_measures_nothing_twice(folder: Path) -> None:
    before = [row["key"] for row in RawTable(folder / "mine.raw.jsonl", {}).rows]
    done = run_planner(*SHORT, cwd=folder, timeout=120)
    assert done.returncode == 0, done.stderr
    after = [row["key"] for row in RawTable(folder / "mine.raw.jsonl", {}).rows]
    assert after[: len(before)] == before
    assert len(after) == len(set(after))


def test_a_raw_table_of_another_torch_is_refused(folder: Path, tmp_path: Path) -> None:
    text = (folder / "mine.raw.jsonl").read_text(encoding="utf-8")
    torch = json.loads(text.splitlines()[0])["torch"]
    (tmp_path / "mine.raw.jsonl").write_text(text.replace(torch, "1.0.0", 1), encoding="utf-8")
    done = run_planner(*SHORT, cwd=tmp_path)
    assert done.returncode == 2
    assert f"torch was 1.0.0 and is {torch}" in done.stderr


def test_an_interrupt_keeps_what_was_measured(tmp_path: Path) -> None:
    environment = user_environment(tmp_path)
    command = (*PROGRAM, *SHORT, "--only", "gemm")
    process = subprocess.Popen(
        command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True, preexec_fn=hears_interrupts
    )
    raw = tmp_path / "mine.raw.jsonl"
    end = time.monotonic() + 60
    while time.monotonic() < end and not (raw.exists() and len(raw.read_text("utf-8").splitlines()) > 3):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "the same command goes on" in told
    assert "Traceback" not in told
    kept = len(RawTable(raw, {}).rows)
    assert kept >= 3
    done = run_planner(*SHORT, "--only", "gemm", cwd=tmp_path, timeout=120)
    assert done.returncode == 0, done.stderr
    assert len(RawTable(raw, {}).rows) > kept


def test_without_a_gpu_one_sentence_says_so(tmp_path: Path) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    done = run_planner("profile", "--device", "cuda", "--out", "mine.yaml", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "sees no GPU" in done.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_told(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o500)
    done = run_planner("profile", "--device", "cpu", "--out", "closed/mine.yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert "--out" in done.stderr


def test_a_full_disk_stops_with_one_message(tmp_path: Path) -> None:
    """The largest file that the process may write is 4 KiB."""
    done = subprocess.run(
        (*PROGRAM, *SHORT),
        cwd=tmp_path,
        env=user_environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)),
        check=False,
    )
    assert done.returncode == 1
    assert "error: cannot write to mine.raw.jsonl (File too large); the" in done.stderr
    assert "Traceback" not in done.stderr
    assert RawTable(tmp_path / "mine.raw.jsonl", {}).rows
