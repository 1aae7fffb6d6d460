"""``planner phases``: a training in phases of different lengths, a plan for each and one for all."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from planner.cli.options import (
    Format,
    OutputOptions,
    PlanOptions,
    Texts,
    Written,
    of_fields,
    spread,
    text_option,
)
from planner.cli.output import emit_document, emit_page, emit_rows
from planner.cli.search_goodput import read_rate
from planner.deferred import deferred
from planner.fields import FIELDS, JOB
from planner.question.reading import Reading

with deferred():
    from planner.cli import search
    from planner.report import phases as report_phases
    from planner.search import phases as search_phases

if TYPE_CHECKING:
    from planner.search.request import SearchRequest

LEFT_OUT: Final = ("seq_len", "global_batch", "tokens", "seq_lens", "max_tokens_per_rank")
"""Fields that phases say, or that have no meaning for several lengths."""

BATCH: Final = 4 * 2**20
"""Tokens of a step where nobody says, as Llama 3 began with (arXiv:2407.21783, sec. 3.4.1). [-]"""

Asked = tuple[list["SearchRequest"], list[float], float | None, dict[str, Any]]
"""Searches, tokens, the rate of storage, and the defaults taken."""


@of_fields(field for field in JOB if field.name not in LEFT_OUT)
class PhaseJobOptions(Written):
    """What is planned, the lengths left to the phases."""


@spread
def phases(
    job: PhaseJobOptions,
    plan: PlanOptions,
    shown: OutputOptions,
    phase: Annotated[Texts, text_option("LENGTH:TOKENS", "A phase: 8Ki:10T; given in order.")] = None,
    storage: Annotated[
        str | None, text_option("RATE", "Rate at which checkpoints are written and read: 40GB/s.")
    ] = None,
) -> None:
    """Plan a training whose sequences grow: the best plan for each phase, the switches, and one plan for all.

    Every phase has the same number of tokens per step. Exit code 1 means that some phase has no plan that
    fits.
    """
    requests, tokens, rate, defaults = read_phases({**job.said, **plan.said}, phase, storage)
    found = search_phases.plan_phases(requests, tokens, rate)
    if shown.output is Format.json:
        emit_document(report_phases.phases_document(found, defaults))
    elif shown.output is Format.csv:
        emit_rows(report_phases.phases_rows(found), shown.output)
    else:
        emit_page(report_phases.phases_page(found), shown.output)
    if found.own is None:
        raise typer.Exit(1)


def read_phases(said: dict[str, Any], texts: list[str] | None, storage: str | None) -> Asked:
    """Return the search of each phase, its tokens, the rate of storage, and the defaults taken.

    Raises `InputError` with every fault of the options.
    """
    reading = Reading()
    rate = read_rate(storage, reading)
    pairs = [_pair(text, reading) for text in texts or ()]
    if not texts:
        reading.fault("--phase", "nothing", "a phase or more: --phase 8Ki:10T --phase 128Ki:500B")
    batch = said.get("global_batch_tokens")
    size = BATCH if batch is None else reading.amount("global_batch_tokens", batch, binary=True)
    reading.finish()
    whole = math.lcm(*(length for length, _ in pairs))
    most = whole * math.ceil((size or BATCH) / whole)
    if batch is not None and most != size:
        expected = f"a multiple of the {whole} tokens that all lengths divide"
        reading.fault("global_batch_tokens", str(batch), expected, str(most))
    reading.finish()
    asked = [
        search.read({**said, "seq_len": str(length), "global_batch_tokens": str(most)}) for length, _ in pairs
    ]
    for question, request in asked[:1]:
        if len(request.clusters) * len(request.gpu_counts) * len(request.runtimes) > 1:
            reading.fault("--phase", "several clusters, counts or runtimes", "one of each")
        defaults = question.defaults | ({} if batch else {"global_batch_tokens": most})
    reading.finish()
    return [request for _, request in asked], [count for _, count in pairs], rate, defaults


def _pair(text: str, reading: Reading) -> tuple[int, float]:
    """Return length and tokens of a phase; a fault is noted."""
    length, colon, tokens = text.partition(":")
    if not colon:
        reading.fault("--phase", repr(text), "LENGTH:TOKENS, such as 8Ki:10T", f"{text}:1T")
        return 1, 1.0
    size = reading.length("--phase", length, int(FIELDS["seq_len"].most))
    count = reading.amount("--phase", tokens)
    return size or 1, count or 1.0
