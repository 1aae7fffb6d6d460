"""``planner resume``: whether a job can go on under another plan, and what that moves."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from planner.cli.explain import priced, read_saved
from planner.cli.options import Format, OutputOptions, spread, text_option
from planner.cli.output import emit_document, emit_page, emit_rows
from planner.cli.search_goodput import read_rate
from planner.deferred import deferred
from planner.question.reading import Reading

with deferred():
    from planner.cost import resume as cost_resume
    from planner.report import resume as report_resume


@spread
def resume(
    old: Annotated[Path, typer.Argument(metavar="OLD", help="The plan that saved the checkpoint.")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="The plan that resumes from it.")],
    shown: OutputOptions,
    storage: Annotated[str | None, text_option("RATE", "Rate at which checkpoints are read: 40GB/s.")] = None,
    fully_reshardable: Annotated[
        bool,
        typer.Option(
            "--fully-reshardable", help="OLD saved with Megatron's --dist-ckpt-optim-fully-reshardable."
        ),
    ] = False,
) -> None:
    """Say whether a plan can resume from another plan's checkpoint, with which tool, and what moves.

    Exit code 1 means that it cannot.
    """
    reading = Reading()
    rate = read_rate(storage, reading)
    reading.finish()
    first, second = (priced(read_saved(path, True), path) for path in (old, new))
    told = cost_resume.Resume(first, second, rate, fully_reshardable)
    if shown.output is Format.json:
        emit_document(report_resume.resume_document(told))
    elif shown.output is Format.csv:
        flat = report_resume.resume_document(told)
        moves = flat["moves"] or {}
        emit_rows(
            [{name: flat[name] for name in ("loads", "tool", "direct_s", "through_storage_s")} | moves],
            shown.output,
        )
    else:
        emit_page(report_resume.resume_page(told), shown.output)
    if not told.verdict.loads:
        raise typer.Exit(1)
