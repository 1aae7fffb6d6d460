"""Sweeps on Ray: the same answers as in processes, on a Ray that is started for them and on one that runs."""

from __future__ import annotations

import itertools
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from planner.errors import CheckFailed
from planner.sweep.executors import ExecutorSettings, executors
from planner.sweep.row import FAILED, FITS
from tests.helpers import user_environment
from tests.unit.sweep_rows import badly

pytestmark = [pytest.mark.ray, pytest.mark.filterwarnings("ignore")]

GRID = """\
models: llama3-8b
hardware: [dgx-h100, dgx-a100-80gb]
gpus: [8, 16]
pp: 1
zero: 1
precision: [bf16, fp8]
"""
OPEN = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}


def sweep(folder: Path, *arguments: str) -> tuple[int, Any, str]:
    """Run a sweep as a user does; return its exit code, its cases without times, and its messages."""
    done = subprocess.run(
        [sys.executable, "-m", "planner", "sweep", "grid.yaml", *arguments, "--json"],
        cwd=folder,
        env=user_environment(folder) | OPEN,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    cases = json.loads(done.stdout)["cases"] if done.stdout else None
    for case in cases or ():
        del case["elapsed_s"]
    return done.returncode, cases, done.stderr


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "grid.yaml").write_text(GRID, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def in_processes(grid: Path) -> Any:
    code, cases, _ = sweep(grid, "--jobs", "2", "--out", "local.jsonl")
    assert code == 0
    assert [case["status"] for case in cases].count("refused") == 2
    return cases


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """Start a Ray cluster of two cores, and give its address."""
    port = free_port()
    words = f"start --head --port={port} --num-cpus=2 --include-dashboard=false --node-ip-address=127.0.0.1"
    process = subprocess.Popen(
        [Path(sys.executable).with_name("ray"), *words.split(), "--block"],
        env=user_environment(tmp_path) | OPEN,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    told = list(itertools.takewhile(lambda line: "--block" not in line, process.stdout))
    assert process.poll() is None, "".join(told)
    yield f"127.0.0.1:{port}"
    process.terminate()
    process.communicate(timeout=60)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def test_a_ray_that_is_started_here_says_what_processes_say(grid: Path, in_processes: Any) -> None:
    code, cases, told = sweep(grid, "--executor", "ray", "--jobs", "2", "--out", "ray.jsonl")
    assert (code, told) == (0, "")
    assert cases == in_processes
    code, again, told = sweep(grid, "--executor", "ray", "--jobs", "2", "--out", "ray.jsonl")
    assert (code, again) == (0, in_processes)
    assert "8 of 8 cases are in ray.jsonl and are skipped" in told


def test_a_ray_that_runs_is_joined_by_its_address(grid: Path, in_processes: Any, cluster: str) -> None:
    code, cases, told = sweep(grid, "--ray", cluster, "--out", "joined.jsonl")
    assert (code, told) == (0, "")
    assert cases == in_processes


def test_an_address_where_nobody_listens_is_told_soon(grid: Path) -> None:
    started = time.monotonic()
    code, cases, told = sweep(grid, "--ray", "127.0.0.1:1", "--out", "nobody.jsonl")
    assert (code, cases) == (2, None)
    assert "error: --ray: found 127.0.0.1:1; expected a running Ray cluster" in told
    assert time.monotonic() - started < 60


def test_a_task_that_dies_or_raises_has_failed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in OPEN.items():
        monkeypatch.setenv(name, value)
    work: Any = [(request, request) for request in ("slow", "kill", "a", "raise", "b")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    found = dict(executors()["ray"].run(work, badly, ExecutorSettings(2)))
    assert {key: outcome.status for key, outcome in found.items()} == {
        "slow": FITS, "kill": FAILED, "a": FITS, "raise": FAILED, "b": FITS,
    }  # fmt: skip
    assert "no such thing" in str(found["raise"].reason)


def test_a_cluster_with_another_planner_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    from planner.sweep.executors.ray import check_version

    for name, value in OPEN.items():
        monkeypatch.setenv(name, value)
    ray.init(num_cpus=1, include_dashboard=False, address="local", log_to_driver=False)
    try:
        with pytest.raises(CheckFailed, match=r"this machine 0\.0\.1; install the same"):
            check_version(ray, "0.0.1")
    finally:
        ray.shutdown()
