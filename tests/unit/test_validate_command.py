"""``planner validate`` prints a table of 80 columns, JSON, CSV and Markdown, and tells about bad files."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from planner.cli.validate import validate
from planner.cli.validate_text import as_markdown, as_text, group_summary, reasons
from planner.errors import InputError
from tests.cases import every

TABLE = """\
id,source,gpu,num_gpus,model,framework,seq_len,tp,pp,dp,micro_batch,global_batch,step_time_s,peak_mem_gib,memory_kind
a,lab,h100-80gb-sxm,64,llama3-8b,torchtitan,8192,1,1,64,1,64,1.2,60,reserved
b,lab,h100-80gb-sxm,64,llama3-8b,torchtitan,8192,2,1,32,1,64,1.9,45,reserved
c,lab,h100-80gb-sxm,64,llama3-8b,torchtitan,8192,4,1,16,1,64,2.9,40,reserved
d,lab,h100-80gb-sxm,64,llama3-8b,torchtitan,8192,4,1,8,1,64,2.9,40,reserved
e,lab,h1000,64,llama3-8b,torchtitan,8192,4,1,16,1,64,2.9,40,reserved
f,lab,h100-80gb-sxm,sixty,llama3-8b,torchtitan,8192,4,1,16,1,64,2.9,40,reserved
"""


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    path = tmp_path / "runs.csv"
    path.write_text(TABLE, encoding="utf-8")
    return path


def call(*arguments: str, text: str | None = None) -> Result:
    app = typer.Typer()
    app.command()(validate)
    return CliRunner().invoke(app, list(arguments), input=text)


def test_json_stands_alone_on_standard_output(runs: Path) -> None:
    result = call(str(runs), "--format", "json")
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert (document["rows"], document["priced"]) == (6, 3)
    assert {skip["id"] for skip in document["skipped"]} == {"d", "e", "f"}
    assert document["step_time"]["n"] == 3
    assert document["memory"]["by_kind"]["reserved"]["n"] == 3
    assert "no column ref" in result.stderr


def test_the_table_fits_80_columns_and_tells_what_was_skipped(runs: Path) -> None:
    result = call(str(runs))
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith("6 rows, 3 priced, 3 skipped: ")
    text = result.stdout
    for words in ("step time", "rule of thumb", "reserved", "lab", "worst rows", "column gpu: found 'h1000'"):
        assert words in text
    assert "values taken for blanks (rows): " in text


def test_one_row_of_no_source_is_one_row_and_said_to_have_none() -> None:
    head, row, *_ = TABLE.splitlines()
    result = call("-", text=f"{head}\n{row.replace('lab', '')}\n")
    assert result.stdout.startswith("1 row, 1 priced, 0 skipped: standard input\n")
    assert "\n(not named) " in result.stdout
    assert (
        "\n| (not named) |"
        in call("-", "--format", "markdown", text=f"{head}\n{row}\n".replace("lab", "")).stdout
    )


def test_csv_has_a_row_for_each_run_skipped_ones_too(runs: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(call(str(runs), "--format", "csv").stdout)))
    assert [row["id"] for row in rows] == ["a", "b", "c", "d", "e", "f"]
    assert rows[0]["measured_s"] == "1.2"
    assert rows[0]["skipped"] == ""
    assert "row 5" in rows[3]["skipped"]


def test_markdown_has_a_line_for_each_source(runs: Path) -> None:
    lines = call(str(runs), "--format", "markdown").stdout.splitlines()
    assert len(lines) == 3
    assert lines[2].startswith("| lab | 3 | ")


def test_a_table_may_come_from_standard_input() -> None:
    result = call("-", "--format", "json", text=TABLE)
    assert json.loads(result.stdout)["priced"] == 3


def test_a_file_that_is_not_there_is_an_input_error(tmp_path: Path) -> None:
    result = call(str(tmp_path / "none.csv"))
    assert isinstance(result.exception, InputError)
    assert "none.csv: found" in str(result.exception)
    assert "no such file" in str(result.exception)


@every("content", ["", "\n\n", "hello\n", "id,gpu\n"])
def test_a_file_without_the_needed_columns_is_an_input_error(content: str, tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text(content, encoding="utf-8")
    result = call(str(path))
    assert isinstance(result.exception, InputError)
    assert "framework" in str(result.exception)


def test_a_header_without_rows_scores_nothing(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text(TABLE.splitlines()[0] + "\n", encoding="utf-8")
    document = json.loads(call(str(path), "--format", "json").stdout)
    assert (document["rows"], document["priced"], document["groups"]) == (0, 0, [])
    assert document["step_time"]["mape"] is None
    assert "step time: no row has one" in call(str(path)).stdout
    assert call(str(path), "--format", "markdown").stdout == "no row could be priced\n"
    assert as_markdown(document) == "no row could be priced\n"
    assert as_text(document, "x").startswith("0 rows, 0 priced, 0 skipped: x\n")


def test_bytes_that_are_no_text_are_a_fault_of_their_row(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    head, first, *_ = TABLE.encode().splitlines(keepends=True)
    path.write_bytes(head + first.replace(b",64,llama", b",\xff\x00,llama"))
    document = json.loads(call(str(path), "--format", "json").stdout)
    assert document["priced"] == 0
    assert "column num_gpus" in document["skipped"][0]["reason"]


def test_groups_are_summed_up_by_source() -> None:
    groups = [
        {"source": "s", "n": 4, "spearman": 0.5, "top1_regret": 0.1, "pick_oom": False},
        {"source": "s", "n": 3, "spearman": 1.0, "top1_regret": None, "pick_oom": True},
        {"source": "s", "n": 1, "spearman": None, "top1_regret": 0.0, "pick_oom": False},
    ]
    assert group_summary(groups) == {"s": {"groups": 2, "rank": 0.75, "regret": 0.1, "oom": 1}}


def test_reasons_are_counted_without_their_row() -> None:
    skipped = [{"reason": f"row {number}, column tp: found 'x'"} for number in range(3)]
    skipped += [{"reason": f"row {number}: neither time nor memory"} for number in range(2)]
    assert reasons(skipped) == {"column tp: found 'x'": 3, "neither time nor memory": 2}


def test_standard_input_that_is_not_utf_8_spoils_only_its_row() -> None:
    app = typer.Typer()
    app.command()(validate)
    table = TABLE.replace("b,lab,h100", "b,lab,caf\u00e9").encode("latin-1")
    result = CliRunner(charset="ascii").invoke(app, ["-", "--format", "json"], input=table)
    document = json.loads(result.stdout)
    assert document["priced"] == 2
    assert "row 3, column gpu: found 'caf\ufffd" in next(
        skip["reason"] for skip in document["skipped"] if skip["id"] == "b"
    )


def test_quiet_leaves_the_notes_out_and_verbose_tells_what_is_done(runs: Path) -> None:
    plain, quiet, verbose = (call(str(runs), *more) for more in ([], ["--quiet"], ["--verbose"]))
    assert plain.stdout == quiet.stdout == verbose.stdout
    assert quiet.stderr == ""
    assert plain.stderr in verbose.stderr.replace(verbose.stderr.splitlines(keepends=True)[-1], "")
    assert verbose.stderr.splitlines()[-1].endswith(f"pricing the runs of {runs}")
