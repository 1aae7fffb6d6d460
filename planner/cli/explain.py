"""``planner explain``: where the time and memory of a saved plan go, and what would change them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli.options import Format, OutputOptions, PlanArgument, spread, text_option
from planner.cli.output import emit_document, emit_page, emit_rows
from planner.cli.printable import to_stderr
from planner.cli.progress import Progress
from planner.cli.versions import version_notes
from planner.deferred import deferred
from planner.question.reading import Reading

with deferred():
    from planner.cli import plans
    from planner.cost import price
    from planner.question import formats
    from planner.report import explain as report_explain
    from planner.report import explain_formulas, explain_page, explain_ranks, explain_rivals
    from planner.search import optimise, request

if TYPE_CHECKING:
    from planner.cost.estimate import Estimate
    from planner.cost.price import Unpriced
    from planner.plan import Plan
    from planner.report.explain import Explanation
    from planner.report.explain_neighbours import Price
    from planner.report.plan_file import PlanFile

MOST_RIVALS = 30


@spread
def explain(
    plan: PlanArgument,
    shown: OutputOptions,
    formulas: Annotated[
        bool, typer.Option("--formulas", help="Show each term's formula, the numbers put in, and its source.")
    ] = False,
    term: Annotated[
        str | None, text_option("NAME", "The formulas of one term alone, such as tp_comm.")
    ] = None,
    ranks: Annotated[
        bool, typer.Option("--ranks", help="Show where each rank sits, and its place in every group.")
    ] = False,
    search: Annotated[
        bool, typer.Option("--search", help="Search the same job too: the runner-up, and why it lost.")
    ] = False,
) -> None:
    """Show where a plan's time and memory go, what limits it, and what each single change would do.

    The parts of the time add up to the step. Exit code 1 means that the plan breaks a rule or does not fit;
    the explanation is still written if the plan can be priced.
    """
    saved = read_saved(plan)
    with Progress(shown.quiet, shown.verbose) as progress:
        answer = priced(saved, plan)
        if formulas or term is not None:
            show_formulas(answer, term, shown.output)
            return
        if ranks:
            show_ranks(answer, shown.output)
            return
        progress(0.0, "pricing what one change would do")
        told = report_explain.explain(answer, pricer_of(saved))
        found = None
        if search:
            progress(0.0, "searching the same job")
            found = found_for(saved)
    emit_explanation(told, found, shown.output)
    if not answer.feasible:
        raise typer.Exit(1)


def emit_explanation(told: Explanation, found: tuple[Estimate, ...] | None, output: Format) -> None:
    """Write an explanation in the format asked for, with its rivals where they were searched."""
    if output is Format.json:
        rivals = {} if found is None else {"rivals": explain_rivals.rivals_document(told.answer, found)}
        emit_document(report_explain.explain_document(told) | rivals)
    elif output is Format.csv:
        emit_rows(flat_explanation(told), output)
    else:
        emit_page(
            [
                *explain_page.explain_page(told),
                *([] if found is None else explain_rivals.rivals_page(told.answer, found)),
            ],
            output,
        )


def flat_explanation(told: Explanation) -> list[dict[str, Any]]:
    """Return the parts of the step and the neighbours as rows with the same keys."""
    rows: list[dict[str, Any]] = [
        {"table": "waterfall", "name": part.name, "from": "", "to": "", "time_s": part.seconds,
         "share": part.seconds / told.answer.step, "peak_gib": None, "refused": ""}
        for part in told.parts
    ]  # fmt: skip
    for neighbour in told.neighbours:
        row = report_explain.neighbour_row(neighbour, told.answer)
        rows.append(
            {"table": "neighbours", "name": row["axis"], "from": row["from"], "to": row["to"],
             "time_s": row["step_time_s"], "share": row["change"], "peak_gib": row["peak_gib"],
             "refused": row["refused"]}
        )  # fmt: skip
    return rows


def found_for(saved: PlanFile) -> tuple[Estimate, ...]:
    """Return the best plans of a file's job, whatever its axes."""
    return optimise.search(request_of(saved)).plans


def request_of(saved: PlanFile) -> request.SearchRequest:
    """Return the search of a file's job, whatever its plan's axes."""
    job = saved.job
    return request.SearchRequest(
        model=job.model,
        clusters=(job.hardware,),
        gpu_counts=(job.gpus,),
        workload=job.workload,
        runtimes=(saved.runtime,),
        top=MOST_RIVALS,
        memory_limit=saved.names.memory_limit,
    )


def show_formulas(answer: Estimate, term: str | None, output: Format) -> None:
    """Write the formulas of all terms, or of one."""
    known = explain_formulas.terms_of(answer)
    reading = Reading()
    names = tuple(dict.fromkeys(use.term for use in known))
    wanted = reading.word("--term", term, names) if term is not None else None
    reading.finish()
    chosen = [use for use in known if wanted in (None, use.term)]
    if output in (Format.json, Format.csv):
        emit_document(explain_formulas.formulas_document(chosen))
    else:
        emit_page(explain_formulas.formulas_page(chosen), output)


def show_ranks(answer: Estimate, output: Format) -> None:
    """Write where each rank sits."""
    if output is Format.json:
        emit_document(explain_ranks.ranks_document(answer))
    elif output is Format.csv:
        emit_rows([*explain_ranks.rank_rows(answer)], output)
    else:
        emit_page(explain_ranks.ranks_page(answer), output)


def priced(saved: PlanFile, label: object) -> Estimate:
    """Return the price of a file's plan.

    Raises `UnsupportedPlan` if the plan's degrees leave no price; ``label`` names it.
    """
    answer = pricer_of(saved)(saved.plan)
    if isinstance(answer, price.Unpriced):
        raise answer.error(label)
    return answer


def read_saved(path: Path, among: bool = False, text: str | None = None) -> PlanFile:
    """Return what a plan file says, checked against its cluster; notes name a file ``among`` others."""
    saved = plans.read_plan(path, text)
    reading = Reading()
    formats.check_precision(saved.job.hardware, saved.job.workload, reading)
    reading.finish()
    place = f"{path}: " if among else ""
    for line in (*saved.notes, *version_notes([saved.job.hardware])):
        to_stderr(f"note: {place}{line}")
    return saved


def pricer_of(saved: PlanFile) -> Price:
    """Return a function that prices any plan of a file's job."""

    def price_of(plan: Plan) -> Estimate | Unpriced:
        return price.price(plan, saved.job, saved.runtime, saved.names.memory_limit)

    return price_of
