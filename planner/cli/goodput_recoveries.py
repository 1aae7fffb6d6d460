"""``planner goodput PLAN --failures``: a saved plan with every way to go on after a failure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from planner.cli.explain import priced, read_saved
from planner.cli.options import OutputOptions
from planner.cli.search_goodput import check_reckoned, conditions_of, emit_reckoned
from planner.deferred import deferred
from planner.question.reading import Reading

with deferred():
    from planner.search import goodput

if TYPE_CHECKING:
    from planner.cli.search_goodput import FailureOptions


def goodput_recoveries(plan: Path, options: FailureOptions, unused: list[str], shown: OutputOptions) -> None:
    """Rank the recoveries of a plan by the expected time of its steps.

    Raises `InputError` with every fault of the options; `Infeasible` if no recovery keeps it going.
    """
    reading = Reading()
    for name in unused:
        reading.fault(name, "with --failures or --recovery", "one of the two")
    if options.storage is None:
        reading.fault("--storage", "nothing", "the rate of the storage of checkpoints, such as 40GB/s")
    known = conditions_of(options, reading)
    saved = read_saved(plan)
    if saved.job.workload.method != "full":
        reading.fault(
            "--failures", f"--method {saved.job.workload.method}", "--method full, whose state is counted"
        )
        reading.finish()
    answer = priced(saved, plan)
    found = goodput.reckoned(answer, known)
    check_reckoned(found)
    emit_reckoned(found, shown, (False, False))
    if not answer.feasible:
        raise typer.Exit(1)
