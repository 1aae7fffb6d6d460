"""``planner benchmark``: an open test of predictors: rows without results, predictions, and one scorer."""

from __future__ import annotations

import csv
import io
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from planner.calibrate.benchmark.predictions import COLUMNS, PredictedRow, read_predictions
from planner.cli.benchmark_text import as_page, as_rows
from planner.cli.options import ForceOption, Format, FormatOption, command_group
from planner.cli.output import emit_document, emit_page, emit_rows
from planner.cli.printable import to_stderr
from planner.deferred import deferred
from planner.files import check_place, write_whole
from planner.inputs.bounded import table_lines
from planner.printable import as_cell
from planner.question.reading import Reading

with deferred():
    from planner.calibrate import constants, overlay
    from planner.calibrate.benchmark import blind, own, score, truth
    from planner.calibrate.runs import catalogue, defaults
    from planner.calibrate.runs import table as runs_table

if TYPE_CHECKING:
    from planner.calibrate.runs.defaults import Skip
    from planner.calibrate.runs.table import Run

app = command_group(
    "Score any predictor of training runs by the same rules: blinded rows, predictions, scores."
)

RunsArgument = Annotated[
    Path, typer.Argument(metavar="RUNS", help="A CSV file of measured runs, or - for standard input.")
]
OutOption = Annotated[
    Path | None, typer.Option("--out", metavar="FILE", help="Where it goes; standard output by default.")
]
REASONS: Final = 5
"""Reasons for rows without a prediction that are told. [-]"""


class By(StrEnum):
    """What predicts."""

    planner = "planner"
    rule_of_thumb = "rule-of-thumb"


@app.command("rows")
def rows_command(runs: RunsArgument, out: OutOption = None, force: ForceOption = False) -> None:
    """Write the rows of a run table without their results, in a random-looking order."""
    check_place(out, force, "--out")
    table = [row for row in _read(runs) if isinstance(row, runs_table.Run)]
    _write((blind.cells(run) for run in blind.blinded(table)), tuple(runs_table.COLUMNS), out, force)


@app.command("predict")
def predict_command(
    rows: RunsArgument,
    by: Annotated[By, typer.Option("--by", help="What predicts.")] = By.planner,
    out: OutOption = None,
    force: ForceOption = False,
) -> None:
    """Predict such rows with the planner itself: id, step_time_s, memory_gib, fits."""
    check_place(out, force, "--out")
    skipped: list[Skip] = []
    price = overlay.predictions_of(constants.shipped_values(), None)
    found = own.own_predictions(_read(rows), catalogue.shipped_catalogue(), price, by.value, skipped)
    _tell_reasons(skipped)
    lines = (
        {"id": key, "step_time_s": said.step_s, "memory_gib": said.memory_gib, "fits": _switch(said.fits)}
        for key, said in found.items()
    )
    _write(lines, COLUMNS, out, force)


@app.command("score")
def score_command(
    runs: RunsArgument,
    predictions: Annotated[
        list[Path],
        typer.Argument(metavar="PREDICTIONS...", help="CSV files: id, step_time_s, memory_gib, fits."),
    ],
    output: FormatOption = Format.table,
) -> None:
    """Score predictions of a run table: time, rank, regret of the choice, memory, fits or not.

    Several files are also compared on the rows that all of them time.
    """
    reading, found = Reading(), dict[str, Mapping[str, PredictedRow]]()

    def read(path: Path) -> Mapping[str, PredictedRow]:
        with table_lines(path) as lines:
            return read_predictions(lines, str(path))

    for path in predictions:
        name = path.stem if path.stem not in found else str(path)
        if name in found:
            reading.fault("PREDICTIONS", str(path), "each file once")
        said = reading.attempt(read, path)
        found[name] = said if said is not None else {}
    reading.finish()
    untold: list[Skip] = []
    answer = score.document(truth.truths(_read(runs), catalogue.shipped_catalogue(), untold), untold, found)
    if output is Format.json:
        emit_document(answer)
    elif output is Format.csv:
        emit_rows(as_rows(answer), output)
    else:
        emit_page(as_page(answer, str(runs)), output)


def _switch(fits: bool | None) -> int | None:
    return None if fits is None else int(fits)


def _read(path: Path) -> list[Run | runs_table.Fault]:
    """Return the rows of a run table; columns that are not read and faulty rows are told."""
    name = "standard input" if str(path) == "-" else str(path)
    with table_lines(path) as lines:
        table = runs_table.read_runs(lines, name)
        rows = list(table.rows)
    for note in table.warnings:
        if "not read" in note:
            to_stderr(f"note: {note}")
    for row in rows:
        if isinstance(row, runs_table.Fault):
            to_stderr(f"note: {row.reason}")
    return rows


def _tell_reasons(skipped: Iterable[Skip]) -> None:
    reasons = Counter(defaults.without_row(skip.reason) for skip in skipped)
    for reason, count in reasons.most_common(REASONS):
        to_stderr(f"note: {count} without a prediction: {reason}")
    if rest := sum(count for _, count in reasons.most_common()[REASONS:]):
        to_stderr(f"note: {rest} without one for other reasons")


def _write(
    lines: Iterable[Mapping[str, object]], columns: tuple[str, ...], out: Path | None, force: bool
) -> None:
    stream = io.StringIO()
    writer = csv.DictWriter(stream, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: as_cell(value) for name, value in line.items()} for line in lines)
    if out is None:
        sys.stdout.write(stream.getvalue())
    else:
        write_whole(out, stream.getvalue(), force)
