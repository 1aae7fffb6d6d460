"""What every way to simulate reads and answers with: limits, faults and telling."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from planner.cli.options import Format
from planner.cli.progress import Progress
from planner.errors import InputError, Problem
from planner.files import write_whole
from planner.question.reading import Reading, shown
from planner.simulate.ascii import picture
from planner.techniques.schedules._engine import Timeline
from planner.techniques.schedules._family import PassTimes

MOST_RANKS: Final = 4096
MOST_PASSES: Final = 2_000_000
SYNTHESIZED: Final = ("synthesized", "synthesised")
LONGEST: Final = 1e12
"""The longest pass of a bare pipeline, in its unit."""
MOST_TRACED: Final = 100_000
"""Passes of a trace: about 100 MB, and as many as a viewer opens."""
TIMES: Final = "three or four numbers F,B,W[,P2P], F above zero and none below, such as 1,1,1 or 2,2,1,0.1"


@dataclass(frozen=True)
class Answer:
    """How a played step is told, beside its figures."""

    trace_file: Path | None
    drawn: bool
    force: bool
    output: Format
    progress: Progress

    def check_trace(self, chunks: int, microbatches: int) -> None:
        """Refuse a trace of so many passes that nothing could open it.

        Raises
        ------
        InputError
            If one is asked for and the step has more than `MOST_TRACED` passes.
        """
        passes = 3 * chunks * microbatches
        if self.trace_file is not None and passes > MOST_TRACED:
            most = max(1, MOST_TRACED // (3 * chunks))
            expected = f"at most {MOST_TRACED:,} in a trace, or no --trace"
            raise InputError(Problem("--trace", f"{passes:,} passes", expected, f"{most:,} micro-batches"))

    def write_trace(self, make: Callable[[], Any]) -> None:
        """Write the trace, where one is asked for."""
        if self.trace_file is not None:
            write_whole(self.trace_file, json.dumps(make(), allow_nan=False), self.force, "--trace")

    def draw(self, timeline: Timeline, pp: int, route_chunks: int) -> None:
        """Draw the step, where asked for: to standard error where the output is for scripts."""
        if not self.drawn:
            return
        drawn = picture(timeline, pp, route_chunks)
        aside = self.output in (Format.json, Format.csv)
        fence = "```" if self.output is Format.markdown else ""
        lines = ["", fence, drawn, fence] if fence else ["", drawn] if not aside else [drawn]
        (sys.stderr if aside else sys.stdout).write("\n".join(lines) + "\n")


def fault_missing(reading: Reading, given: Mapping[str, str | None]) -> None:
    """Note every option without a value that a bare pipeline needs."""
    for option, text in given.items():
        if text is None:
            reading.fault(option, "nothing", "a value: a bare pipeline has no default for it")


def check_size(reading: Reading, chunks: int, microbatches: int, option: str) -> None:
    """Note a step with more passes than are played."""
    if 3 * chunks * microbatches > MOST_PASSES:
        most = max(1, MOST_PASSES // (3 * chunks))
        reading.fault(option, str(microbatches), f"at most {MOST_PASSES:,} passes on all ranks", str(most))


def read_times(reading: Reading, text: str | None) -> PassTimes | None:
    """Return pass times written ``F,B,W`` or ``F,B,W,P2P``; a fault is noted."""
    if text is None:
        return None
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    fine = len(numbers) in (3, 4) and all(0 <= number <= LONGEST for number in numbers) and numbers[0] > 0
    if not fine:
        reading.fault("--pass-times", shown(text), TIMES)
        return None
    return PassTimes(*numbers)
