"""``planner goodput PLAN --lose N`` and ``--nodes-return N``: the best plan on what there is then."""

from __future__ import annotations

from pathlib import Path

import typer

from planner.cli.explain import priced, read_saved, request_of
from planner.cli.options import Format, OutputOptions
from planner.cli.output import emit_document, emit_page, emit_rows
from planner.cli.progress import Progress
from planner.cli.search_goodput import read_rate
from planner.dataclasses import dataclass
from planner.deferred import deferred
from planner.errors import Infeasible
from planner.question.reading import Reading

with deferred():
    from planner.report import nodes
    from planner.search import nodes as search_nodes


@dataclass(frozen=True)
class NodeOptions:
    """Nodes that are lost or come back, as the user wrote it."""

    lose: str | None
    back: str | None
    storage: str | None
    repair: str | None
    reshardable: bool


def goodput_nodes(plan: Path, asked: NodeOptions, shown: OutputOptions) -> None:
    """Tell the best plan after nodes are lost or come back.

    Raises `InputError` with every fault of the options; `Infeasible` if no plan fits on what is left, or none
    loads the checkpoint.
    """
    reading = Reading()
    fewer, more = reading.count("--lose", asked.lose), reading.count("--nodes-return", asked.back)
    repair = reading.seconds("--repair", asked.repair)
    if asked.lose is None and asked.repair is not None:
        reading.fault("--repair", "no --lose", "--lose NODES, whose repair it is")
    if asked.lose is not None and asked.back is not None:
        reading.fault("--nodes-return", "--lose too", "one of the two")
    if asked.storage is None:
        reading.fault("--storage", "nothing", "the rate of the storage of checkpoints, such as 40GB/s")
    rate = read_rate(asked.storage, reading)
    reading.finish()
    saved = read_saved(plan)
    answer = priced(saved, plan)
    size = saved.job.hardware.pool.gpus_per_node
    gpus = saved.job.gpus + size * ((more or 0) - (fewer or 0))
    most = saved.job.hardware.pool.max_gpus
    if gpus < 1:
        reading.fault("--lose", str(fewer), f"fewer than the {-(-saved.job.gpus // size)} nodes of the plan")
    if gpus > most:
        reading.fault("--nodes-return", str(more), f"at most {most:.0f} accelerators in all")
    reading.finish()
    with Progress(shown.quiet, shown.verbose) as progress:
        progress(0.0, f"searching {gpus} accelerators")
        found = search_nodes.after_change(
            answer, request_of(saved), search_nodes.Left(gpus, rate or 1.0, asked.reshardable, repair)
        )
    if found is None:
        raise Infeasible(f"no plan on {gpus:,} accelerators fits and loads the checkpoint")
    if shown.output is Format.json:
        emit_document(nodes.nodes_document(found))
    elif shown.output is Format.csv:
        document = nodes.nodes_document(found)
        emit_rows([{k: v for k, v in document.items() if not isinstance(v, dict)}], shown.output)
    else:
        emit_page(nodes.nodes_page(found), shown.output)
    if not answer.feasible:
        raise typer.Exit(1)
