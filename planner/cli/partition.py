"""``planner partition``: any graph of layers cut into the stages of a pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli.options import Format, OutputOptions, spread, text_option
from planner.cli.output import emit_document, emit_page, emit_rows
from planner.cli.progress import Progress
from planner.deferred import deferred
from planner.question.reading import Reading
from planner.report.page import Table, counted, significant
from planner.units import GIB, parse, show

with deferred():
    from planner.inputs import layer_graph
    from planner.search.graph import cut as graph_cut
    from planner.search.graph import problem as graph_problem

if TYPE_CHECKING:
    from planner.report.page import Page
    from planner.search.graph.cut import Cut
    from planner.search.graph.problem import CutProblem, CutStage


@spread
def partition(
    graph: Annotated[
        Path,
        typer.Argument(metavar="GRAPH", help="A YAML, JSON or CSV file of layers with times and bytes."),
    ],
    shown: OutputOptions,
    stages: Annotated[str, text_option("N", "Stages to cut it into.")],
    microbatches: Annotated[
        str | None, text_option("M", "Micro-batches of a step. [default: the stages]")
    ] = None,
    memory_limit: Annotated[str | None, text_option("GIB", "What a stage may hold under 1F1B.")] = None,
    link: Annotated[
        str | None, text_option("RATE", "Link between two stages: 50 GB/s. [default: messages take no time]")
    ] = None,
    time_limit: Annotated[
        str | None, text_option("S", "Seconds to look for the best cut. [default: 20]")
    ] = None,
) -> None:
    """Cut a graph of layers into stages with the fastest bottleneck, each within a memory limit.

    A layer is never on an earlier stage than its inputs. Stages send only to the next one, and hold
    activations as 1F1B does. Exit code 1 means that no cut fits the limit.
    """
    reading = Reading()
    found = reading.attempt(layer_graph.load_graph, graph)
    count = reading.count("--stages", stages)
    passes = reading.count("--microbatches", microbatches)
    limit = reading.memory("--memory-limit", memory_limit)
    seconds = reading.number("--time-limit", time_limit, 0.01)
    rate = float("inf")
    if link is not None:
        try:
            rate = parse(link, "byte/s")
        except ValueError as error:
            reading.fault("--link", repr(link), str(error), "50 GB/s")
        if rate <= 0:
            reading.fault("--link", repr(link), "a rate above zero", "50 GB/s")
    if found is not None and count is not None and count > len(found.layers):
        most = str(len(found.layers))
        reading.fault("--stages", str(count), f"at most the {most} layers of {graph}", most)
    reading.finish()
    if found is None or count is None:
        raise AssertionError("a fault was not told")
    problem = graph_problem.CutProblem(found, count, passes or count, limit or float("inf"), rate)
    with Progress(shown.quiet, shown.verbose) as progress:
        progress(0.1, f"cutting {graph}")
        cut = graph_cut.best_cut(problem, seconds or graph_cut.TIME_LIMIT)
    parts = graph_problem.cut_stages(problem, cut.stages)
    if shown.output is Format.json:
        emit_document(partition_document(problem, cut, parts))
    elif shown.output is Format.csv:
        emit_rows(partition_document(problem, cut, parts)["stages"], shown.output)
    else:
        emit_page(partition_page(problem, cut, parts), shown.output)


def partition_document(problem: CutProblem, cut: Cut, parts: list[CutStage]) -> dict[str, Any]:
    """Return a cut as JSON, schema ``planner/partition/1``."""
    slowest = max(part.seconds for part in parts)
    return {
        "schema": "planner/partition/1",
        "microbatches": problem.microbatches,
        "slowest_s": slowest,
        "step_at_least_s": step_seconds(problem, parts),
        "optimality": {"method": "milp", "proved": cut.proved, "bound_s": cut.bound},
        "stages": [
            {
                "stage": place,
                "layers": list(part.layers),
                "compute_s": part.compute,
                "messages_s": part.messages,
                "total_gib": part.held / GIB,
            }
            for place, part in enumerate(parts)
        ],
    }


def step_seconds(problem: CutProblem, parts: list[CutStage]) -> float:
    """Return what a step takes at least: one micro-batch through all, the others on the slowest stage. [s]"""
    each = [part.seconds for part in parts]
    return sum(each) + (problem.microbatches - 1) * max(each)


def partition_page(problem: CutProblem, cut: Cut, parts: list[CutStage]) -> Page:
    """Return a cut for people."""
    slowest = max(part.seconds for part in parts)
    even = sum(part.compute for part in parts) / len(parts)
    proof = "no cut is better" if cut.proved else f"no cut is below {show(cut.bound, 's')}"
    head = (
        f"{counted(len(problem.graph.layers), 'layer')} on {counted(len(parts), 'stage')}: the slowest takes "
        f"{show(slowest, 's')} for a micro-batch, {slowest / even:.2f} times an even share of compute; "
        f"{proof}."
    )
    rows = tuple(
        {
            "stage": str(place),
            "layers": spelled(part.layers),
            "compute s": significant(part.compute),
            "messages s": significant(part.messages),
            "GiB": significant(part.held / GIB, 3),
        }
        for place, part in enumerate(parts)
    )
    passes = counted(problem.microbatches, "micro-batch").replace("batchs", "batches")
    return [head, Table(rows), f"A step of {passes} takes {show(step_seconds(problem, parts), 's')} or more."]


def spelled(names: tuple[str, ...]) -> str:
    """Return the names of a stage's layers, the first and the last of many.

    Examples
    --------
    >>> spelled(("a", "b")), spelled(("a", "b", "c", "d", "e"))
    ('a b', 'a ... e (5)')
    """
    return " ".join(names) if len(names) <= 4 else f"{names[0]} ... {names[-1]} ({len(names)})"
