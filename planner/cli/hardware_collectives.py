"""``planner hardware collectives``: what nccl-tests should show on a cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from planner.cli.complete import cluster
from planner.cli.options import Format, FormatOption, text_option
from planner.cli.output import emit_document, emit_page, emit_rows
from planner.deferred import deferred
from planner.question.reading import Reading

with deferred():
    from planner.inputs import load_hardware
    from planner.report import collectives


def collectives_command(
    name: Annotated[
        str, typer.Argument(metavar="CLUSTER", help="A cluster, or a profile's path.", autocompletion=cluster)
    ],
    gpus: Annotated[str | None, text_option("N", "Accelerators that take part. [default: two nodes]")] = None,
    size: Annotated[
        list[str] | None, text_option("SIZE", "Sizes such as 512MiB. [default: 1MiB to 16GiB]")
    ] = None,
    output: FormatOption = Format.table,
) -> None:
    """Predict time and bandwidth of collectives by size, to hold a run of nccl-tests against."""
    reading = Reading()
    profile = reading.attempt(load_hardware.load_hardware, name, "cluster name")
    count = reading.count("--gpus", gpus, least=2)
    sizes = [reading.memory("--size", text) for text in size or ()]
    if profile is not None:
        most = profile.pool.max_gpus
        if count is not None and count > most:
            reading.fault("--gpus", str(count), f"at most {most:.0f}, since {profile.name} has no more")
        count = count or int(min(2 * profile.pool.gpus_per_node, most))
    reading.finish()
    if profile is None or count is None:
        raise AssertionError("a fault was not told")
    known = [nbytes for nbytes in sizes if nbytes is not None] or collectives.SIZES
    if output is Format.json:
        emit_document([*collectives.collective_rows(profile, count, known)])
    elif output is Format.csv:
        emit_rows([*collectives.collective_rows(profile, count, known)], output)
    else:
        emit_page(collectives.collectives_page(profile, count, known), output)
