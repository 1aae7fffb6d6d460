"""``planner simulate`` for a bare pipeline, as a user runs it."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.cases import every
from tests.cli.command import planner, planner_in

ONE_F_ONE_B = ("--schedule", "1f1b", "--pp", "4", "--microbatches", "8", "--pass-times", "1,1,1")


def test_json_of_the_contract(tmp_path: Path) -> None:
    done = planner_in(tmp_path, "simulate", *ONE_F_ONE_B, "--format", "json")
    assert (done.code, done.err) == (0, "")
    document = json.loads(done.out)
    assert list(document) == ["schema", "schedule", "makespan", "bubble", "longest_span", "stages"]
    assert document["schema"] == "planner/simulate/1"
    assert (document["schedule"], document["makespan"], document["bubble"]) == ("1f1b", 33.0, 9.0)
    assert document["longest_span"] == 33.0
    assert document["stages"][1] == {
        "stage": 1,
        "busy": 24.0,
        "forwards": 8,
        "backwards": 8,
        "weight_passes": 0,
        "peak_in_flight": 3,
        "peak_gib": None,
    }


def test_torch_spelling_and_default_chunks(tmp_path: Path) -> None:
    """ZB-V on eight ranks, as PyTorch's own list has it: makespan 103, sixteen chunks in flight."""
    done = planner_in(tmp_path, "simulate", "--schedule", "ZBVZeroBubble", "--pp", "8", "--microbatches",
        "16",        "--pass-times", "1,1,1,0", "--format", "json")  # fmt: skip
    document = json.loads(done.out)
    assert (document["schedule"], document["makespan"], document["bubble"]) == ("zb-v", 103.0, 7.0)
    assert {stage["peak_in_flight"] for stage in document["stages"]} == {16}
    assert {stage["weight_passes"] for stage in document["stages"]} == {32}


def test_table_picture_and_trace(tmp_path: Path) -> None:
    done = planner_in(tmp_path, "simulate", *ONE_F_ONE_B, "--ascii", "--trace", "step.json")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("1f1b: pp 4, vpp 1, 8 micro-batches. Makespan 33, bubble 9 (27.3%")
    assert max(map(len, done.out.splitlines())) <= 80
    assert "\n3 ......." in done.out
    events = json.loads((tmp_path / "step.json").read_text())["traceEvents"]
    assert sum(event["ph"] == "X" for event in events) == 4 * 8 * 2
    again = planner_in(tmp_path, "simulate", *ONE_F_ONE_B, "--trace", "step.json")
    assert again.code == 2
    assert "--force" in again.err


def test_csv_has_a_line_for_each_rank(tmp_path: Path) -> None:
    done = planner_in(tmp_path, "simulate", *ONE_F_ONE_B, "--format", "csv", "--ascii")
    rows = list(csv.DictReader(done.out.splitlines()))
    assert [row["peak_in_flight"] for row in rows] == ["4", "3", "2", "1"]
    assert "F forward" in done.err


def test_messages_may_occupy_their_senders(tmp_path: Path) -> None:
    command = ("--schedule", "gpipe", "--pp", "2", "--microbatches", "4", "--pass-times", "1,1,1,0.25")
    done = planner_in(tmp_path, "simulate", *command, "--sends-occupy", "--format", "json")
    assert json.loads(done.out)["makespan"] == 17.0


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    command = ("--schedule", "1f1c", "--pp", "0", "--microbatches", "many", "--pass-times", "1,-1,1")
    done = planner_in(tmp_path, "simulate", *command)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: 4 faults\n")
    assert "nearest: 1f1b" in done.err
    for option in ("--schedule", "--pp", "--microbatches", "--pass-times"):
        assert f"  {option}: found " in done.err


@every("text", ["1,1", "1,1,1,1,1", "a,b,c", "0,1,1", "1,1,nan", "1,1,inf", "1,1,-0.1", ""])
def test_pass_times_that_are_none(tmp_path: Path, text: str) -> None:
    command = ("--schedule", "1f1b", "--pp", "2", "--microbatches", "2", f"--pass-times={text}")
    done = planner_in(tmp_path, "simulate", *command)
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert "--pass-times: found" in done.err


def test_numbers_that_a_schedule_cannot_run(tmp_path: Path) -> None:
    command = ("--schedule", "dualpipe", "--pp", "3", "--microbatches", "5", "--pass-times", "1,1,1")
    done = planner_in(tmp_path, "simulate", *command, "--format", "json")
    assert done.code == 1
    document = json.loads(done.out)
    assert document["makespan"] is None
    assert len(document["violations"]) == 2
    assert "dualpipe needs an even number of ranks (pp), found pp 3" in done.err


def test_a_step_too_large_is_refused(tmp_path: Path) -> None:
    command = ("--schedule", "1f1b", "--pp", "4096", "--microbatches", "2000000", "--pass-times", "1,1,1")
    done = planner_in(tmp_path, "simulate", *command)
    assert done.code == 2
    assert "nearest: 162" in done.err


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plans") / "plan.yaml"
    done = planner(
        "estimate", "llama3-8b", "--hardware", "dgx-h100", "--gpus", "16", "--global-batch", "32",
        "--seq-len", "4096", "--tp", "2", "--pp", "4", "--sequence-parallel", "--recompute", "full",
        "--save", str(path),
    )  # fmt: skip
    assert done.code == 0, done.err
    return path


def test_a_plan_is_played_in_seconds(saved: Path, tmp_path: Path) -> None:
    trace = tmp_path / "step.json"
    done = planner("simulate", str(saved), "--format", "json", "--trace", str(trace))
    assert (done.code, done.err) == (0, "")
    document = done.json
    assert list(document) == ["schema", "schedule", "makespan", "bubble", "longest_span", "stages"]
    assert document["schedule"] == "1f1b"
    assert [stage["peak_in_flight"] for stage in document["stages"]] == [4, 3, 2, 1]
    assert all(1 < stage["peak_gib"] < 80 for stage in document["stages"])
    busiest = max(stage["busy"] for stage in document["stages"])
    assert document["bubble"] == pytest.approx(document["makespan"] - busiest)
    assert 0.1 < document["makespan"] < 10
    names = {event["name"] for event in json.loads(trace.read_text())["traceEvents"]}
    assert {"F0", "BW3", "memory", "optimizer", "data parallel"} <= names


def test_a_plan_is_told_to_people(saved: Path, tmp_path: Path) -> None:
    done = planner_in(tmp_path, "simulate", str(saved), "--ascii")
    assert done.code == 0
    assert max(map(len, done.out.splitlines())) <= 80
    assert "The estimate says" in done.out.replace("\n", " ")
    assert "peak GiB" in done.out
    assert "\n3 ." in done.out


def test_a_plan_says_its_own_pipeline(saved: Path) -> None:
    done = planner("simulate", str(saved), "--pp", "4", "--sends-occupy")
    assert (done.code, done.out) == (2, "")
    assert "--pp: found" in done.err
    assert "--sends-occupy: found" in done.err


def test_a_plan_that_does_not_fit_is_played_and_told(saved: Path, tmp_path: Path) -> None:
    small = tmp_path / "small.yaml"
    small.write_text(saved.read_text() + "memory_limit: 5 GiB\n")
    done = planner("simulate", str(small), "--format", "json")
    assert done.code == 1
    assert done.json["makespan"] > 0
    assert "does not fit" in done.err


def test_a_plan_that_breaks_a_rule_is_not_played(saved: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text(saved.read_text().replace("schedule: 1f1b", "schedule: interleaved-1f1b"))
    done = planner("simulate", str(broken), "--format", "json")
    assert done.code == 1
    assert (done.json["makespan"], done.json["stages"]) == (None, [])
    assert done.json["violations"]


@every("text", ["", "format: planner/plan/2", "- a list", "format: [planner"])
def test_a_file_that_is_no_plan(tmp_path: Path, text: str) -> None:
    (tmp_path / "p.yaml").write_text(text)
    for name in ("p.yaml", "missing.yaml"):
        done = planner("simulate", str(tmp_path / name))
        assert (done.code, done.out) == (2, "")
        assert name in done.err
        assert "internal error" not in done.err


MADE = ("--schedule", "synthesized", "--pp", "4", "--microbatches", "8", "--pass-times", "1,1,1")


def test_a_schedule_is_made(tmp_path: Path) -> None:
    """Within the memory of 1F1B, three slots more than the work: rank 0 waits for its first gradient."""
    done = planner_in(tmp_path, "simulate", *MADE, "--memory-limit", "4", "--format", "json")
    assert (done.code, done.err) == (0, "")
    document = json.loads(done.out)
    keys = ["schema", "schedule", "makespan", "bubble", "longest_span", "stages", "order", "optimality"]
    assert list(document) == keys
    assert (document["schema"], document["schedule"]) == ("planner/simulate/1", "synthesized")
    assert (document["makespan"], document["bubble"]) == (27.0, 3.0)
    assert max(stage["peak_in_flight"] for stage in document["stages"]) == 4
    known = document["optimality"]
    assert (known["objective"], known["incumbent"], known["memory_limit"]) == ("makespan", 27.0, 4.0)
    assert known["bound"] == pytest.approx(27.0)
    assert known["proved"] is True
    assert known["hand_made"]["value"] == 27.0
    assert known["gap"] == pytest.approx(0.0, abs=1e-6)
    assert [len(passes.split()) for passes in document["order"]] == [24] * 4
    assert document["order"][0].startswith("0F0 0F1 0F2 0F3 0B0 ")


def test_a_made_schedule_as_table_and_picture(tmp_path: Path) -> None:
    done = planner_in(tmp_path, "simulate", *MADE, "--memory-limit", "2", "--ascii", "--time-limit", "2")
    assert (done.code, done.err) == (0, "")
    assert max(map(len, done.out.splitlines())) <= 80
    text = " ".join(done.out.split())
    assert "No hand-made schedule keeps the limit." in text
    assert "no makespan is below" in text
    assert "\n3 ...." in done.out
    short = planner_in(tmp_path, "simulate", *MADE, "--format", "markdown")
    assert "| 0 | 0F0 " in short.out


def test_span_is_another_objective(tmp_path: Path) -> None:
    """With memory for it no rank idles between its first and its last pass, as with ZB-H2."""
    done = planner_in(tmp_path, "simulate", *MADE, "--objective", "span", "--format", "json")
    document = json.loads(done.out)
    assert (document["longest_span"], document["optimality"]["objective"]) == (24.0, "span")


def test_a_made_schedule_with_many_passes_stands_in_json(tmp_path: Path) -> None:
    command = ("--schedule", "synthesised", "--pp", "2", "--microbatches", "64", "--pass-times", "2,3,1")
    done = planner_in(tmp_path, "simulate", *command)
    assert "The order stands in --format json." in done.out


def test_no_order_within_the_limit(tmp_path: Path) -> None:
    command = (*MADE, "--vpp", "2", "--memory-limit", "1", "--format", "json")
    done = planner_in(tmp_path, "simulate", *command)
    assert done.code == 1
    assert "smallest limit with which any order runs is 2" in done.err
    document = json.loads(done.out)
    assert document["makespan"] is None
    assert "smallest limit" in document["violations"][0]


def test_faults_of_a_made_schedule_are_told_at_once(tmp_path: Path) -> None:
    command = (
        "--schedule", "synthesized", "--pp", "4", "--microbatches", "90000", "--pass-times", "1,1,1",
        "--memory-limit", "-1", "--kept-share", "2", "--objective", "spam", "--time-limit", "soon",
    )  # fmt: skip
    done = planner_in(tmp_path, "simulate", *command)
    assert (done.code, done.out) == (2, "")
    for option in ("--microbatches", "--memory-limit", "--kept-share", "--objective", "--time-limit"):
        assert f"{option}: found" in done.err
    assert "nearest: span" in done.err
    other = planner_in(tmp_path, "simulate", *ONE_F_ONE_B, "--memory-limit", "4")
    assert other.code == 2
    assert "no such option without --schedule synthesized" in other.err
    empty = planner_in(tmp_path, "simulate", "--schedule", "synthesized")
    assert empty.err.count("a bare pipeline has no default for it") == 3


def test_chunks_may_differ(tmp_path: Path) -> None:
    """One micro-batch: down, back, the first weight gradient, and the messages of the first chunk."""
    times = "1,2,5,0.5;3,2,1,9"
    command = ("--schedule", "synthesized", "--pp", "2", "--microbatches", "1", "--format", "json")
    done = planner_in(tmp_path, "simulate", *command, "--pass-times", times)
    document = json.loads(done.out)
    assert document["makespan"] == 1 + 0.5 + 3 + 2 + 0.5 + 2 + 5
    assert [stage["busy"] for stage in document["stages"]] == [8.0, 6.0]
    wrong = planner_in(tmp_path, "simulate", *command, "--pass-times", f"{times};1,1,1")
    assert wrong.code == 2
    assert "found those of 3 chunks; expected times of all chunks, or of each of 2" in wrong.err


@every("name", ["1f1b", "synthesized"])
def test_verbose_tells_what_is_played_on_standard_error_alone(name: str, tmp_path: Path) -> None:
    bare = [
        "--pp",
        "2",
        "--microbatches",
        "2",
        "--pass-times",
        "1,1,1",
        "--schedule",
        name,
        "--format",
        "csv",
    ]
    plain, told, quiet = (
        planner_in(tmp_path, "simulate", *bare, *more) for more in ([], ["-v"], ["-q", "-v"])
    )
    assert plain.out == told.out == quiet.out
    assert plain.err == quiet.err == ""
    assert ("playing 1f1b" if name == "1f1b" else "looking for an order, at most 20 s") in told.err
