"""Files that somebody broke or made to harm end in one message, and command no terminal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cases import every
from tests.cli.command import planner
from tests.helpers import ROOT, user_environment, wait_until_busy

SEARCH = ("search", "llama2-7b", "--hardware", "dgx-h100", "--gpus", "8", "--global-batch", "64")
NCCL = """# Rows and columns as nccl-tests prints them.
# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 5 iters: 20
#  Rank  0 Group  0 Pid   1 on a device  0 [0x00] NVIDIA H100
#  Rank  1 Group  0 Pid   2 on a device  1 [0x01] NVIDIA H100
#   size   count  type redop root  time  algbw  busbw #wrong  time  algbw  busbw #wrong
  1048576  262144 float   sum   -1 {time}  36.94  64.64      0  28.1   37.0  65.45      0
"""
IBSTAT = "CA 'mlx5_0'\n\tNumber of ports: 1\n\tPort 1:\n\t\tState: Active\n\t\tRate: {rate}\n"


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> str:
    done = planner(*SEARCH, "--format", "json", "--quiet")
    assert done.code == 0
    return done.out


@every(
    ("key", "value", "where"),
    [
        ("runtime", -8, "plans.0.runtime"),
        ("step_time_s", -5.0, "plans.0.step_time_s"),
        ("step_time_s", "fast", "plans.0.step_time_s"),
        ("plan", {"tp": "two"}, "plans.0.plan.tp"),
        ("memory", [], "plans.0.memory"),
    ],
)
def test_a_search_that_somebody_changed_is_not_drawn(
    tmp_path: Path, found: str, key: str, value: object, where: str
) -> None:
    document = json.loads(found)
    document["plans"][0][key] = value
    path = tmp_path / "search.json"
    path.write_text(json.dumps(document))
    done = planner("report", str(path), "--out", str(tmp_path / "out.html"))
    assert done.code == 2
    assert f"search.json: {where}: found" in done.err
    assert not (tmp_path / "out.html").exists()


def test_json_nested_without_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "deep.json"
    path.write_text('{"a":' * 50_000)
    done = planner("report", str(path), "--out", str(tmp_path / "out.html"))
    assert (done.code, "Traceback" in done.err) == (2, False)


@every("time", ["1e-320", "nan", "inf", "0"])
def test_a_log_with_an_odd_time_is_refused(tmp_path: Path, time: str) -> None:
    path = tmp_path / "all_reduce_perf.log"
    path.write_text(NCCL.format(time=time))
    done = planner("hardware", "import", str(path), "--base", "dgx-h100", "--out", str(tmp_path / "o.yaml"))
    assert (done.code, "internal" in done.err) == (2, False)


@every("rate", ["..", "4.0.0", "fast"])
def test_an_adapter_with_an_odd_rate_is_refused(tmp_path: Path, rate: str) -> None:
    path = tmp_path / "ibstat.txt"
    path.write_text(IBSTAT.format(rate=rate))
    done = planner("hardware", "import", str(path), "--base", "dgx-h100", "--out", str(tmp_path / "o.yaml"))
    assert "internal" not in done.err
    assert done.code == (0 if rate == "4.0.0" else 2)


def test_a_layer_of_a_billion_norms_is_refused(tmp_path: Path) -> None:
    known = planner("models", "show", "llama2-7b", "--format", "json")
    assert known.code == 0
    text = (ROOT / "models_zoo" / "llama2-7b.yaml").read_text()
    path = tmp_path / "model.yaml"
    path.write_text(text.replace("    ffn:", "    norms: 1000000000\n    ffn:", 1))
    done = planner("estimate", str(path), "--hardware", "dgx-h100", "--gpus", "8", "--global-batch", "8")
    assert done.code == 2
    assert "norms" in done.err


def test_a_trace_that_nothing_could_open_is_refused(tmp_path: Path) -> None:
    done = planner(
        "simulate", "--schedule", "2bp", "--pp", "3", "--microbatches", "100000",
        "--pass-times", "1,2,1", "--trace", str(tmp_path / "t.json"),
    )  # fmt: skip
    assert done.code == 2
    assert "--trace: found 900,000 passes; expected at most 100,000" in done.err
    assert list(tmp_path.iterdir()) == []


@every("more", [(), ("--ascii",), ("--format", "json")])
def test_pass_times_beyond_all_measure_are_refused(more: tuple[str, ...]) -> None:
    ask = (
        "simulate",
        "--schedule",
        "1f1b",
        "--pp",
        "2",
        "--microbatches",
        "4",
        "--pass-times",
        "1e308,1e308,1e308",
    )
    assert planner(*ask, *more).code == 2


@every("option", ["--save", "--emit"])
def test_a_name_that_no_file_can_have_is_refused(tmp_path: Path, option: str) -> None:
    done = planner(*SEARCH, option, str(tmp_path / ("x" * 300)), "--quiet")
    assert done.code == 2
    assert "too long" in done.err.lower()


def test_names_of_users_command_no_terminal_and_no_spreadsheet(tmp_path: Path) -> None:
    config = tmp_path / "planner.yaml"
    config.write_text('"\\e[31mX": 1\n')
    done = subprocess.run(
        [sys.executable, "-m", "planner", "hardware", "list"],
        cwd=tmp_path, env=user_environment(tmp_path), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "\x1b" not in done.stderr + done.stdout
    text = (ROOT / "models_zoo" / "llama2-7b.yaml").read_text()
    name = next(line for line in text.splitlines() if line.startswith("name:"))
    model = tmp_path / "model.yaml"
    model.write_text(text.replace(name, """name: "=cmd|'/C calc'!A0\"""", 1))
    ask = ("estimate", str(model), "--hardware", "dgx-h100", "--gpus", "8", "--global-batch", "8")
    done = planner(*ask, "--format", "csv", "--quiet")
    assert done.code == 0
    assert "'=cmd|" in done.out
    assert not any(cell.startswith("=") for line in done.out.splitlines() for cell in line.split(","))


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_a_termination_exits_with_143(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "planner",
            "search",
            "llama3-8b",
            "--hardware",
            "dgx-h100",
            "--gpus",
            "8..4096",
        ],
        cwd=tmp_path,
        env=user_environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until_busy(process)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (143, "", "terminated\n")


@pytest.mark.parametrize("text", ["[" * 1500, "? [a, b]\n: 1\n", "{" * 1500])
def test_a_grid_nested_without_end_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "grid.yaml"
    path.write_text(text)
    done = planner("sweep", str(path), "--out", str(tmp_path / "out.jsonl"))
    assert done.code == 2
    assert "grid.yaml" in done.err
