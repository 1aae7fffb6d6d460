"""``planner benchmark`` as a user meets it, and its rule against hand arithmetic."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from planner.calibrate.benchmark.blind import POINTERS, RESULTS, blind_notes, results_of
from planner.calibrate.runs.table import COLUMNS, Run, read_runs
from tests.cli.command import planner
from tests.helpers import ROOT

EXTRACT = ROOT / "tests/measured/runs"

RUNS = """\
id,source,gpu,num_gpus,framework,model,seq_len,global_batch,tp,step_time_s,tokens_per_s_per_gpu,peak_mem_gib,memory_kind,oom
a1,s,h100,8,megatron-lm,llama3-8b,1000,8,1,1.0,,40,allocated,
a2,s,h100,8,megatron-lm,llama3-8b,1000,8,2,2.0,,20,allocated,
a3,s,h100,8,megatron-lm,llama3-8b,1000,8,4,4.0,,,,
a4,s,h100,8,megatron-lm,llama3-8b,1000,8,8,,,,,1
b1,s,h100,8,megatron-lm,llama3-8b,1000,16,1,,1000,,,
b2,s,h100,8,megatron-lm,llama3-8b,1000,16,2,3.0,,,,
c1,s,h100,8,unheard-of,unheard-of,1000,24,1,5.0,,,,
d1,s,h100,8,megatron-lm,llama3-8b,1000,32,1,1.0,1,,,
"""
"""Of group a the third ran slowest and the fourth ran out of memory; b1 takes 16,000 / (1,000 * 8) = 2 s;
d1's two speeds contradict each other; nobody but its authors could price c1."""

SAID = """\
id,step_time_s,memory_gib,fits
a1,1.5,50,1
a2,1.0,20,1
a3,3.0,,1
a4,0.5,90,0
b1,1.0,,true
b2,1.0,,true
c1,5.5,,
nobody,1,1,1
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("runs.csv").write_text(RUNS)
    Path("said.csv").write_text(SAID)
    return tmp_path


def score(*files: str) -> dict:
    done = planner("benchmark", "score", "runs.csv", *files, "--format", "json")
    assert done.code == 0, done.err
    return done.json


@pytest.mark.usefixtures("folder")
def test_scores_follow_from_the_rows_by_hand() -> None:
    told = score("said.csv")
    (one,) = told["predictors"]
    assert told["judged"] == {"step_time": 6, "memory": 2, "fit": 8, "groups": 2}
    errors = [0.5, -0.5, -0.25, -0.5, -2 / 3, 0.1]
    assert one["step_time"]["n"] == 6
    assert one["step_time"]["mape"] == pytest.approx(sum(map(abs, errors)) / 6)
    assert one["step_time"]["median_ape"] == pytest.approx(0.5)
    assert one["step_time"]["bias"] == pytest.approx(sum(errors) / 6)
    # Group a: measured 1, 2, 4 against 1.5, 1, 3: ranks 1 2 3 and 2 1 3, so 1 - 6 * 2 / (3 * 8).
    assert one["rank"]["groups"] == pytest.approx(0.5)
    # The pick of a is a2, twice the fastest; of b both are called equal, so the mean of 2 and 3 s over 2 s.
    assert one["pick"]["groups"] == 2
    assert one["pick"]["mean"] == pytest.approx((1.0 + 0.25) / 2)
    assert one["pick"]["ran_out"] == 0
    assert one["memory"]["mape"] == pytest.approx((0.25 + 0) / 2)
    assert one["oom"] == {"true_positive": 1, "false_positive": 0, "true_negative": 5, "false_negative": 0}
    assert one["missing"] == {"step_time": 0, "memory": 0, "fit": 2}
    assert one["unknown_ids"] == 1
    # At random: (1 + 2 + 4) / 3 s over 1 s in a, a quarter of whose runs ran out; 2.5 s over 2 s in b.
    assert told["chance"]["mean"] == pytest.approx((4 / 3 + 0.25) / 2)
    assert told["chance"]["ran_out"] == pytest.approx(0.25)


@pytest.mark.usefixtures("folder")
def test_a_row_without_a_truth_is_named_and_one_that_only_others_can_price_is_judged() -> None:
    told = score("said.csv")
    (only,) = told["untold"]
    assert only["id"] == "d1"
    assert "step_time_s 1 but tokens_per_s_per_gpu 1 means 4000 s" in only["reason"]
    assert told["rows"] == 8
    assert "unheard-of" not in str(told["untold"])


def test_a_pick_that_ran_out_of_memory_is_counted_and_has_no_regret(folder: Path) -> None:
    careless = SAID.replace("a4,0.5,90,0", "a4,0.5,90,1").replace("b2,1.0", "b2,1.1")
    (folder / "careless.csv").write_text(careless)
    (one,) = score("careless.csv")["predictors"]
    assert one["pick"]["ran_out"] == 1
    assert one["pick"]["mean"] == pytest.approx(0)
    assert one["oom"]["false_negative"] == 1


def test_several_predictors_are_compared_on_the_rows_that_all_of_them_time(folder: Path) -> None:
    (folder / "few.csv").write_text("id,step_time_s\na1,1.1\na2,2.2\n")
    told = score("said.csv", "few.csv")
    assert [one["missing"]["step_time"] for one in told["predictors"]] == [0, 4]
    assert told["common"]["rows"] == 2
    said, few = told["common"]["predictors"]
    assert said["step_time"]["mape"] == pytest.approx(0.5)
    assert few["step_time"]["mape"] == pytest.approx(0.1)
    assert few["pick"] == {"groups": 1, "mean": 0.0, "median": 0.0, "ran_out": 0.0, "no_pick": 0}
    page = planner("benchmark", "score", "runs.csv", "said.csv", "few.csv")
    assert "on the 2 rows that all of them time" in page.out
    assert max(map(len, page.out.splitlines())) <= 80
    rows = planner("benchmark", "score", "runs.csv", "said.csv", "few.csv", "--format", "csv")
    assert [row["rows"] for row in csv.DictReader(io.StringIO(rows.out))] == [
        "all",
        "all",
        "common",
        "common",
    ]


def test_faults_of_predictions_are_told_at_once(folder: Path) -> None:
    (folder / "bad.csv").write_text("id,step_time_s,fits\na1,fast,1\na2,-1,maybe\na2,1,1\na3,1\n")
    (folder / "odd.csv").write_text("key,seconds\na1,1\n")
    done = planner("benchmark", "score", "runs.csv", "bad.csv", "odd.csv")
    assert done.code == 2
    assert done.out == ""
    for words in ("row 2, column step_time_s", "row 3, column fits", "2 cells", "odd.csv: column id"):
        assert words in done.err, words


def test_the_blinded_extract_tells_no_result(tmp_path: Path) -> None:
    """Every table: no column of a result is filled, and no number of the notes is one."""
    for path in sorted(EXTRACT.glob("*.csv")):
        done = planner("benchmark", "rows", str(path))
        blind = {row["id"]: row for row in csv.DictReader(io.StringIO(done.out))}
        with path.open(encoding="utf-8", newline="") as lines:
            runs = [row for row in read_runs(lines).rows if isinstance(row, Run)]
        assert set(blind) == {run.id for run in runs}
        for run in runs:
            row = blind[run.id]
            assert not any(row[name] for name in (*RESULTS, *POINTERS)), run.id
            words = row["notes"].replace(";", " ").replace("=", " ").split()
            for value in results_of(run):
                assert f"{value:.4g}" not in words or (value < 100 and value == int(value)), (run.id, value)
        assert list(blind) != [run.id for run in runs] or len(runs) < 3


def test_notes_keep_what_was_run() -> None:
    notes = (
        "torch.compile on; FP8 recipe tensorwise, full-iteration CUDA graph; 1234 on page 3; 45.7 GiB; TPS 9"
    )
    run = Run(2, "x", notes=notes, tokens_per_s_per_gpu=1234.4, peak_mem_gib=45.7)
    assert blind_notes(run) == "torch.compile on; FP8 recipe tensorwise, full-iteration CUDA graph"


def test_the_planner_predicts_blinded_rows_as_it_prices_the_whole_ones(tmp_path: Path) -> None:
    table, blind, own = EXTRACT / "megatron.csv", tmp_path / "blind.csv", tmp_path / "own.csv"
    assert planner("benchmark", "rows", str(table), "--out", str(blind)).code == 0
    assert planner("benchmark", "predict", str(blind), "--out", str(own)).code == 0
    whole = planner("validate", str(table), "--format", "json").json
    (told,) = planner("benchmark", "score", str(table), str(own), "--format", "json").json["predictors"]
    assert told["step_time"] == pytest.approx(whole["step_time"])
    thumb = planner("benchmark", "predict", str(blind), "--by", "rule-of-thumb")
    assert thumb.out.startswith("id,step_time_s,memory_gib,fits\n")
    assert len(thumb.out.splitlines()) == len(own.read_text().splitlines())


def test_blinded_rows_are_a_run_table() -> None:
    done = planner("benchmark", "rows", str(EXTRACT / "zero_bubble.csv"))
    assert tuple(done.out.splitlines()[0].split(",")) == tuple(COLUMNS)
