"""``planner goodput``: a saved plan on machines that fail."""

from __future__ import annotations

from typing import Annotated

import typer

from planner.cli.explain import priced, read_saved
from planner.cli.goodput_nodes import NodeOptions, goodput_nodes
from planner.cli.goodput_recoveries import goodput_recoveries
from planner.cli.options import Format, OutputOptions, PlanArgument, spread, text_option
from planner.cli.output import emit_document, emit_page, emit_rows
from planner.cli.search_goodput import FailureOptions
from planner.deferred import deferred
from planner.errors import Infeasible
from planner.question.reading import Reading

with deferred():
    from planner.cli import goodput_stragglers as slow_ranks
    from planner.report import as_json
    from planner.report import goodput as report_goodput


@spread
def goodput(
    plan: PlanArgument,
    shown: OutputOptions,
    checkpoint_time: Annotated[
        str | None, text_option("TIME", "How long training pauses to save: 30s.")
    ] = None,
    restart_time: Annotated[
        str | None, text_option("TIME", "Time from a failure until training resumes: 15min.")
    ] = None,
    device_mtbf: Annotated[
        str | None,
        text_option("TIME", "Mean time between failures of one accelerator. [default: Llama 3's, 2112d]"),
    ] = None,
    interval: Annotated[
        str | None, text_option("TIME", "Training between checkpoints: 1h. [default: the best]")
    ] = None,
    lose: Annotated[str | None, text_option("NODES", "Nodes lost: find the best plan on the others.")] = None,
    nodes_return: Annotated[
        str | None, text_option("NODES", "Nodes that join: find the best plan with them.")
    ] = None,
    stragglers: Annotated[
        str | None,
        text_option(
            "NAME:SHARE",
            "Spread of a rank's step: normal:3%, exponential:3%, or a log with the column seconds.",
        ),
    ] = None,
    failures: Annotated[
        str | None,
        text_option(
            "NAME", "Rate of failures: llama3, meta-a100 or a log as CSV; ranks the recoveries of the plan."
        ),
    ] = None,
    recovery: Annotated[
        str | None, text_option("NAME[:TIME]", "One recovery alone, with --failures.")
    ] = None,
    storage: Annotated[
        str | None,
        text_option(
            "RATE", "Rate at which checkpoints are read and written, with --failures or --lose: 40GB/s."
        ),
    ] = None,
    repair: Annotated[
        str | None, text_option("TIME", "Time until lost nodes are back: says whether to wait.")
    ] = None,
    fully_reshardable: Annotated[
        bool,
        typer.Option(
            "--fully-reshardable",
            help="The checkpoint was saved with Megatron's --dist-ckpt-optim-fully-reshardable.",
        ),
    ] = False,
) -> None:
    """Find how often a plan should save checkpoints, and its days and cost with failures.

    Failures are random; any failed accelerator stops the job, which resumes from its last checkpoint. With
    --failures: recoveries ranked by expected step time. With --lose or --nodes-return: the best plan on the
    nodes that are left, and whether switching pays. With --stragglers: what slow ranks cost, and whether
    backup workers or gradient codes pay. Exit code 1 means that the plan breaks a rule, does not fit, or
    never makes progress.
    """
    if stragglers is not None:
        slow_ranks.goodput_stragglers(plan, stragglers, shown)
        return
    if lose is not None or nodes_return is not None or repair is not None:
        goodput_nodes(plan, NodeOptions(lose, nodes_return, storage, repair, fully_reshardable), shown)
        return
    texts = {"--checkpoint-time": checkpoint_time, "--restart-time": restart_time,
             "--device-mtbf": device_mtbf, "--interval": interval}  # fmt: skip
    if failures is not None or recovery is not None:
        own = [name for name, text in texts.items() if text is not None]
        goodput_recoveries(plan, FailureOptions(failures, recovery, storage), own, shown)
        return
    reading = Reading()
    times = {name: reading.seconds(name, text) for name, text in texts.items()}
    for name in ("--checkpoint-time", "--restart-time"):
        if texts[name] is None:
            reading.fault(name, "nothing", "a time such as 30s or 15min, since sites differ")
    reading.finish()
    answer = priced(read_saved(plan), plan)
    save, restart = times["--checkpoint-time"] or 0.0, times["--restart-time"] or 0.0
    told = report_goodput.Failing(
        answer, times["--device-mtbf"] or report_goodput.SEEN_MTBF, save, restart, times["--interval"]
    )
    if not told.gets_on:
        raise Infeasible(f"the job fails every {told.mtbf:.3g} s and never reaches its next checkpoint")
    document = report_goodput.goodput_document(told)
    if shown.output is Format.json:
        emit_document(document)
    elif shown.output is Format.csv:
        row = {name: value for name, value in document.items() if name != "estimate"}
        emit_rows([as_json.plain(row)], shown.output)
    else:
        emit_page(report_goodput.goodput_page(told), shown.output)
    if not answer.feasible:
        raise typer.Exit(1)
