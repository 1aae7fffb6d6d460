"""The run table: rows become records, and each fault belongs to its row and column."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice

import pytest

from planner.calibrate.runs.blanks import blanks_told
from planner.calibrate.runs.table import COLUMNS, Fault, Run, read_runs
from planner.errors import InputError
from tests.cases import every

HEADER = "id,gpu,num_gpus,framework,tp,dp,micro_batch,step_time_s,zero,oom,notes"
GOOD = "a-1,a100-80gb-sxm,8,fsdp,1,8,2,1.5,3,0,plain"


def rows(*lines: str, header: str = HEADER) -> list[Run | Fault]:
    return list(read_runs([f"{header}\n", *(f"{line}\n" for line in lines)]).rows)


def test_a_row_becomes_a_record_with_blanks_as_none() -> None:
    (run,) = rows("a-1,a100,16,megatron-lm,8,2,,12.25,,,")
    assert isinstance(run, Run)
    assert (run.id, run.num_gpus, run.tp, run.dp, run.step_time_s, run.line) == ("a-1", 16, 8, 2, 12.25, 2)
    assert (run.micro_batch, run.zero, run.oom, run.pp, run.precision) == (None, "", None, None, "")


def test_columns_are_those_of_the_schema() -> None:
    assert len(COLUMNS) == 60
    assert list(COLUMNS)[:3] == ["id", "source", "ref"]
    assert list(COLUMNS)[-9:-5] == ["notes", "memory_kind", "mark", "fused_norm"]
    assert list(COLUMNS)[-5:] == ["method", "lora_rank", "lora_targets", "document_tokens", "release"]


@every(
    ("cells", "column", "expected"),
    [
        ("a-2,a100,eight,fsdp,1,8,2,1.5,3,0,", "num_gpus", "a whole number above 0, at most 10^12"),
        ("a-2,a100,8,fsdp,1.5,8,2,1.5,3,0,", "tp", "a whole number above 0, at most 10^12"),
        ("a-2,a100,8,fsdp,1e13,8,2,1.5,3,0,", "tp", "a whole number above 0, at most 10^12"),
        ("a-2,a100,8,fsdp,0,8,2,1.5,3,0,", "tp", "a whole number above 0, at most 10^12"),
        ("a-2,a100,8,fsdp,-1,8,2,1.5,3,0,", "tp", "a whole number above 0, at most 10^12"),
        ("a-2,a100,8,fsdp,1,8,2,nan,3,0,", "step_time_s", "a number above 0, from 10^-12 to 10^12"),
        ("a-2,a100,8,fsdp,1,8,2,1e-320,3,0,", "step_time_s", "a number above 0, from 10^-12 to 10^12"),
        ("a-2,a100,8,fsdp,1,8,2,inf,3,0,", "step_time_s", "a number above 0, from 10^-12 to 10^12"),
        ("a-2,a100,8,fsdp,1,8,2,0,3,0,", "step_time_s", "a number above 0, from 10^-12 to 10^12"),
        ("a-2,a100,inf,fsdp,1,8,2,1,3,0,", "num_gpus", "a whole number above 0, at most 10^12"),
        ("a-2,a100,8,fsdp,1,8,2,1.5,4,0,", "zero", "0, 1, 2, 3 or hsdp:<shard size>"),
        ("a-2,a100,8,fsdp,1,8,2,1.5,3,maybe,", "oom", "0 or 1"),
        (",a100,8,fsdp,1,8,2,1.5,3,0,", "id", "a unique key"),
        ("a-2,a100,8,fsdp", "-", "11, as in the header"),
    ],
)
def test_a_fault_names_row_column_value_and_what_is_accepted(cells: str, column: str, expected: str) -> None:
    first, fault, last = rows(GOOD, cells, GOOD.replace("a-1", "a-3"))
    assert isinstance(first, Run)
    assert isinstance(last, Run)
    assert isinstance(fault, Fault)
    assert (fault.line, fault.column, fault.expected) == (3, column, expected)
    assert fault.reason.startswith(f"row 3, column {column}: found ")


def test_a_key_used_twice_is_a_fault_of_the_second_row() -> None:
    first, second = rows(GOOD, GOOD)
    assert isinstance(first, Run)
    assert isinstance(second, Fault)
    assert second.reason == "row 3, column id: found 'a-1' again, as in row 2; expected a unique key"


def test_numbers_may_be_written_as_floats_and_lines_may_be_blank() -> None:
    run, other = rows("a-1,a100,8.0,fsdp,1,8,2,1e1,hsdp:4,0,", "", GOOD.replace("a-1", "b"))
    assert isinstance(run, Run)
    assert (run.num_gpus, run.step_time_s, run.zero) == (8, 10.0, "hsdp:4")
    assert other.line == 4


@every("lines", [[], ["\n"], [" , ,\n"]])
def test_a_file_without_a_header_is_refused(lines: list[str]) -> None:
    with pytest.raises(InputError, match="found nothing; expected a header with the columns id, gpu"):
        read_runs(lines, "runs.csv")


def test_missing_needed_columns_are_told_at_once_with_the_nearest_spelling() -> None:
    with pytest.raises(InputError) as caught:
        read_runs(["id,GPU type,num_gpu,tp\n"], "runs.csv")
    text = str(caught.value)
    assert [problem.where for problem in caught.value.problems] == [
        "runs.csv: column gpu",
        "runs.csv: column num_gpus",
        "runs.csv: column framework",
    ]
    assert "nearest: num_gpu" in text


def test_a_column_that_stands_twice_is_refused() -> None:
    with pytest.raises(InputError, match="column tp: found 2 times; expected once"):
        read_runs(["id,gpu,num_gpus,framework,tp,tp\n"])


def test_other_columns_are_warned_about() -> None:
    table = read_runs(["\ufeffid,gpu,num_gpus,framework,micro_batchs\n"], "runs.csv")
    missing, strange = table.warnings
    assert "no column source, ref" in missing
    assert "fused_norm" not in missing
    assert strange.startswith("runs.csv: column 'micro_batchs' is not in the schema: not read (micro_batch,")


def test_a_line_that_is_no_csv_is_a_fault_of_its_row_alone() -> None:
    huge = "a-2," + "x" * 200_000
    first, fault, last = rows(GOOD, huge, GOOD.replace("a-1", "a-3"))
    assert isinstance(first, Run)
    assert isinstance(last, Run)
    assert isinstance(fault, Fault)
    assert "field larger than field limit" in fault.reason


def test_rows_are_read_when_asked_for_however_many_there_are() -> None:
    def endless() -> Iterator[str]:
        yield f"{HEADER}\n"
        for number in count():
            yield f"row-{number},a100,8,fsdp,1,8,2,1.5,3,0,\n"

    runs = list(islice(read_runs(endless()).rows, 1000))
    assert [run.id for run in runs[-2:]] == ["row-998", "row-999"]


def test_changed_values_leave_the_run_as_it_was() -> None:
    (run,) = rows(GOOD)
    assert isinstance(run, Run)
    other = run.with_values({"tp": 4, "gpu": "h100"})
    assert (other.tp, other.gpu, other.dp) == (4, "h100", 8)
    assert (run.tp, run.gpu) == (1, "a100-80gb-sxm")
    assert run.with_values({}) is run


@every("note", ['"plain', 'plain,"more'])
def test_a_quote_that_is_never_closed_takes_no_other_row_with_it(note: str) -> None:
    table = rows(GOOD.replace("plain", note), *(GOOD.replace("a-1", f"a-{number}") for number in (2, 3)))
    assert [type(row) for row in table] == [Fault, Run, Run]
    fault = table[0]
    assert isinstance(fault, Fault)
    assert "row 2" in fault.reason
    assert "a quote that stays open over 3 lines" in fault.reason
    assert [row.id for row in table] == ["a-1", "a-2", "a-3"]


def test_a_note_of_several_lines_is_one_note() -> None:
    (first, second) = rows(GOOD.replace("plain", '"one, two\nthree, four"'), GOOD.replace("a-1", "a-2"))
    assert isinstance(first, Run)
    assert first.notes == "one, two\nthree, four"
    assert isinstance(second, Run)


def test_a_quote_left_open_before_many_rows_costs_its_own_row_alone() -> None:
    many = 20_000
    lines = (
        GOOD.replace("a-1", f"a-{number}").replace("plain", '"x' if number < 9 else "")
        for number in range(many)
    )
    table = rows(*lines)
    assert len(table) == many
    assert [row.id for row in table if isinstance(row, Fault)] == [
        *(f"a-{number}" for number in range(8)),
        "",
    ]


@every(
    ("header", "found"),
    [
        (HEADER.replace(",", ";"), "names separated by semicolons"),
        (HEADER.replace(",", "\t"), "names separated by tabs"),
        (HEADER.encode("utf-16").decode("utf-8", errors="replace"), "text in UTF-16"),
    ],
)
def test_a_table_in_another_form_is_named(header: str, found: str) -> None:
    with pytest.raises(InputError, match=f"found {found}; expected a header of comma-separated names"):
        rows(GOOD, header=header)


@every("word", ["n/a", "NA", "-", "None", "null", "?"])
def test_a_word_for_blank_is_blank_and_counted(word: str) -> None:
    columns = [name for name in COLUMNS if name != "id"]
    cells = [word if name not in ("recompute", "zero") else "1" for name in columns]
    table = read_runs([",".join(["id", *columns]), ",".join(["a-1", *cells])])
    (row,) = table.rows
    assert row == Run(line=2, id="a-1", recompute="1", zero="1", **said(word))
    count = len(columns) - 2 - len(said(word))
    assert f"{count} cells" in blanks_told(table.blanks)
    assert table.blanks["tp"] == table.blanks["gpu"] == 1


def said(word: str) -> dict[str, str]:
    """Return the columns that a word fills: ``none`` of a technique says that there is none."""
    techniques = ("offload", "schedule", "cp_method", "overlap")
    return dict.fromkeys(techniques, word) if word.lower() == "none" else {}


def test_none_of_a_technique_is_a_value() -> None:
    table = read_runs(["id,gpu,num_gpus,framework,zero,recompute", "a,a100,8,fsdp,none,none"])
    (row,) = table.rows
    assert isinstance(row, Run)
    assert (row.zero, row.recompute, blanks_told(table.blanks)) == ("0", "none", "")


def test_a_word_for_blank_in_the_key_is_told_as_blank() -> None:
    (fault,) = rows("?,a100,8,fsdp", header="id,gpu,num_gpus,framework")
    assert isinstance(fault, Fault)
    assert fault.reason == "row 2, column id: found blank; expected a unique key"
