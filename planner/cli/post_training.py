"""``planner rl``: reinforcement learning on a cluster, generation and training in turn or side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from planner.cli.options import Format, OutputOptions, Written, of_fields, spread, text_option
from planner.cli.output import emit_document, emit_page, emit_rows
from planner.deferred import deferred
from planner.fields import JOB
from planner.question.reading import Reading

with deferred():
    from planner.cli import search
    from planner.cost import rollout
    from planner.inputs import load_hardware
    from planner.report import post_training as report_post_training
    from planner.search import post_training as search_post_training

if TYPE_CHECKING:
    from planner.cost.rollout import Answers
    from planner.inputs.hardware import Pool
    from planner.search.request import SearchRequest

LEFT_OUT: Final = (
    "seq_len", "global_batch", "global_batch_tokens", "tokens", "document_tokens", "seq_lens",
    "max_tokens_per_rank", "images", "freeze_encoder", "train_projector",
)  # fmt: skip
"""Fields that prompts and answers say, or that have no meaning for them."""


@of_fields(field for field in JOB if field.name not in LEFT_OUT)
class PolicyOptions(Written):
    """What is trained and where, the lengths left to prompts and answers."""


USUAL: Final = {"prompts": 512, "samples": 8, "prompt_len": 512, "answer_len": 2048}
"""What is taken where nobody says: prompts, answers to each, tokens of both."""


def _count(name: str, text: str) -> Any:
    return typer.Option(metavar="N", help=f"{text} [default: {USUAL[name]}]", show_default=False)


@spread
def rl(
    job: PolicyOptions,
    shown: OutputOptions,
    prompts: Annotated[str | None, _count("prompts", "Prompts of a step.")] = None,
    samples: Annotated[str | None, _count("samples", "Answers to each prompt.")] = None,
    prompt_len: Annotated[str | None, _count("prompt_len", "Tokens of a prompt.")] = None,
    answer_len: Annotated[str | None, _count("answer_len", "Tokens of an answer, on average.")] = None,
    longest: Annotated[
        str | None, text_option("N", "Tokens of an answer, at most. [default: four times the mean]")
    ] = None,
    generate_on: Annotated[
        str | None,
        text_option(
            "NAME:N", "Accelerators of another cluster that generate while all of --hardware train: l40s:16."
        ),
    ] = None,
    reference: Annotated[
        bool, typer.Option("--reference/--no-reference", help="Whether a frozen copy scores answers too.")
    ] = True,
) -> None:
    """Place reinforcement learning: who generates, who trains, and how long a step takes.

    All accelerators generate, score and train in turn, or some generate the next answers while the others
    train, one step behind. Exit code 1 means that nothing fits.
    """
    said = {"prompts": prompts, "samples": samples, "prompt_len": prompt_len, "answer_len": answer_len}
    request, answers, defaults = read_post_training(job.said, said, longest)
    found = search_post_training.place(request, answers, reference, read_others(generate_on))
    if shown.output is Format.json:
        emit_document(report_post_training.post_training_document(found, defaults))
    elif shown.output is Format.csv:
        emit_rows(report_post_training.post_training_rows(found), shown.output)
    else:
        page = report_post_training.post_training_page(found, {} if shown.quiet else defaults)
        emit_page(page, shown.output)
    if not found.placements:
        raise typer.Exit(1)


def read_post_training(
    job: Mapping[str, Any], said: dict[str, str | None], longest: str | None
) -> tuple[SearchRequest, Answers, dict[str, Any]]:
    """Return the search of the training, what a step generates, and the defaults taken.

    Raises `InputError` with every fault of the options.
    """
    reading = Reading()
    flags = {name: f"--{name.replace('_', '-')}" for name in USUAL}
    read = {
        name: (reading.length if name.endswith("len") else reading.count)(flags[name], text)
        for name, text in said.items()
    }
    sizes = {name: USUAL[name] if read[name] is None else int(read[name] or 1) for name in USUAL}
    most = reading.length("--longest", longest) or 4 * sizes["answer_len"]
    if most < sizes["answer_len"]:
        reading.fault("--longest", f"{most:,}", "at least the mean of answers", str(sizes["answer_len"]))
    reading.finish()
    batch = sizes["prompts"] * sizes["samples"]
    length = sizes["prompt_len"] + sizes["answer_len"]
    question, request = search.read({**job, "seq_len": str(length), "global_batch": str(batch)})
    if len(request.clusters) * len(request.gpu_counts) > 1:
        reading.fault("--hardware", "several clusters or counts", "one of each")
    if request.model.diffusion is not None:
        reading.fault("MODEL", request.model.name, "a language model: others generate no answers")
    reading.finish()
    answers = rollout.Answers(
        sizes["prompts"],
        sizes["samples"],
        float(sizes["prompt_len"]),
        float(sizes["answer_len"]),
        float(most),
    )
    taken = {name: sizes[name] for name in USUAL if said[name] is None}
    return request, answers, question.defaults | taken


def read_others(text: str | None) -> tuple[Pool, int] | None:
    """Return the pool and the number of accelerators of another cluster; None where none is asked for.

    Raises `InputError` if it is no cluster with a number.
    """
    if text is None:
        return None
    reading = Reading()
    name, _, number = text.rpartition(":")
    if not name:
        reading.fault("--generate-on", text, "a cluster and a number, such as mi300x-8:16")
    reading.finish()
    count, profile = (
        reading.count("--generate-on", number),
        reading.attempt(load_hardware.load_hardware, name),
    )
    reading.finish()
    return None if profile is None or count is None else (profile.pool, count)
