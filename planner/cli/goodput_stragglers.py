"""``planner goodput PLAN --stragglers``: what slow ranks cost, and whether redundancy pays."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import typer

from planner.cli.explain import priced, read_saved
from planner.cli.options import Format, OutputOptions
from planner.cli.output import emit_document, emit_page, emit_rows
from planner.deferred import deferred
from planner.errors import InputError, Problem
from planner.inputs.bounded import table_lines
from planner.question.reading import Reading
from planner.units import parse, percent

with deferred():
    from planner.cost import stragglers
    from planner.report import stragglers as report_stragglers

if TYPE_CHECKING:
    from planner.cost.stragglers import Quantile
    from planner.numeric import Column


def goodput_stragglers(plan: Path, text: str, shown: OutputOptions) -> None:
    """Tell what slow ranks cost a plan.

    Raises `InputError` if the distribution is none, or its log is wrong.
    """
    reading = Reading()
    found = read_distribution(text, reading)
    reading.finish()
    if found is None:
        raise AssertionError("a fault was not told")
    answer = priced(read_saved(plan), plan)
    told = stragglers.Straggling(answer, *found)
    if shown.output is Format.json:
        emit_document(report_stragglers.stragglers_document(told))
    elif shown.output is Format.csv:
        emit_rows([dict(vars(one)) for one in told.remedies], shown.output)
    else:
        emit_page(report_stragglers.stragglers_page(told), shown.output)
    if not answer.feasible:
        raise typer.Exit(1)


def read_distribution(text: str, reading: Reading) -> tuple[Quantile, str] | None:
    """Return the times of a rank over their mean and the words for them, or note what is wrong."""
    name, _, share = text.strip().partition(":")
    if name in ("normal", "exponential"):
        try:
            spread = parse(share, "-")
        except ValueError:
            spread = -1.0
        if not 0 < spread < 1:
            reading.fault("--stragglers", repr(text), f"{name}:SHARE with a share below 1", f"{name}:3%")
            return None
        return (stragglers.normal if name == "normal" else stragglers.exponential)(
            spread
        ), f"{name} times, {percent(spread)}"
    if not name.lower().endswith(".csv"):
        reading.fault("--stragglers", repr(text), "normal:3%, exponential:3% or a log as CSV", "normal:3%")
        return None
    times = reading.attempt(read_times, Path(text.strip()))
    return None if times is None else (stragglers.of_log(times), f"{len(times):,} times of {text.strip()}")


def read_times(path: Path) -> Column:
    """Return the column ``seconds`` of a log.

    Raises `InputError` if it is missing, or a number in it is wrong.
    """
    with table_lines(path) as lines:
        rows = list(csv.DictReader(lines))
    if not rows or "seconds" not in rows[0]:
        raise InputError(Problem(str(path), "no column seconds", "a CSV with the column seconds"))
    found = []
    for number, row in enumerate(rows, 2):
        try:
            value = float(row["seconds"] or "")
        except ValueError:
            value = -1.0
        if not 0 < value < 1e9:
            raise InputError(Problem(f"{path}:{number}: seconds", repr(row["seconds"]), "a time above 0"))
        found.append(value)
    return np.array(found)
