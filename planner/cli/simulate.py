"""``planner simulate``: one step of a plan or of a bare pipeline, played event by event."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from planner.cli.options import ForceOption, Format, FormatOption, QuietOption, VerboseOption, text_option
from planner.cli.output import emit_document
from planner.cli.progress import Progress
from planner.cli.simulate_asked import MOST_SIMULATED_PASSES, SYNTHESIZED, Answer, check_size
from planner.cli.simulate_beside import SimulatedBeside, WantedRival, check_beside, play_beside, read_beside
from planner.cli.simulation_page import document, figures, show
from planner.deferred import deferred
from planner.errors import UnsupportedPlan
from planner.question.reading import Reading, shown
from planner.question.synthesis import MOST_RANKS, fault_missing, read_times
from planner.simulate.bare import BarePipeline
from planner.simulate.record import step_record
from planner.simulate.trace import trace
from planner.techniques.schedules import SCHEDULES, Schedule
from planner.techniques.schedules.engine import Timeline

with deferred():
    from planner.cli import simulate_plan, simulate_synthesized


def simulate(
    plan: Annotated[
        Path | None,
        typer.Argument(
            metavar="[PLAN]", help="A plan file saved by `search` or `estimate`, or - for standard input."
        ),
    ] = None,
    schedule: Annotated[
        str | None, text_option("NAME", "Order of the passes; `synthesized` makes one.")
    ] = None,
    pp: Annotated[str | None, text_option("P", "Pipeline ranks.")] = None,
    vpp: Annotated[
        str | None, text_option("V", "Chunks on each rank. [default: the fewest that the schedule has]")
    ] = None,
    microbatches: Annotated[str | None, text_option("M", "Micro-batches of the step.")] = None,
    pass_times: Annotated[
        str | None,
        text_option(
            "F,B,W[,P2P]",
            "Times of one chunk in any unit: forward, input gradient, weight gradient, message; for a "
            "synthesized schedule also of each chunk, joined by semicolons.",
        ),
    ] = None,
    memory_limit: Annotated[
        str | None,
        text_option(
            "UNITS", "Chunks whose activations a rank of a synthesized schedule may hold. [default: all]"
        ),
    ] = None,
    kept_share: Annotated[
        str | None,
        text_option("X", "Share of a chunk's activations kept from input to weight gradient. [default: 1]"),
    ] = None,
    objective: Annotated[
        str | None,
        text_option(
            "makespan|span",
            "What a synthesized schedule minimises: the step, or the longest time from first start "
            "to last end on one rank. [default: makespan]",
        ),
    ] = None,
    time_limit: Annotated[
        str | None, text_option("S", "Seconds to look for a schedule. [default: 20]")
    ] = None,
    copy_time: Annotated[
        str | None,
        text_option(
            "T", "Time to copy a chunk's saved activations to the host, or back, if the schedule does."
        ),
    ] = None,
    fill: Annotated[
        list[str] | None,
        text_option(
            "T,T,...",
            "Times of a frozen component's layers, to run in idle time; once for each component. "
            "Beside a PLAN in seconds, or `encoder` for its frozen one.",
        ),
    ] = None,
    fill_parts: Annotated[
        str | None, text_option("N", "Parts of a frozen layer's batch. [default: the micro-batches]")
    ] = None,
    sends_occupy: Annotated[
        bool, typer.Option("--sends-occupy", help="A message blocks its sender's next pass.")
    ] = False,
    jitter: Annotated[str | None, text_option("X", "Relative spread of pass times, such as 0.05.")] = None,
    seed: Annotated[str | None, text_option("N", "Seed of the spread. [default: 0]")] = None,
    trace_file: Annotated[
        Path | None, text_option("FILE", "Write a trace for Chrome or Perfetto.", "--trace")
    ] = None,
    ascii_picture: Annotated[bool, typer.Option("--ascii", help="Draw the step in 80 columns.")] = False,
    force: ForceOption = False,
    output: FormatOption = Format.table,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Simulate one step pass by pass: makespan, bubble, and what each rank does and holds.

    Takes a saved PLAN, with the cost model's times in seconds, or a bare pipeline described by --schedule,
    --pp, --microbatches and --pass-times.
    """
    reading = Reading()
    spread = reading.number("--jitter", jitter, 0.0) or 0.0
    start = reading.count("--seed", seed, least=0) or 0
    answer = Answer(trace_file, ascii_picture, force, output, Progress(quiet, verbose))
    bare = {
        "--schedule": schedule, "--pp": pp, "--vpp": vpp, "--microbatches": microbatches,
        "--pass-times": pass_times,
    }  # fmt: skip
    wishes = {
        "--memory-limit": memory_limit, "--kept-share": kept_share, "--objective": objective,
        "--time-limit": time_limit,
    }  # fmt: skip
    extras = {
        "--copy-time": copy_time, "--fill": " ".join(fill or ()) or None, "--fill-parts": fill_parts,
    }  # fmt: skip
    if plan is not None:
        alone = wishes | {"--copy-time": copy_time, "--sends-occupy": "set" if sends_occupy else None}
        for option, text in (bare | alone).items():
            if text is not None:
                reading.fault(option, shown(text), "no such option beside a plan, which says it itself")
        simulate_plan.simulate_plan(plan, reading, (spread, start), answer, (fill or [], fill_parts))
        return
    if schedule is not None and schedule.strip().lower() in SYNTHESIZED:
        for option, text in extras.items():
            if text is not None:
                reading.fault(option, shown(text), f"no such option beside --schedule {SYNTHESIZED[0]}")
        simulate_synthesized.simulate_synthesized(
            reading, bare | wishes, sends_occupy, (spread, start), answer
        )
        return
    for option, text in wishes.items():
        if text is not None:
            reading.fault(option, shown(text), f"no such option without --schedule {SYNTHESIZED[0]}")
    wanted = read_beside(reading, copy_time, fill, fill_parts)
    asked = read_bare(reading, bare, sends_occupy)
    check_beside(reading, asked, wanted)
    reading.finish()
    play_bare(asked, wanted, (spread, start), answer)


def play_bare(asked: BarePipeline, wanted: WantedRival, spread: tuple[float, int], answer: Answer) -> None:
    """Play a schedule, and tell it.

    Raises `UnsupportedPlan` if the schedule cannot run these numbers.
    """
    output = answer.output
    if asked.reasons:
        if output is Format.json:
            emit_document(document(asked.schedule.name, None) | {"violations": list(asked.reasons)})
        raise UnsupportedPlan("\n".join(asked.reasons))
    answer.check_trace(asked.pp * asked.vpp, asked.microbatches)
    with answer.progress as progress:
        progress(0.0, f"playing {asked.title}")
        timeline, beside = play_beside(asked, wanted, spread)
        answer.write_trace(lambda: bare_trace(timeline, asked, beside))
    step = step_record(timeline)
    show(
        asked.schedule.name,
        f"{asked.title} {figures(step)}; times in the unit of the pass times.",
        step,
        output,
        beside,
    )
    answer.draw(timeline, asked.pp, asked.pp * asked.vpp)


def bare_trace(timeline: Timeline, asked: BarePipeline, beside: SimulatedBeside) -> dict[str, Any]:
    """Return the trace of a bare pipeline and what ran beside it; a unit of time is a millisecond."""
    told = trace(timeline, asked.pipeline, unit=0.001)
    told["traceEvents"] += beside.events(unit=0.001)
    return told


def read_bare(reading: Reading, given: Mapping[str, str | None], sends_occupy: bool) -> BarePipeline:
    """Return the bare pipeline that the options describe.

    Raises `InputError` with all faults of the options, those noted before included.
    """
    fault_missing(reading, {option: text for option, text in given.items() if option != "--vpp"})
    entry = reading.named("--schedule", given["--schedule"], SCHEDULES)
    ranks = reading.count("--pp", given["--pp"], most=MOST_RANKS)
    chunks = reading.count("--vpp", given["--vpp"], most=MOST_RANKS)
    passes = reading.count("--microbatches", given["--microbatches"], most=MOST_SIMULATED_PASSES)
    times = read_times(reading, given["--pass-times"])
    if ranks and passes:
        check_size(reading, ranks * (chunks or 1), passes, "--microbatches")
    reading.finish()
    if entry is None or ranks is None or passes is None or times is None:
        raise TypeError("a fault of the options was not noted")
    chunks = chunks or fewest_chunks(entry, ranks, passes)
    return BarePipeline(entry, ranks, chunks, passes, times, sends_occupy)


def fewest_chunks(schedule: Schedule, pp: int, microbatches: int) -> int:
    """Return the chunks per rank, 1 or 2, with which a schedule breaks fewer of its rules.

    Examples
    --------
    >>> fewest_chunks(SCHEDULES["1f1b"], 4, 8), fewest_chunks(SCHEDULES["zb-v"], 4, 8)
    (1, 2)
    """
    return min((1, 2), key=lambda vpp: len(schedule.supports(pp, vpp, microbatches)))
