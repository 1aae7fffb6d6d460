"""A picture of a step in plain characters: one line for each rank, one column for each slice of time."""

from __future__ import annotations

from itertools import groupby
from typing import Final

from planner.techniques.schedules.engine import Timeline

WIDTH: Final = 80
IDLE: Final = "."
LETTERS: Final = {"F": "F", "B": "B", "W": "W", "BW": "D"}
MORE: Final = "-"
LEGEND: Final = (
    "F forward, B input gradient, W weight gradient, D both gradients, with the micro-batch where there "
    "is room; . idle; small letters: later chunks"
)


def picture(timeline: Timeline, pp: int, route_chunks: int, width: int = WIDTH) -> str:
    """Draw a step.

    A column shows what fills most of its slice of time: a pass is its letter and its micro-batch, if there is
    room. Chunks after the first of a route on a rank are in small letters.

    Parameters
    ----------
    timeline : Timeline
        The played step.
    pp : int
        Ranks.
    route_chunks : int
        Chunks that a micro-batch visits.
    width : int
        Columns of the whole picture.

    Returns
    -------
    str
        Lines of at most ``width`` columns, the legend last.
    """
    label = len(str(pp - 1))
    columns = width - label - 1
    lines = [f"{rank:>{label}} {_line(timeline, rank, pp, route_chunks, columns)}" for rank in range(pp)]
    return "\n".join([*lines, *_legend_lines(width)])


def _line(timeline: Timeline, rank: int, pp: int, route_chunks: int, columns: int) -> str:
    passes = timeline.orders[rank]
    line = ""
    for place, run in groupby(_fullest(timeline, rank, columns)):
        width = len(list(run))
        if place is None:
            line += IDLE * width
            continue
        kind, chunk, microbatch = passes[place]
        letter = LETTERS[kind] if chunk % route_chunks < pp else LETTERS[kind].lower()
        label = f"{letter}{microbatch}"
        line += (label if len(label) <= width else letter).ljust(width, MORE)
    return line


def _fullest(timeline: Timeline, rank: int, columns: int) -> list[int | None]:
    """Return for every column the place of the pass that fills most of it, or None where idle time does."""
    slice_time = timeline.makespan / columns if timeline.makespan else 1.0
    best: list[int | None] = [None] * columns
    most, busy = [0.0] * columns, [0.0] * columns
    for place, (_, start, end) in enumerate(timeline.rank_events(rank)):
        first = min(int(start / slice_time), columns - 1)
        last = min(int(end / slice_time), columns - 1)
        for column in range(first, last + 1):
            inside = min(end, (column + 1) * slice_time) - max(start, column * slice_time)
            busy[column] += inside
            if inside > most[column]:
                best[column], most[column] = place, inside
    return [place if most[column] >= slice_time - busy[column] else None for column, place in enumerate(best)]


def _legend_lines(width: int) -> list[str]:
    lines = [""]
    for word in LEGEND.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".lstrip()
    return lines
