"""What `planner simulate` plays beside the passes of a bare pipeline: copies to the host, frozen layers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from planner.dataclasses import asdict, dataclass
from planner.question.reading import Reading, shown
from planner.report.page import Page, Table, significant
from planner.simulate.bare import BarePipeline
from planner.simulate.copies import CopiedStep
from planner.simulate.fill import Component, FilledStep, fill
from planner.simulate.trace import COMPUTE, Event
from planner.units import percent

if TYPE_CHECKING:
    from planner.techniques.schedules.engine import Timeline

COPIES = 4
"""Track of the copies in a trace."""

PIECES = 200_000
"""Most parts of frozen layers that are placed."""


@dataclass(frozen=True)
class WantedRival:
    """What the user asks for beside the passes."""

    copy: float = 0.0
    """Time of a copy of one chunk's activations, one way."""
    components: tuple[Component, ...] = ()
    """Frozen components."""
    parts: int | None = None
    """Parts of a frozen layer's batch; None: one for each micro-batch."""


@dataclass(frozen=True)
class SimulatedBeside:
    """What was played beside the passes."""

    wanted: WantedRival
    copied: CopiedStep | None = None
    filled: FilledStep | None = None

    def document(self) -> dict[str, Any]:
        """Return it for scripts: nothing where there is nothing."""
        told: dict[str, Any] = {}
        if self.copied is not None:
            stages = [asdict(record) for record in self.copied.records()]
            told["offload"] = {"copy_time": self.wanted.copy, "stages": stages}
        if self.filled is not None:
            told["fill"] = {name: value for name, value in asdict(self.filled).items() if name != "pieces"}
        return told

    def page(self) -> Page:
        """Return it for people."""
        told: Page = []
        if self.copied is not None:
            told += [_copy_line(self.wanted.copy), Table(tuple(_copy_rows(self.copied)))]
        if self.filled is not None:
            told.append(_fill_line(self.filled))
        return told

    def events(self, unit: float) -> Iterator[Event]:
        """Yield it for a trace; ``unit`` stands for one of its microseconds."""
        for rank, copies in enumerate(self.copied.copies if self.copied else ()):
            yield {"ph": "M", "name": "thread_name", "pid": rank, "tid": COPIES, "args": {"name": "copies"}}
            for copy in copies:
                way = "to host" if copy.down else "from host"
                place = {"chunk": copy.chunk, "microbatch": copy.microbatch}
                yield _event(
                    f"{copy.microbatch} {way}", "copy", (rank, COPIES), (copy.start, copy.end), unit
                ) | {"args": place}
        for piece in self.filled.pieces if self.filled else ():
            place = {"component": piece.component, "layer": piece.layer, "part": piece.part}
            name = f"frozen {piece.component}.{piece.layer}"
            yield _event(name, "frozen", (piece.rank, COMPUTE), (piece.start, piece.end), unit) | {
                "args": place
            }


def _event(name: str, kind: str, track: tuple[int, int], times: tuple[float, float], unit: float) -> Event:
    start, end = times
    return {
        "ph": "X",
        "name": name,
        "cat": kind,
        "pid": track[0],
        "tid": track[1],
        "ts": start / unit,
        "dur": (end - start) / unit,
    }


def read_beside(
    reading: Reading, copy_time: str | None, frozen: list[str] | None, parts: str | None
) -> WantedRival:
    """Return what the options ask for; faults are noted."""
    components = tuple(_component(reading, text) for text in frozen or ())
    count = reading.count("--fill-parts", parts)
    if parts is not None and not components:
        reading.fault("--fill-parts", shown(parts), "--fill beside it: parts of what")
    return WantedRival(reading.number("--copy-time", copy_time, 0.0) or 0.0, components, count)


def _component(reading: Reading, text: str) -> Component:
    try:
        layers = tuple(float(part) for part in text.split(","))
    except ValueError:
        layers = ()
    if layers and all(0 < layer < math.inf for layer in layers):
        return layers
    reading.fault("--fill", shown(text), "times of layers above zero, such as 3 or 2,2,5")
    return ()


def check_beside(reading: Reading, asked: BarePipeline, wanted: WantedRival) -> None:
    """Note what the schedule has no use for, and what is too much to play."""
    if wanted.copy and not asked.hosted:
        found = f"{wanted.copy:g} with {asked.schedule.name}"
        reading.fault("--copy-time", found, "a schedule that sends activations to the host, such as po-h")
    check_pieces(reading, wanted.parts or asked.microbatches, sum(map(len, wanted.components)))


def check_pieces(reading: Reading, parts: int, layers: int) -> None:
    """Note more parts of frozen layers than are placed."""
    if parts * layers > PIECES:
        most = max(1, PIECES // layers)
        reading.fault("--fill-parts", str(parts), f"at most {PIECES:,} parts of all layers", str(most))


def play_beside(
    asked: BarePipeline, wanted: WantedRival, spread: tuple[float, int]
) -> tuple[Timeline, SimulatedBeside]:
    """Play the pipeline, its copies, and the frozen components in its idle time."""
    copied = asked.played_with_copies(wanted.copy, *spread) if asked.hosted else None
    timeline = asked.played(*spread) if copied is None else copied.timeline
    filled = None
    if wanted.components:
        filled = fill(timeline, wanted.components, wanted.parts or asked.microbatches)
    return timeline, SimulatedBeside(wanted, copied, filled)


def _copy_line(copy: float) -> str:
    speed = f"{significant(copy)} each way" if copy else "no time at all (--copy-time)"
    return f"Activations of the first chunks of a rank wait on the host; the copy of one takes {speed}."


def _copy_rows(copied: CopiedStep) -> Iterator[dict[str, str]]:
    for record in copied.records():
        yield {
            "rank": str(record.stage),
            "copies to host": str(record.copies),
            "busy copying": significant(record.busy),
            "peak on device": str(record.peak_on_device),
            "peak on host": str(record.peak_on_host),
        }


def _fill_line(filled: FilledStep) -> str:
    return (
        f"Frozen layers take {significant(filled.frozen)}, of which {significant(filled.filled)} before the "
        f"pipeline ends. Step {significant(filled.step)}: the pipeline alone has "
        f"{significant(filled.makespan)}, frozen layers first {significant(filled.unfilled_step)}, and no "
        f"filling goes below {significant(filled.least_step)}. Idle afterwards {percent(filled.idle_share)}."
    )
