"""``planner validate``: predicted against measured, for a table of runs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from planner.cli.options import Format
from planner.cli.output import as_csv
from planner.errors import InputError, Problem


def validate(
    runs: Annotated[Path, typer.Argument(help="A CSV file of measured runs, or - for standard input.")],
    output: Annotated[Format, typer.Option("--format", help="How the answer is printed.")] = Format.table,
) -> None:
    """Price every run of a table and tell how far the predictions are from what was measured."""
    from planner.calibrate.catalogue import shipped_catalogue
    from planner.calibrate.pricing import cost_predictions
    from planner.calibrate.run_table import read_runs
    from planner.calibrate.validate import as_json, validate
    from planner.cli.validate_text import as_markdown, as_rows, as_text

    name = "standard input" if str(runs) == "-" else str(runs)
    with opened(runs) as lines:
        table = read_runs(lines, name)
        for warning in table.warnings:
            typer.echo(f"note: {warning}", err=True)
        document = as_json(validate(table.rows, shipped_catalogue(), cost_predictions))
    if output is Format.json:
        text = json.dumps(document, allow_nan=False) + "\n"
    elif output is Format.csv:
        text = as_csv(as_rows(document))
    else:
        text = as_markdown(document) if output is Format.markdown else as_text(document, name)
    sys.stdout.write(text)


@contextmanager
def opened(path: Path) -> Iterator[Iterable[str]]:
    """Open a run table; what is not UTF-8 is read as marks that no number has.

    Raises
    ------
    InputError
        If it cannot be read.
    """
    if str(path) == "-":
        yield sys.stdin
        return
    try:
        stream = path.open(encoding="utf-8", errors="replace", newline="")
    except OSError as error:
        raise InputError(
            Problem("RUNS.csv", repr(str(path)), f"a readable file ({error.strerror})")
        ) from None
    with stream:
        yield stream
