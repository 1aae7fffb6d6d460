"""``planner estimate``: one plan priced in full; nothing is searched."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli.from_file import AnyJobOptions, FromOption, asked_of
from planner.cli.notes import file_notes, job_notes
from planner.cli.options import (
    ForceOption,
    Format,
    JobOptions,
    OutputOptions,
    PlanOptions,
    spread,
    text_option,
)
from planner.cli.output import emit_document, emit_page, emit_rows
from planner.cli.printable import to_stderr
from planner.deferred import deferred
from planner.files import check_place, write_whole
from planner.question.reading import Reading

with deferred():
    from planner.cost import estimate as cost_estimate
    from planner.cost import price
    from planner.question import question as questions
    from planner.report import estimate_answer, estimate_page, flat, moments, plan_file, played, remedies

if TYPE_CHECKING:
    from planner.cli.from_file import Origin
    from planner.cost.estimate import Estimate
    from planner.plan import Plan
    from planner.report.plan_file import Names
    from planner.runtimes.family import Job, Runtime


@spread
def estimate(
    job: AnyJobOptions,
    plan: PlanOptions,
    shown: OutputOptions,
    context: typer.Context,
    source: FromOption = None,
    save: Annotated[Path | None, text_option("FILE", "Write the plan file here.")] = None,
    force: ForceOption = False,
) -> None:
    """Price one plan in full: time, memory by stage, traffic, cost, and what was assumed.

    Nothing is searched: degrees you leave out are 1, dp follows from the number of accelerators, zero is the
    runtime's default, and the answer lists every default used. Exit code 1 means that the plan breaks a rule
    or does not fit; the answer is still written in full.

    With --from, options are read from a runner's own file. Options given here override it; keys that were not
    understood are listed on standard error.
    """
    request = asked_of(source, job, plan, context)
    whole, chosen, runtime, defaults, names = request.read(read)
    check_place(save, force, "--save")
    answer = request.answered(price.price(chosen, whole, runtime, names.memory_limit))
    for line in (
        []
        if shown.quiet
        else [
            *request.notes(),
            *job_notes(whole.model, whole.workload, [whole.hardware], [whole.gpus]),
            *file_notes(whole.model, [(whole, runtime)]),
        ]
    ):
        to_stderr(f"note: {line}")
    listed = defaults | _taken_split(chosen, answer.plan)
    emit_estimate(answer, shown, defaults, listed, request.origin)
    if save is not None and isinstance(answer, cost_estimate.Estimate):
        names = request.saved_names(names, save, force)
        write_whole(save, plan_file.plan_yaml(whole, runtime, answer.plan, names), force, "--save")
    if not answer.feasible:
        raise typer.Exit(1)


def read(job: JobOptions, plan: PlanOptions) -> tuple[Job, Plan, Runtime, dict[str, Any], Names]:
    """Return job, plan, runtime, what was taken for what was not given, and the user's names.

    Raises `InputError` with every fault of the options.
    """
    reading = Reading()
    question = questions.read_question({**job.said, **plan.said}, reading, several=False)
    reading.finish()
    if question is None:
        raise AssertionError("a fault was not told")
    whole, chosen, runtime, defaults = questions.single_of(question)
    return whole, chosen, runtime, defaults, question.names(question.clusters[0][1])


def _taken_split(asked: Plan, priced: Plan) -> dict[str, Any]:
    """Return the layers of each stage where nobody gave them and there are several stages."""
    split = priced.stage_layers
    return {"stage_layers": split} if split and len(split) > 1 and asked.stage_layers is None else {}


def emit_estimate(
    answer: Estimate | price.Unpriced,
    shown: OutputOptions,
    told: dict[str, Any],
    defaults: dict[str, Any],
    origin: Origin | None = None,
) -> None:
    """Write an estimate in the format asked for; ``told`` are the defaults that people are shown."""
    output, told = shown.output, {} if shown.quiet else told
    short = None if isinstance(answer, price.Unpriced) or not remedies.lacks_memory(answer) else answer
    if output is Format.json:
        source = {"from": origin.as_dict()} if origin is not None else {}
        more = {"would_fit": remedies.remedy_document(short)} if short else {}
        emit_document(moments.whole_document(answer, defaults) | source | more)
    elif output is Format.csv:
        emit_rows([flat.flat_row(answer)], output)
    elif isinstance(answer, price.Unpriced):
        emit_page(estimate_page.estimate_page(answer, told), output)
    else:
        far = played.far_step(answer)
        late = played.played_page([far] if far else [])
        if shown.verbose:
            remedy = remedies.remedy_page(short) if short else []
            page = [*estimate_page.estimate_page(answer, told, remedy), *late]
        else:
            page = [*estimate_answer.estimate_answer(answer, told), *late]
        emit_page(page, output)
