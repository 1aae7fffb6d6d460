"""What every way to simulate reads and answers with: limits, faults and telling."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from planner.cli.options import Format
from planner.cli.progress import Progress
from planner.dataclasses import dataclass
from planner.errors import InputError, Problem
from planner.files import write_whole
from planner.question.reading import Reading
from planner.simulate.ascii import picture
from planner.techniques.schedules.engine import Timeline

MOST_SIMULATED_PASSES: Final = 2_000_000
"""Passes of all ranks that `simulate` plays. [-]"""
SYNTHESIZED: Final = ("synthesized", "synthesised")
MOST_TRACED: Final = 100_000
"""Passes of a trace: about 100 MB, and as many as a viewer opens."""


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

        Raises `InputError` if one is asked for and the step has more than `MOST_TRACED` passes.
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


def check_size(reading: Reading, chunks: int, microbatches: int, option: str) -> None:
    """Note a step with more passes than are played."""
    if 3 * chunks * microbatches > MOST_SIMULATED_PASSES:
        most = max(1, MOST_SIMULATED_PASSES // (3 * chunks))
        reading.fault(
            option, str(microbatches), f"at most {MOST_SIMULATED_PASSES:,} passes on all ranks", str(most)
        )
