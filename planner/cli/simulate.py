"""``planner simulate``: one step of a bare pipeline, played event by event."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from planner.cli.files import write_whole
from planner.cli.options import ForceOption, Format, FormatOption
from planner.cli.output import emit_document, emit_page, emit_rows
from planner.cli.reading import Reading, shown
from planner.errors import UnsupportedPlan
from planner.report.page import Page, Table, significant
from planner.simulate.ascii import picture
from planner.simulate.bare import bare_step
from planner.simulate.engine import Pipeline
from planner.simulate.record import StepRecord, step_record
from planner.simulate.trace import trace
from planner.techniques.schedules import SCHEDULES, Schedule
from planner.techniques.schedules._family import PassTimes
from planner.units import GIB

SCHEMA: Final = "planner/simulate/1"
MOST_RANKS: Final = 4096
MOST_PASSES: Final = 2_000_000
TIMES: Final = "three or four numbers F,B,W[,P2P], F above zero and none below, such as 1,1,1 or 2,2,1,0.1"


@dataclass(frozen=True)
class BarePipeline:
    """What the user asks to play.

    Parameters
    ----------
    schedule : Schedule
        Whose order is played.
    pp, vpp, microbatches : int
        Ranks, chunks per rank, micro-batches.
    times : PassTimes
        Times of one chunk, in the user's unit.
    """

    schedule: Schedule
    pp: int
    vpp: int
    microbatches: int
    times: PassTimes

    @property
    def pipeline(self) -> Pipeline:
        """Places and times of the chunks."""
        ranks = self.schedule.chunk_ranks(self.pp, self.vpp)
        return Pipeline.uniform(ranks, self.times, self.schedule.routes)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the schedule cannot run these numbers."""
        return self.schedule.supports(self.pp, self.vpp, self.microbatches)


def simulate(
    schedule: Annotated[
        str | None, typer.Option(metavar="NAME", help="Order of the passes.", show_default=False)
    ] = None,
    pp: Annotated[str | None, typer.Option(metavar="P", help="Pipeline ranks.", show_default=False)] = None,
    vpp: Annotated[
        str | None,
        typer.Option(metavar="V", help="Chunks on each rank. [default: the fewest that the schedule has]"),
    ] = None,
    microbatches: Annotated[
        str | None, typer.Option(metavar="M", help="Micro-batches of the step.", show_default=False)
    ] = None,
    pass_times: Annotated[
        str | None,
        typer.Option(
            metavar="F,B,W[,P2P]",
            help="Times of one chunk in any unit: forward, input gradient, weight gradient, message.",
            show_default=False,
        ),
    ] = None,
    sends_occupy: Annotated[
        bool, typer.Option("--sends-occupy", help="Messages keep their senders from the next pass.")
    ] = False,
    jitter: Annotated[
        str | None, typer.Option(metavar="X", help="Relative spread of pass times, such as 0.05.")
    ] = None,
    seed: Annotated[str | None, typer.Option(metavar="N", help="Seed of the spread. [default: 0]")] = None,
    trace_file: Annotated[
        Path | None, typer.Option("--trace", metavar="FILE", help="Write a trace for Chrome or Perfetto.")
    ] = None,
    ascii_picture: Annotated[bool, typer.Option("--ascii", help="Draw the step in 80 columns.")] = False,
    force: ForceOption = False,
    output: FormatOption = Format.table,
) -> None:
    """Play one step of a pipeline pass by pass: makespan, bubble, and what each rank does and holds."""
    reading = Reading()
    spread = reading.number("--jitter", jitter, 0.0) or 0.0
    start = reading.count("--seed", seed, least=0) or 0
    asked = read_bare(reading, schedule, pp, vpp, microbatches, pass_times)
    if asked.reasons:
        if output is Format.json:
            emit_document(document(asked.schedule, None) | {"violations": list(asked.reasons)})
        raise UnsupportedPlan("\n".join(asked.reasons))
    numbers = (asked.pp, asked.vpp, asked.microbatches)
    timeline = bare_step(asked.schedule, *numbers, asked.times, sends_occupy, spread, start)
    if trace_file is not None:
        text = json.dumps(trace(timeline, asked.pipeline, unit=0.001), allow_nan=False)
        write_whole(trace_file, text, force, "--trace")
    show(asked, step_record(timeline), output)
    if ascii_picture:
        drawn = picture(timeline, asked.pp, asked.pp * asked.vpp)
        aside = output in (Format.json, Format.csv)
        fence = "```" if output is Format.markdown else ""
        lines = ["", fence, drawn, fence] if fence else ["", drawn] if output is Format.table else [drawn]
        (sys.stderr if aside else sys.stdout).write("\n".join(lines) + "\n")


def read_bare(
    reading: Reading,
    schedule: str | None,
    pp: str | None,
    vpp: str | None,
    microbatches: str | None,
    pass_times: str | None,
) -> BarePipeline:
    """Return the bare pipeline that the options describe.

    Raises
    ------
    InputError
        With all faults of the options, those noted before included.
    """
    given = {
        "--schedule": schedule, "--pp": pp, "--microbatches": microbatches, "--pass-times": pass_times,
    }  # fmt: skip
    for option, text in given.items():
        if text is None:
            reading.fault(option, "nothing", "a value: a bare pipeline has no default for it")
    entry = reading.named("--schedule", schedule, SCHEDULES)
    ranks = reading.count("--pp", pp, most=MOST_RANKS)
    chunks = reading.count("--vpp", vpp, most=MOST_RANKS)
    passes = reading.count("--microbatches", microbatches, most=MOST_PASSES)
    times = read_times(reading, pass_times)
    if ranks and passes and 3 * ranks * (chunks or 1) * passes > MOST_PASSES:
        most = max(1, MOST_PASSES // (3 * ranks * (chunks or 1)))
        reading.fault(
            "--microbatches", str(passes), f"at most {MOST_PASSES:,} passes on all ranks", str(most)
        )
    reading.finish()
    if entry is None or ranks is None or passes is None or times is None:
        raise TypeError("a fault of the options was not noted")
    return BarePipeline(entry, ranks, chunks or fewest_chunks(entry, ranks, passes), passes, times)


def read_times(reading: Reading, text: str | None) -> PassTimes | None:
    """Return pass times written ``F,B,W`` or ``F,B,W,P2P``; a fault is noted."""
    if text is None:
        return None
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    fine = len(numbers) in (3, 4) and all(0 <= number < math.inf for number in numbers) and numbers[0] > 0
    if not fine:
        reading.fault("--pass-times", shown(text), TIMES)
        return None
    return PassTimes(*numbers)


def fewest_chunks(schedule: Schedule, pp: int, microbatches: int) -> int:
    """Return the chunks per rank, 1 or 2, with which a schedule breaks fewer of its rules.

    Examples
    --------
    >>> fewest_chunks(SCHEDULES["1f1b"], 4, 8), fewest_chunks(SCHEDULES["zb-v"], 4, 8)
    (1, 2)
    """
    return min((1, 2), key=lambda vpp: len(schedule.supports(pp, vpp, microbatches)))


def document(schedule: Schedule, step: StepRecord | None) -> dict[str, Any]:
    """Return a simulation as the contract's JSON; its figures are null where it could not run."""
    head: dict[str, Any] = {"schema": SCHEMA, "schedule": schedule.name}
    if step is None:
        return head | {"makespan": None, "bubble": None, "longest_span": None, "stages": []}
    figures = {"makespan": step.makespan, "bubble": step.bubble, "longest_span": step.longest_span}
    return head | figures | {"stages": stage_rows(step)}


def stage_rows(step: StepRecord) -> list[dict[str, Any]]:
    """Return the figures of every rank under the contract's keys."""
    rows = []
    for stage in step.stages:
        row = asdict(stage)
        held = row.pop("peak_bytes")
        rows.append(row | {"peak_gib": None if held is None else held / GIB})
    return rows


def show(asked: BarePipeline, step: StepRecord, output: Format) -> None:
    """Write a simulation to standard output."""
    if output is Format.json:
        emit_document(document(asked.schedule, step))
    elif output is Format.csv:
        emit_rows(stage_rows(step), output)
    else:
        emit_page(page(asked, step), output)


def page(asked: BarePipeline, step: StepRecord) -> Page:
    """Return a simulation for people."""
    share = step.bubble / step.makespan if step.makespan else 0.0
    head = (
        f"{asked.schedule.name}: pp {asked.pp}, vpp {asked.vpp}, {asked.microbatches} micro-batches. "
        f"Makespan {significant(step.makespan)}, bubble {significant(step.bubble)} ({share:.1%} of it), "
        f"longest span of a rank {significant(step.longest_span)}; times in the unit of the pass times."
    )
    rows = tuple(
        {
            "rank": str(stage.stage),
            "busy": significant(stage.busy),
            "idle": f"{1 - stage.busy / step.makespan:.1%}" if step.makespan else "-",
            "forwards": str(stage.forwards),
            "backwards": str(stage.backwards),
            "weight passes": str(stage.weight_passes),
            "peak in flight": str(stage.peak_in_flight),
        }
        for stage in step.stages
    )
    return [head, Table(rows)]
