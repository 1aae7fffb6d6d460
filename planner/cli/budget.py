"""``planner budget``: how large a model for so many FLOPs, dollars or days."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli import complete
from planner.cli.options import Format, OutputOptions, Texts, Written, of_fields, spread, text_option
from planner.cli.output import emit_document, emit_page, emit_rows
from planner.cli.progress import Progress
from planner.deferred import deferred
from planner.errors import InputError
from planner.fields import FIELDS
from planner.question.reading import Reading

with deferred():
    from planner.cli import search
    from planner.inputs import ladder, load
    from planner.report import budget as report_budget
    from planner.search import budget as search_budget

if TYPE_CHECKING:
    from planner.inputs.model import ModelSpec
    from planner.search.budget import Budget
    from planner.search.request import SearchRequest
    from planner.techniques.scaling_laws import ScalingLaw

KEPT = (
    "hardware", "gpus", "nodes", "gpus_per_node", "memory_limit", "seq_len", "global_batch",
    "global_batch_tokens", "precision", "optimizer", "price", "runtime", "changes",
)  # fmt: skip
"""The options of a search that leave the model open."""


@of_fields(FIELDS[name] for name in KEPT)
class ClusterOptions(Written):
    """What is planned, as the user wrote it, the model left open."""


@spread
def budget(
    cluster: ClusterOptions,
    shown: OutputOptions,
    models: Annotated[
        Texts,
        typer.Argument(
            metavar="MODEL",
            help="Sizes to choose from. [default: those of --family]",
            show_default=False,
            autocompletion=complete.model,
        ),
    ] = None,
    flops: Annotated[str | None, text_option("F", "Model FLOPs of the training: 1e24.")] = None,
    dollars: Annotated[str | None, text_option("D", "Money for accelerators: 1M.")] = None,
    days: Annotated[str | None, text_option("D", "Days of training at most.")] = None,
    family: Annotated[
        str | None, text_option("NAME", "Sizes by rule: llama or gpt. [default: llama]")
    ] = None,
    law: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Scaling law: besiroglu, hoffmann, or chinchilla (20 tokens per parameter)."
        ),
    ] = "besiroglu",
) -> None:
    """Choose a model's size and tokens for a budget, each size at the speed of its best plan.

    The sizes of a family are searched one by one; the scaling law says which has the lowest loss after the
    tokens that the budget buys. Exit code 1 means that no size fits.
    """  # fmt: skip
    asked = read_budget(
        cluster, models, {"--flops": flops, "--dollars": dollars, "--days": days}, family, law
    )
    request, sizes, spending, chosen, defaults = asked
    with Progress(shown.quiet, shown.verbose) as progress:
        found = search_budget.sized(request, sizes, spending, chosen, progress)
    if shown.output is Format.json:
        emit_document(report_budget.budget_document(found))
    elif shown.output is Format.csv:
        emit_rows(report_budget.budget_rows(found), shown.output)
    else:
        emit_page(report_budget.budget_page(found, {} if shown.quiet else defaults), shown.output)
    if found.best is None:
        raise typer.Exit(1)


def read_budget(
    cluster: ClusterOptions,
    models: list[str] | None,
    parts: dict[str, str | None],
    family: str | None,
    law: str,
) -> tuple[SearchRequest, tuple[ModelSpec, ...], search_budget.Budget, ScalingLaw, dict[str, Any]]:
    """Return the search of one size, the sizes, what may be spent, the law, and the defaults taken.

    Raises `InputError` with every fault of the options.
    """
    from planner.techniques.scaling_laws import SCALING_LAWS

    reading = Reading()
    amounts = [reading.amount(name, text) for name, text in parts.items()]
    if all(text is None for text in parts.values()):
        reading.fault("--flops", "nothing", "a budget: --flops 1e24, --dollars 1M or --days 60")
    chosen = reading.named("--law", law, SCALING_LAWS)
    if models and family is not None:
        reading.fault("--family", "models of your own too", "one of the two")
    reading.word("--family", family, tuple(ladder.LADDERS))
    lead = (models or ["llama3-8b" if family != "gpt" else "gpt3-175b"])[0]
    try:
        asked, request = search.read({**cluster.said, "model": lead, "top": 1, "uniform": True})
    except InputError as error:
        reading.problems += error.problems
    reading.finish()
    if chosen is None:
        raise AssertionError("a fault was not told")
    spending = search_budget.Budget(*amounts)
    check_budget(request, spending, reading)
    sizes = _sizes(models, family, request, spending, chosen, reading)
    reading.finish()
    return request, sizes, spending, chosen, asked.defaults | _defaults(models, family)


def _defaults(models: list[str] | None, family: str | None) -> dict[str, Any]:
    return {} if models or family else {"family": "llama"}


def check_budget(request: SearchRequest, spending: Budget, reading: Reading) -> None:
    """Note several clusters or counts, and money where nothing has a price."""
    if len(request.clusters) > 1:
        reading.fault("--hardware", f"{len(request.clusters)} clusters", "one")
    if len(request.gpu_counts) > 1:
        reading.fault("--gpus", f"{len(request.gpu_counts)} counts", "one number of accelerators")
    if spending.usd is not None and request.clusters[0].pool.price_per_hour is None:
        reading.fault("--dollars", "no price of the accelerators", "--price USD_PER_HOUR")
    reading.finish()


def _sizes(
    models: list[str] | None,
    family: str | None,
    request: SearchRequest,
    spending: Budget,
    law: ScalingLaw,
    reading: Reading,
) -> tuple[ModelSpec, ...]:
    """Return the models to search: the user's own, or those of a family near what the peak would train."""
    if models:
        loaded = [reading.attempt(load.load_model, text) for text in models]
        return tuple(model for model in loaded if model is not None)
    at_peak = law.best_size(search_budget.peak_budget(request, spending))
    return search_budget.within_reach(
        ladder.WIDTHS, ladder.LADDERS[(family or "llama").strip().lower()], at_peak
    )
