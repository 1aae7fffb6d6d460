"""``planner compare``: plans side by side, or one plan on several clusters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from planner.cli.complete import cluster
from planner.cli.explain import priced, read_saved
from planner.cli.options import Format, OutputOptions, spread
from planner.cli.output import emit_document, emit_page, emit_rows
from planner.cli.progress import Progress
from planner.dataclasses import replace
from planner.deferred import deferred
from planner.errors import InputError, Problem
from planner.question.reading import Reading

with deferred():
    from planner.inputs import load_hardware
    from planner.question import formats
    from planner.report import compare as report_compare
    from planner.report import flat


@spread
def compare(
    plans: Annotated[
        list[Path],
        typer.Argument(
            metavar="PLAN...", help="Plan files saved by `search` or `estimate`; - is standard input."
        ),
    ],
    shown: OutputOptions,
    hardware: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Also price the plans on this cluster; repeatable.",
            show_default=False,
            autocompletion=cluster,
        ),
    ] = None,
) -> None:
    """Show plans side by side, and the terms behind each difference from the first.

    With --hardware every plan is also priced as it is on other clusters. Exit code 1 means that some plan
    breaks a rule or does not fit.
    """
    named, output = [], shown.output
    with Progress(shown.quiet, shown.verbose) as progress:
        for plan in read_all(plans, hardware or ()):
            named.append(plan)
            progress(0.0, f"{plan.name} is priced")
    if len(named) < 2:
        found = f"one plan, {plans[0]}" + (", on its own cluster" if hardware else "")
        raise InputError(Problem("PLAN...", found, "two plans or more, or --hardware with another cluster"))
    if output is Format.json:
        emit_document(report_compare.compare_document(named))
    elif output is Format.csv:
        emit_rows([{"name": plan.name} | flat.flat_row(plan.answer) for plan in named], output)
    else:
        emit_page(report_compare.compare_page(named), output)
    if not all(plan.answer.feasible for plan in named):
        raise typer.Exit(1)


def read_all(paths: Sequence[Path], clusters: Sequence[str]) -> Iterator[report_compare.NamedPlan]:
    """Yield every plan priced where it is for, and on the other clusters; names are made unlike.

    Raises `InputError` if a file or a cluster is wrong: all faults at once.
    """
    reading = Reading()
    saved = [reading.attempt(read_saved, path, len(paths) > 1) for path in paths]
    others = [
        reading.attempt(load_hardware.load_hardware, name, "cluster") for name in dict.fromkeys(clusters)
    ]
    for profile in others:
        for file in saved:
            if profile is not None and file is not None:
                formats.check_precision(profile, file.job.workload, reading)
    reading.finish()
    labels = short_names(paths)
    for label, file in zip(labels, saved, strict=True):
        if file is not None:
            yield report_compare.NamedPlan(label, priced(file, label))
    for profile in others:
        for label, file in zip(labels, saved, strict=True):
            if file is not None and profile is not None and profile.name != file.job.hardware.name:
                moved = replace(file, job=replace(file.job, hardware=profile))
                place = f"{label} on {profile.name}" if len(paths) > 1 else profile.name
                yield report_compare.NamedPlan(place, priced(moved, place))


def short_names(paths: Sequence[Path]) -> list[str]:
    """Return the stems of files, or their paths where stems are alike.

    Examples
    --------
    >>> short_names([Path("a/x.yaml"), Path("a/y.yaml")]), short_names([Path("a/x.yaml"), Path("b/x.yaml")])
    (['x', 'y'], ['a/x.yaml', 'b/x.yaml'])
    """
    stems = [path.stem for path in paths]
    if len(set(stems)) == len(stems):
        return stems
    texts = [str(path) for path in paths]
    alike = len(set(texts)) < len(texts)
    return [f"{number}: {text}" for number, text in enumerate(texts, 1)] if alike else texts
