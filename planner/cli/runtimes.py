"""``planner runtimes``: releases, one runtime in full, and what another release would change for a plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli.complete import runtime as complete
from planner.cli.options import Format, FormatOption, command_group
from planner.cli.output import emit_document, emit_page, emit_rows
from planner.deferred import deferred

with deferred():
    from planner.cli import plans, tables
    from planner.cost import price
    from planner.report import compare, flat, releases

if TYPE_CHECKING:
    from planner.report.plan_file import PlanFile

app = command_group("Runtimes and their releases, and what another release would change.")

ReleaseArgument = Annotated[
    str, typer.Argument(metavar="NAME@RELEASE", help="A runtime in a release.", autocompletion=complete)
]


@app.command("list")
def list_command(output: FormatOption = Format.table) -> None:
    """List the runtimes: newest release, number of known releases, files that can be written."""
    emit_rows(releases.runtime_rows(), output)


@app.command("show")
def show_command(
    name: Annotated[str, typer.Argument(help="A runtime.", autocompletion=complete)],
    output: FormatOption = Format.table,
) -> None:
    """Show one runtime: its releases, what each brings, and the measured runs behind it."""
    document = releases.runtime_document(name)
    if output is Format.json:
        typer.echo(json.dumps(document, indent=2))
        return
    emit_rows(releases.release_rows(document, output is Format.csv), output)
    if output is not Format.csv and document["measured"]:
        typer.echo()
        emit_rows(releases.measured_rows(document), output)


@app.command("diff")
def diff_command(
    first: ReleaseArgument,
    second: ReleaseArgument,
    plan: Annotated[Path, typer.Option(metavar="PLAN", help="A plan file to price on both.")],
    output: FormatOption = Format.table,
) -> None:
    """Price a plan on two releases and show what the second changes, term by term, in seconds and GiB.

    Traits that the plan file sets hold on both. Exit code 1 means that the plan breaks a rule or does not
    fit on one of them.
    """
    saved = plans.read_plan(plan)
    pair = [_on_release(saved, text) for text in (first, second)]
    if output is Format.json:
        emit_document(releases.diff_document(pair[0], pair[1]))
    elif output is Format.csv:
        emit_rows([{"name": one.name} | flat.flat_row(one.answer) for one in pair], output)
    else:
        emit_page(compare.compare_page(pair), output)
    if not all(one.answer.feasible for one in pair):
        raise typer.Exit(1)


def _on_release(saved: PlanFile, text: str) -> compare.NamedPlan:
    """Return a saved plan priced on a release, the traits that its file sets on top."""
    where = (saved.job.hardware.pool.accelerator.name, saved.job.workload.precision)
    found = tables.named_runtime(text, *where, label="NAME@RELEASE")
    own: dict[str, Any] = dict(
        tables.changed(saved.runtime.traits, tables.plain_traits(saved.runtime, *where))
    )
    found = found.with_traits(**own)
    answer = price.price(saved.plan, saved.job, found, saved.names.memory_limit)
    if isinstance(answer, price.Unpriced):
        raise answer.error()
    return compare.NamedPlan(f"{found.name}@{found.release}", answer)
