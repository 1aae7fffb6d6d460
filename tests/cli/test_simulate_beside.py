"""``planner simulate``: copies to the host, and frozen layers in idle time."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.command import planner

BARE = ("simulate", "--pp", "4", "--microbatches", "8", "--pass-times", "1,1,1")


def test_frozen_layers_in_json_and_in_a_trace(tmp_path: Path) -> None:
    """1F1B has 9 idle on each of 4 ranks: 60 of frozen layers in small pieces end after (96 + 60) / 4."""
    file = tmp_path / "step.json"
    layers = ",".join(["0.5"] * 60)
    done = planner(
        *BARE,
        "--schedule",
        "1f1b",
        "--fill",
        layers,
        "--fill",
        layers,
        "--format",
        "json",
        "--trace",
        str(file),
    )
    assert (done.code, done.err) == (0, "")
    assert (done.json["makespan"], done.json["bubble"]) == (33.0, 9.0)
    told = done.json["fill"]
    assert list(told) == [
        "makespan", "frozen", "filled", "step", "unfilled_step", "least_step", "idle_share",
    ]  # fmt: skip
    assert (told["frozen"], told["unfilled_step"], told["least_step"]) == (60.0, 48.0, 39.0)
    assert 39.0 <= told["step"] < 39.5
    events = json.loads(file.read_text())["traceEvents"]
    assert sum(event.get("cat") == "frozen" for event in events) == 120 * 8


def test_frozen_layers_for_people() -> None:
    done = planner(*BARE, "--schedule", "1f1b", "--fill", "12", "--fill-parts", "12")
    assert done.code == 0
    assert "Step 33: the pipeline alone has 33, frozen layers first 36" in done.out.replace("\n", " ")


def test_copies_in_json_and_in_a_trace(tmp_path: Path) -> None:
    file = tmp_path / "step.json"
    options = ("--vpp", "2", "--schedule", "po-h", "--copy-time", "1", "--trace", str(file))
    done = planner(*BARE, *options, "--format", "json")
    assert done.code == 0
    told = done.json["offload"]
    assert told["copy_time"] == 1.0
    assert [stage["copies"] for stage in told["stages"]] == [8, 8, 8, 8]
    assert all(stage["busy"] == 16.0 for stage in told["stages"])
    for stage, passes in zip(told["stages"], done.json["stages"], strict=True):
        assert stage["peak_on_device"] < passes["peak_in_flight"] + 1
    events = json.loads(file.read_text())["traceEvents"]
    assert sum(event.get("cat") == "copy" for event in events) == 4 * 16


def test_copies_for_people() -> None:
    done = planner(*BARE, "--vpp", "2", "--schedule", "PipeOffload")
    assert done.code == 0
    assert "takes no time at all (--copy-time)" in done.out.replace("\n", " ")
    assert "peak on host" in done.out


def test_what_cannot_be_is_told() -> None:
    done = planner(*BARE, "--schedule", "1f1b", "--fill", "1,0", "--fill-parts", "0", "--copy-time", "-1")
    assert (done.code, done.out) == (2, "")
    for option in ("--fill", "--fill-parts", "--copy-time"):
        assert f"  {option}: found " in done.err
    done = planner(*BARE, "--schedule", "1f1b", "--copy-time", "1")
    assert done.code == 2
    assert "such as po-h" in done.err
    done = planner(*BARE, "--schedule", "1f1b", "--fill-parts", "4")
    assert (done.code, "parts of what" in done.err) == (2, True)
    done = planner(*BARE, "--schedule", "1f1b", "--fill", "1,1", "--fill-parts", "1000000")
    assert (done.code, "nearest: 100000" in done.err) == (2, True)


def test_a_plan_takes_no_copies(tmp_path: Path) -> None:
    done = planner("simulate", str(tmp_path / "p.yaml"), "--fill", "0,1", "--copy-time", "1")
    assert done.code == 2
    assert "--fill: found" in done.err
    assert "--copy-time: found" in done.err
