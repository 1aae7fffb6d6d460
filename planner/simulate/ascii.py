"""A picture of a step in plain characters: one line for each rank, one column for each slice of time."""

from __future__ import annotations

from typing import Final

from planner.simulate.engine import Timeline

WIDTH: Final = 80
IDLE: Final = "."
LETTERS: Final = {"F": "F", "B": "B", "W": "W", "BW": "D"}
LEGEND: Final = (
    "F forward, B input gradient, W weight gradient, D both gradients, . idle; small: later chunks"
)


def picture(timeline: Timeline, pp: int, route_chunks: int, width: int = WIDTH) -> str:
    """Draw a step.

    A column shows what fills most of its slice of time. Chunks after the first of a route on a rank are
    in small letters.

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
    slice_time = timeline.makespan / columns if timeline.makespan else 1.0
    shares: list[dict[str, float]] = [{} for _ in range(columns)]
    for (kind, chunk, _), start, end in timeline.rank_events(rank):
        letter = LETTERS[kind] if chunk % route_chunks < pp else LETTERS[kind].lower()
        first = min(int(start / slice_time), columns - 1)
        last = min(int(end / slice_time), columns - 1)
        for column in range(first, last + 1):
            inside = min(end, (column + 1) * slice_time) - max(start, column * slice_time)
            shares[column][letter] = shares[column].get(letter, 0.0) + inside
    return "".join(_letter(share, slice_time) for share in shares)


def _letter(share: dict[str, float], slice_time: float) -> str:
    idle = slice_time - sum(share.values())
    best = max(share, key=share.__getitem__, default=IDLE)
    return best if share and share[best] >= idle else IDLE


def _legend_lines(width: int) -> list[str]:
    lines = [""]
    for word in LEGEND.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".lstrip()
    return lines
