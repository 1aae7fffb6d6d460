"""Tables, pages and documents: widths, alignment, colour, formats."""

from __future__ import annotations

import io
import json
import sys
import time
from unittest import mock

import pytest

from planner.cli.commands import LazyCommands
from planner.cli.options import Format
from planner.cli.output import emit_document, emit_page, emit_rows
from planner.cli.profile import ProfileProgress as Measuring
from planner.cli.progress import Progress
from planner.report.as_json import plain
from planner.report.page import Page, Table, significant
from planner.report.text import table_lines
from planner.units import percent
from tests.cases import every

ROWS = ({"name": "a", "time": "1.5", "why": "none"}, {"name": "bc", "time": "12.25", "why": "far too long"})


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_numbers_stand_right_and_text_left() -> None:
    assert table_lines(Table(ROWS)) == [
        "name   time  why",
        "a       1.5  none",
        "bc    12.25  far too long",
    ]


def test_long_text_is_folded_between_words() -> None:
    assert table_lines(Table(ROWS), width=18) == [
        "name   time  why",
        "a       1.5  none",
        "bc    12.25  far",
        "             too",
        "             long",
    ]


def test_a_heading_folds_before_a_cell_does() -> None:
    rows = ({"#": "1", "layout": "cp2 dp8", "GiB of 79.6": "72.6"},)
    assert table_lines(Table(rows), width=18) == [
        "#  layout   GiB of",
        "              79.6",
        "1  cp2 dp8    72.6",
    ]
    assert table_lines(Table(rows), width=15) == [
        "# layout GiB of",
        "           79.6",
        "1 cp2      72.6",
        "  dp8",
    ]


def test_a_terminal_of_80_columns_folds_no_word_and_shows_what_a_pipe_gets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "dumb")
    names = ("peak at", "weights", "grads", "optim", "acts", "work", "slack", "frame", "total")
    rows = ({"stage": "0"} | dict.fromkeys(names, "17.02") | {"peak at": "backward"},)
    page: Page = ["Bottlenecks:\n  " + "word " * 20, Table(rows)]
    with mock.patch.object(sys, "stdout", Terminal()) as terminal:
        emit_page(page, Format.table)
    with mock.patch.object(sys, "stdout", io.StringIO()) as pipe:
        emit_page(page, Format.table)
    shown = [line for line in terminal.getvalue().splitlines() if set(line) != {"─"}]
    assert shown == pipe.getvalue().splitlines()
    assert max(map(len, terminal.getvalue().splitlines())) <= 80


def test_a_terminal_gets_colour_and_a_pipe_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "xterm-256color")
    with mock.patch.object(sys, "stdout", Terminal()) as stream:
        emit_page(["Words.", Table(ROWS)], Format.table)
    assert "\x1b[" in stream.getvalue()
    assert "far too long" in stream.getvalue()
    with mock.patch.object(sys, "stdout", io.StringIO()) as pipe:
        emit_page(["Words.", Table(ROWS)], Format.table)
    assert "\x1b" not in pipe.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    with mock.patch.object(sys, "stdout", Terminal()) as stream:
        emit_page([Table(({"a": "[red]1[/red]"},))], Format.table)
    assert "\x1b[3" not in stream.getvalue()
    assert "[red]1[/red]" in stream.getvalue()


def test_markdown_escapes_what_would_end_a_cell(capsys: pytest.CaptureFixture[str]) -> None:
    emit_page([Table(({"a": "1|2"},))], Format.markdown)
    assert capsys.readouterr().out == "| a |\n| --- |\n| 1\\|2 |\n"


def test_rows_in_every_format(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"name": "x", "peak_gib": 1.25, "template": True, "price": None}]
    emit_rows(rows, Format.json)
    assert json.loads(capsys.readouterr().out) == rows
    emit_rows(rows, Format.csv)
    assert capsys.readouterr().out == "name,peak_gib,template,price\nx,1.25,True,\n"
    emit_rows(rows, Format.markdown)
    assert capsys.readouterr().out.splitlines()[2] == "| x | 1.25 | yes |  |"
    emit_rows(rows, Format.table, {"peak_gib": "GiB"}, "a legend")
    assert capsys.readouterr().out == "name   GiB  template  price\nx     1.25  yes\n\na legend\n"


def test_a_document_never_holds_what_is_not_finite() -> None:
    assert plain({"a": float("nan"), "b": [float("inf"), 1]}) == {"a": None, "b": [None, 1]}
    with pytest.raises(ValueError, match="JSON"):
        emit_document({"a": float("nan")})


def test_figures_for_people() -> None:
    assert [significant(value) for value in (124.36, 0.0001234, 98765.4, 0.0)] == [
        "124.4",
        "0.0001234",
        "98,770",
        "0",
    ]
    assert (percent(0.1234), percent(None)) == ("12.3%", "-")


def test_progress_is_for_terminals_after_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream in (io.StringIO(), Terminal()):
        with mock.patch.object(sys, "stderr", stream), Progress() as progress:
            progress(0.5, "work")
        assert stream.getvalue() == ""
    monkeypatch.setenv("TERM", "xterm-256color")
    with mock.patch.object(sys, "stderr", Terminal()) as stream, Progress() as progress:
        progress.started -= 5
        progress(0.5, "half of the work")
    assert "half of the work" in stream.getvalue()
    with (
        mock.patch.object(sys, "stderr", Terminal()) as stream,
        Progress(quiet=True, verbose=True) as progress,
    ):
        progress.started -= 5
        progress(0.5, "half of the work")
        progress.tell("a note")
    assert stream.getvalue() == ""


def test_a_bar_appears_though_the_work_tells_of_itself_only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr("planner.cli.progress.PATIENCE", 0.02)
    with mock.patch.object(sys, "stderr", Terminal()) as stream, Progress() as progress:
        progress(0.0, "one long search")
        deadline = time.monotonic() + 10
        while "one long search" not in stream.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
    assert "one long search" in stream.getvalue()
    with mock.patch.object(sys, "stderr", io.StringIO()) as pipe, Progress() as progress:
        progress(0.0, "one long search")
        time.sleep(0.1)
    assert pipe.getvalue() == ""


LONG = (
    "search", "estimate", "explain", "compare", "sweep", "mfu", "report", "emit", "simulate", "validate",
    "calibrate", "profile", "check",
)  # fmt: skip
"""Commands that can take more than a second."""


@every("name", LONG)
def test_every_long_command_can_be_quiet_and_can_tell(name: str) -> None:
    options = {option for parameter in LazyCommands()[name].params for option in parameter.opts}
    assert {"--quiet", "-q", "--verbose", "-v"} <= options


def test_a_measurement_is_told_by_tenths_each_point_or_not_at_all() -> None:
    told = {}
    for quiet, verbose in ((False, False), (False, True), (True, True)):
        with (
            mock.patch.object(sys, "stderr", io.StringIO()) as stream,
            Measuring(60.0, quiet, verbose) as progress,
        ):
            for point in range(20):
                progress.tell(point, point / 20, "gemm")
            progress.note("note: all is well")
        told[quiet, verbose] = stream.getvalue().count("\n")
    assert told == {(False, False): 11, (False, True): 21, (True, True): 0}
