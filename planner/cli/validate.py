"""``planner validate``: predicted against measured, for a table of runs."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from planner.calibrate.runs.blanks import blanks_told
from planner.cli.options import Format, QuietOption, VerboseOption, text_option
from planner.cli.output import as_csv
from planner.cli.progress import Progress
from planner.deferred import deferred
from planner.inputs.bounded import table_lines

with deferred():
    from planner.calibrate import constants, processes, refit
    from planner.calibrate import overlay as calibrate_overlay
    from planner.calibrate import validate as calibrate_validate
    from planner.calibrate.runs import catalogue as runs_catalogue
    from planner.calibrate.runs import table as runs_table
    from planner.cli import validate_text

if TYPE_CHECKING:
    from planner.calibrate.overlay import Overlay
    from planner.calibrate.runs.table import RunTable
    from planner.calibrate.validate import Validation


RECORDS: Final = 100_000
"""Records between two searches for garbage in cycles. [-]"""


class Fold(StrEnum):
    """What the rows of a fold have in common."""

    source = "source"
    model = "model"
    accelerator = "accelerator"


def validate(
    runs: Annotated[Path, typer.Argument(help="A CSV file of measured runs, or - for standard input.")],
    out_of_fold: Annotated[
        Fold | None,
        typer.Option(
            "--out-of-fold",
            help="Price each row with constants fitted without its source, model or accelerator.",
        ),
    ] = None,
    overlay: Annotated[
        Path | None,
        text_option("FILE", "Constants that add to or replace those that ship, as YAML.", "--overlay"),
    ] = None,
    output: Annotated[Format, typer.Option("--format", help="Output format.")] = Format.table,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Predict every run of a table and report how far off the predictions are."""
    name = "standard input" if str(runs) == "-" else str(runs)
    on_top = calibrate_overlay.read_overlay(overlay) if overlay is not None else None
    with Progress(quiet, verbose) as progress, table_lines(runs) as lines:
        table = runs_table.read_runs(lines, name)
        for warning in table.warnings:
            progress.tell(f"note: {warning}")
        progress(0.0, f"pricing the runs of {name}")
        result = _validated(table, out_of_fold, on_top, progress)
        if blanks := blanks_told(table.blanks):
            progress.tell(f"note: {name}: {blanks}")
    if output is Format.json:
        sys.stdout.writelines(calibrate_validate.json_parts(result))
        sys.stdout.write("\n")
        return
    document = calibrate_validate.as_json(result)
    if output is Format.csv:
        text = as_csv(validate_text.as_rows(document))
    else:
        text = (
            validate_text.as_markdown(document)
            if output is Format.markdown
            else validate_text.as_text(document, name)
        )
    sys.stdout.write(text)


def _validated(table: RunTable, fold: Fold | None, overlay: Overlay | None, progress: Progress) -> Validation:
    """Price a table with the shipped constants, or with constants that have not seen the row's fold."""
    catalogue = runs_catalogue.shipped_catalogue()
    if fold is None:
        price = calibrate_overlay.predictions_of(constants.shipped_values(), overlay)
        with rare_collections():
            return calibrate_validate.validate(table.rows, catalogue, processes.shared_among_cores(price))

    def tell(line: str) -> None:
        progress.tell(f"{line}; {time.monotonic() - progress.started:.0f} s in all")

    return calibrate_validate.validate_out_of_fold(
        table.rows, catalogue, refit.Refit(overlay=overlay), fold.value, tell
    )


@contextmanager
def rare_collections() -> Iterator[None]:
    """Look for garbage in cycles only once many records were made: the records of rows have none."""
    usual = gc.get_threshold()
    gc.set_threshold(RECORDS, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)
