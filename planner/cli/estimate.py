"""``planner estimate``: one plan priced in full; nothing is searched."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli.from_file import AnyJobOptions, FromOption
from planner.cli.notes import job_notes
from planner.cli.options import ForceOption, Format, JobOptions, OutputOptions, PlanOptions, spread
from planner.cli.printable import to_stderr

if TYPE_CHECKING:
    from planner.cli.from_file import Origin
    from planner.cost.estimate import Estimate
    from planner.cost.price import Unpriced
    from planner.plan import Plan
    from planner.report.plan_file import Names
    from planner.runtimes._family import Job, Runtime


@spread
def estimate(
    job: AnyJobOptions,
    plan: PlanOptions,
    shown: OutputOptions,
    context: typer.Context,
    source: FromOption = None,
    save: Annotated[Path | None, typer.Option(help="Write the plan file here.", show_default=False)] = None,
    force: ForceOption = False,
) -> None:
    """Price one plan in full: time, memory by stage, traffic, cost, and what was assumed.

    Nothing is searched: degrees that are not given are 1, dp follows from the accelerators, zero is the
    runtime's default, and the answer lists every value taken so. Exit code 1 means that the plan breaks a
    rule or does not fit; the answer is still written in full.

    With --from the options that a runner's own file stands for are read from it, those given here go before
    it, and the keys that were not understood are listed on standard error.
    """
    from planner.cli.from_file import asked_of
    from planner.cost.estimate import Estimate
    from planner.cost.price import price
    from planner.files import check_place, write_whole
    from planner.report.plan_file import plan_yaml

    request = asked_of(source, job, plan, context)
    whole, chosen, runtime, defaults, names = request.read(read)
    check_place(save, force, "--save")
    answer = price(chosen, whole, runtime, names.memory_limit)
    for line in (
        []
        if shown.quiet
        else [*request.notes(), *job_notes(whole.model, whole.workload, [whole.hardware], [whole.gpus])]
    ):
        to_stderr(f"note: {line}")
    listed = defaults | _taken_split(chosen, answer.plan)
    emit_estimate(answer, shown.output, {} if shown.quiet else defaults, listed, request.origin)
    if save is not None and isinstance(answer, Estimate):
        names = request.saved_names(names, save, force)
        write_whole(save, plan_yaml(whole, runtime, answer.plan, names), force, "--save")
    if not answer.feasible:
        raise typer.Exit(1)


def read(job: JobOptions, plan: PlanOptions) -> tuple[Job, Plan, Runtime, dict[str, Any], Names]:
    """Return job, plan, runtime, what was taken for what was not given, and the user's names.

    Raises
    ------
    InputError
        With every fault of the options.
    """
    from planner.question.question import read_question, single_of
    from planner.question.reading import Reading

    reading = Reading()
    question = read_question({**job.said, **plan.said}, reading, several=False)
    reading.finish()
    if question is None:
        raise AssertionError("a fault was not told")
    whole, chosen, runtime, defaults = single_of(question)
    return whole, chosen, runtime, defaults, question.names(question.clusters[0][1])


def _taken_split(asked: Plan, priced: Plan) -> dict[str, Any]:
    """Return the layers of each stage where nobody gave them and there are several stages."""
    split = priced.stage_layers
    return {"stage_layers": split} if split and len(split) > 1 and asked.stage_layers is None else {}


def emit_estimate(
    answer: Estimate | Unpriced,
    output: Format,
    told: dict[str, Any],
    defaults: dict[str, Any],
    origin: Origin | None = None,
) -> None:
    """Write an estimate in the format asked for; ``told`` are the defaults that people are shown."""
    from planner.cli.output import emit_document, emit_page, emit_rows
    from planner.cost.price import Unpriced
    from planner.report.estimate_page import estimate_page
    from planner.report.flat import flat_row
    from planner.report.moments import whole_document
    from planner.report.played import far_step, played_page
    from planner.report.remedies import lacks_memory, remedy_document, remedy_page

    short = None if isinstance(answer, Unpriced) or not lacks_memory(answer) else answer
    if output is Format.json:
        source = {"from": origin.as_dict()} if origin is not None else {}
        more = {"would_fit": remedy_document(short)} if short else {}
        emit_document(whole_document(answer, defaults) | source | more)
    elif output is Format.csv:
        emit_rows([flat_row(answer)], output)
    else:
        far = None if isinstance(answer, Unpriced) else far_step(answer)
        remedy = remedy_page(short) if short else []
        emit_page([*estimate_page(answer, told), *played_page([far] if far else []), *remedy], output)
