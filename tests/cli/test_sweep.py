"""``planner sweep`` as a user runs it: results, formats, resuming after a kill, and what goes wrong."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import Done, once, planner
from tests.helpers import ROOT, hears_interrupts, user_environment
from tests.swept_here import swept_here

GRID = """\
models: llama3-8b
hardware: [dgx-h100, dgx-a100-80gb]
gpus: [8, 16]
global_batch: 128
tp: 1
pp: 1
cp: 1
zero: 1
micro_batch: 1
recompute: none
tokens: 100B
"""
SLOW = GRID.replace("recompute: none", "seq_len: [1024, 4096]")
BIG = """\
models: llama3-70b
hardware: dgx-h100
gpus: [8, 32]
method: [full, lora]
runtime: fsdp
offload: none
zero: 3
seq_len: 4096
micro_batch: 1
recompute: full
tokens: 100B
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "grid.yaml").write_text(GRID, encoding="utf-8")
    return tmp_path


@pytest.fixture
def here(folder: Path) -> Iterator[Path]:
    """The same, where searches need no processes of their own."""
    with swept_here():
        yield folder


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def without_times(document: Any) -> Any:
    """Return a sweep's cases without how long they took."""
    return [
        {name: value for name, value in case.items() if name != "elapsed_s"} for case in document["cases"]
    ]


def test_two_processes_say_what_one_says_and_what_a_search_alone_says(folder: Path) -> None:
    with swept_here():
        one = planner("sweep", "grid.yaml", "--jobs", "1", "--out", "one.jsonl", "--json")
    two = planner("sweep", "grid.yaml", "--jobs", "2", "--out", "two.jsonl", "--format", "json")
    assert (one.code, two.code, one.err, two.err) == (0, 0, "", "")
    assert without_times(one.json) == without_times(two.json)
    places = [(case["case"]["hardware"], case["case"]["gpus"]) for case in two.json["cases"]]
    assert places == [("dgx-h100", "8"), ("dgx-h100", "16"), ("dgx-a100-80gb", "8"), ("dgx-a100-80gb", "16")]
    words = "--gpus 16 --global-batch 128 --tp 1 --pp 1 --cp 1 --zero 1 --micro-batch 1 --recompute none"
    alone = once(
        *("search", "llama3-8b", "--hardware", "dgx-a100-80gb", *words.split()),
        *("--tokens", "100B", "--format", "csv"),
    )
    (row,) = [row for row in csv.DictReader(io.StringIO(alone.out)) if row["row"] == "plan"][:1]
    best = two.json["cases"][3]["best"]
    assert {name: "" if value is None else str(value) for name, value in best.items()} == {
        name: row[name] for name in best
    }
    assert set(best) == set(row) - {"row"}


def test_a_second_run_skips_what_is_there_and_a_changed_grid_searches_what_is_new(here: Path) -> None:
    first = planner("sweep", "grid.yaml", "--jobs", "1")
    assert first.code == 0
    assert "4 cases: 4 fit, 0 do not." in first.out
    before = (here / "grid.jsonl").read_bytes()
    again = planner("sweep", "grid.yaml", "--jobs", "1")
    assert (again.code, again.err) == (0, "4 of 4 cases are in grid.jsonl and are skipped\n")
    assert again.out == first.out.replace("0 do not.", "0 do not; 4 were there and are skipped.")
    assert (here / "grid.jsonl").read_bytes() == before
    (here / "grid.yaml").write_text(GRID.replace("[8, 16]", "[4, 16]"), encoding="utf-8")
    other = planner("sweep", "grid.yaml", "--jobs", "1", "--out", "grid.jsonl", "--quiet")
    assert (other.code, other.err) == (0, "")
    assert "2 were there and are skipped" in other.out
    assert (here / "grid.jsonl").read_bytes().startswith(before)
    assert len(lines(here / "grid.jsonl")) == 6


def started(folder: Path) -> subprocess.Popen[str]:
    """Start a sweep of eight cases, and wait until some are kept."""
    (folder / "slow.yaml").write_text(SLOW, encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "-m", "planner", "sweep", "slow.yaml", "--jobs", "1"],
        cwd=folder,
        env=user_environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=hears_interrupts,
    )
    out = folder / "slow.jsonl"
    deadline = time.monotonic() + 60
    while not (out.exists() and out.read_bytes().count(b"\n") >= 2):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return process


def left_of(session: int) -> list[str]:
    """Return the processes of a session that are still there after a while."""
    deadline = time.monotonic() + 20
    while (found := living(session)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def living(session: int) -> list[str]:
    """Return the processes of a session that live."""
    listed = subprocess.run(
        ["ps", "-eo", "sid=,stat=,args="], capture_output=True, text=True, check=True
    ).stdout
    rows = [line.split(None, 2) for line in listed.splitlines()]
    return [row[2] for row in rows if row[0] == str(session) and row[1][0] != "Z"]


def resumed(folder: Path, kept: int) -> Done:
    done = planner("sweep", "slow.yaml", "--jobs", "2", "--json")
    assert done.code == 0
    assert done.json["counts"] | {"failed": 0} == done.json["counts"]
    assert (done.json["counts"]["cases"], done.json["counts"]["skipped"]) == (8, kept)
    return done


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_a_sweep_goes_on_after_a_kill_and_leaves_no_process(folder: Path) -> None:
    process = started(folder)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=30)
    kept = (folder / "slow.jsonl").read_bytes().count(b"\n")
    assert left_of(process.pid) == []
    with (folder / "slow.jsonl").open("ab") as stream:
        stream.write(b'{"schema": "planner/sweep-case/1", "key": "ab')
    done = resumed(folder, kept)
    keys = [line["key"] for line in lines(folder / "slow.jsonl")]
    assert len(keys) == len(set(keys)) == 8
    with swept_here():
        afresh = planner("sweep", "slow.yaml", "--jobs", "1", "--no-resume", "--force", "--json")
    assert without_times(afresh.json) == without_times(done.json)
    assert afresh.json["counts"]["skipped"] == 0


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_an_interrupt_is_one_line_and_keeps_what_was_done(folder: Path) -> None:
    process = started(folder)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (130, "", "interrupted\n")
    assert left_of(process.pid) == []
    kept = len(lines(folder / "slow.jsonl"))
    assert 2 <= kept < 8


def test_the_table_of_results_is_written_beside_its_lines(here: Path) -> None:
    done = planner("sweep", "grid.yaml", "--jobs", "1", "--out", "all.csv", "--format", "csv")
    assert done.code == 0
    text = (here / "all.csv").read_text(encoding="utf-8")
    assert text == done.out
    rows = list(csv.DictReader(io.StringIO(text)))
    kept = {line["key"]: line for line in lines(here / "all.jsonl")}
    assert len(rows) == len(kept) == 4
    for row in rows:
        line = kept[row["key"]]
        assert row["status"] == "fits"
        assert row["grid_hardware"] == line["case"]["hardware"]
        assert float(row["step_time_s"]) == line["best"]["step_time_s"]


def test_questions_are_answered(here: Path) -> None:
    (here / "big.yaml").write_text(BIG, encoding="utf-8")
    asked = ("--smallest-cluster", "--finish-in", "1000d", "--longest-sequence")
    done = planner("sweep", "big.yaml", "--jobs", "1", *asked, "--json")
    assert done.code == 0
    cases = {(case["case"]["gpus"], case["case"]["method"]): case for case in done.json["cases"]}
    assert cases["8", "full"]["status"] == "nothing-fits"
    assert cases["8", "full"]["nearest"]["missing_gib"] > 0
    answers = done.json["answers"]
    assert [(reply["method"], reply["gpus"]) for reply in answers["smallest_cluster"]] == [
        ("full", 32),
        ("lora", 8),
    ]
    days = cases["32", "full"]["best"]["days_to_train"]
    assert answers["finish_in"][0]["days_to_train"] == days
    assert [reply["seq_len"] for reply in answers["longest_sequence"]] == [None, 4096, 4096, 4096]
    soon = planner("sweep", "big.yaml", "--finish-in", f"{days / 1000}d", "--jobs", "1", "-q")
    assert soon.code == 1
    assert "none in time" in soon.out
    assert "Nothing fits:" in soon.out


def test_a_range_of_lengths_is_halved_and_agrees_with_a_list(here: Path) -> None:
    text = BIG.replace("[8, 32]", "32").replace("[full, lora]", "full") + "cp: 1\n"
    (here / "range.yaml").write_text(text.replace("4096", "2048..16384"), encoding="utf-8")
    (here / "list.yaml").write_text(
        text.replace("4096", str(list(range(2048, 16385, 2048)))), encoding="utf-8"
    )
    options = ("--longest-sequence", "--jobs", "1", "--json")
    half, whole = (planner("sweep", name, *options).json for name in ("range.yaml", "list.yaml"))
    assert len(half["cases"]) <= 4
    assert len(whole["cases"]) == 8
    assert half["answers"] == whole["answers"]
    assert half["answers"]["longest_sequence"][0]["note"].endswith(" does not fit")
    refused = planner("sweep", "range.yaml", "--longest-sequence", "--smallest-cluster")
    assert (refused.code, refused.out) == (2, "")
    assert "one question, or a list of seq_len" in refused.err


def test_a_range_of_accelerators_is_answered_by_the_fewest_of_it(here: Path) -> None:
    text = BIG.replace("[8, 32]", "8..32").replace("[full, lora]", "lora")
    (here / "range.yaml").write_text(text, encoding="utf-8")
    done = planner("sweep", "range.yaml", "--smallest-cluster", "--jobs", "1", "--json")
    assert [case["case"]["gpus"] for case in done.json["cases"]] == ["8", "16", "24", "32"]
    assert done.json["answers"]["smallest_cluster"][0]["gpus"] == 8


def test_nothing_fits_anywhere(here: Path) -> None:
    text = BIG.replace("[8, 32]", "8").replace("[full, lora]", "full")
    (here / "none.yaml").write_text(text, encoding="utf-8")
    done = planner("sweep", "none.yaml", "--jobs", "1")
    assert done.code == 1
    assert "1 case: 0 fit, 1 do not." in done.out
    assert "--method lora" in done.out


def test_wrong_options_are_told_at_once(folder: Path) -> None:
    done = planner(
        *("sweep", "grid.yaml", "--jobs", "none", "--executor", "rya", "--finish-in", "soon"),
        "--longest-sequence",
    )
    assert (done.code, done.out) == (2, "")
    assert "4 faults" in done.err
    for words in ("--jobs", "nearest: ray", "such as 30d", "no seq_len in the grid"):
        assert words in done.err
    assert not (folder / "grid.jsonl").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("missing.yaml",), "missing.yaml"),
        (("grid.yaml", "--out", "results.txt"), "nearest: results.jsonl"),
        (("grid.yaml", "--out", "no/results.jsonl"), "can be written"),
        (("grid.yaml", "--no-resume", "--out", "there.jsonl"), "--force"),
        (("grid.yaml", "--out", "there.csv"), "--force"),
        (("grid.yaml", "--out", "notes.jsonl"), "notes.jsonl"),
        (("grid.yaml", "--executor", "local", "--ray", "auto"), "no address with --executor local"),
    ],
)
def test_what_stands_in_the_way_is_told(folder: Path, arguments: tuple[str, ...], words: str) -> None:
    (folder / "there.jsonl").touch()
    (folder / "notes.jsonl").write_text("my notes", encoding="utf-8")
    if "there.csv" in arguments:
        (folder / "there.jsonl").unlink()
        (folder / "there.csv").touch()
    done = planner("sweep", *arguments)
    assert (done.code, done.out) == (2, "")
    assert words in done.err
    assert (folder / "notes.jsonl").read_text(encoding="utf-8") == "my notes"


def test_progress_tells_cases_and_time_left(here: Path) -> None:
    done = planner("sweep", "grid.yaml", "--jobs", "1", "--verbose")
    assert done.code == 0
    told = [line.split("%  ")[1] for line in done.err.splitlines()]
    assert told[:4] == [f"reading case {number} of 4" for number in range(1, 5)]
    assert told[4] == "0 of 4 cases searched"
    assert re.fullmatch(r"1 of 4 cases searched, \S+ \w+ left", told[5])
    assert told[8] == "4 of 4 cases searched"


def test_the_package_of_ray_is_asked_for_where_it_is_missing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    done = planner("sweep", "grid.yaml", "--executor", "ray")
    assert done.code == 2
    assert done.err.startswith("error: --executor: found ray, which is not installed here")
    assert "parallelism-planner[sweep]" in done.err


def test_help_imports_neither_ray_nor_the_search() -> None:
    table = "from planner.cli.commands import LazyCommands; LazyCommands()['sweep']"
    code = f"import sys; {table}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "planner.cli.sweep" in loaded
    assert not {"ray", "numpy", "pydantic", "concurrent.futures"} & loaded
