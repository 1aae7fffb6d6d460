"""Frozen components run in the idle time of a played pipeline, one step ahead of the parts that learn.

Each component is a row of layers, whose forward alone runs. A layer's batch is cut into equal parts that
any rank may take, as all hold the frozen weights; a part goes through the layers in their order. Handing it
to another rank is free. What finds no room runs after a rank's last pass.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from planner.dataclasses import dataclass
from planner.formulas.pipeline_fill import idle_share, least_filled_seconds
from planner.techniques.schedules.engine import Timeline

SLACK: Final = 1e-9

Component = tuple[float, ...]
"""Time of each layer for the whole batch on one rank, in the timeline's unit."""


class Piece(NamedTuple):
    """One part of the batch in one layer of a component, on a rank."""

    rank: int
    component: int
    layer: int
    part: int
    start: float
    end: float


@dataclass(frozen=True)
class FilledStep:
    """A step with frozen components."""

    makespan: float
    """Of the pipeline alone. [s]"""
    frozen: float
    """Forward of all components on one rank. [s]"""
    filled: float
    """What of it runs before the pipeline ends. [s]"""
    step: float
    """Time of the step. [s]"""
    unfilled_step: float
    """Time where the components run first, spread over all ranks. [s]"""
    least_step: float
    """Time that no filling goes below. [s]"""
    idle_share: float
    """Share of the ranks' time that is idle in the end. [-]"""
    pieces: tuple[Piece, ...]
    """What runs where and when."""


def idle_gaps(timeline: Timeline, rank: int) -> Iterator[tuple[float, float]]:
    """Yield (start, end) of the idle times of a rank, the last without an end."""
    clock = 0.0
    for _, start, end in timeline.rank_events(rank):
        if start > clock:
            yield clock, start
        clock = end
    yield clock, math.inf


def fill(timeline: Timeline, components: Sequence[Component], parts: int) -> FilledStep:
    """Run frozen components in the idle time of a step.

    Greedy: the rank that is idle first takes, of what is ready and ends before its next pass, the longest, or
    what has the longest way to go in its component; the better of the two, and never worse than no filling.

    ``parts``: equal parts into which a layer's batch is cut.
    """
    ranks = range(len(timeline.orders))
    gaps = [list(idle_gaps(timeline, rank)) for rank in ranks]
    free = [[(0.0, math.inf)] for _ in ranks]
    pieces = min((_placed(gaps, components, parts, far) for far in (False, True)), key=_end)
    before = min((_placed(free, components, parts, far) for far in (False, True)), key=_end)
    frozen = sum(map(sum, components))
    work = sum(sum(ends) - sum(starts) for starts, ends in zip(timeline.starts, timeline.ends, strict=True))
    makespan = timeline.makespan
    unfilled, step = makespan + _end(before), max(makespan, _end(pieces))
    if step > unfilled:
        pieces = [piece._replace(start=piece.start + makespan, end=piece.end + makespan) for piece in before]
        step = unfilled
    return FilledStep(
        makespan=makespan,
        frozen=frozen,
        filled=sum(max(0.0, min(piece.end, makespan) - piece.start) for piece in pieces),
        step=step,
        unfilled_step=unfilled,
        least_step=float(least_filled_seconds(len(ranks), makespan, work, frozen)),
        idle_share=float(idle_share(len(ranks), step, work + frozen)) if step else 0.0,
        pieces=tuple(pieces),
    )


def _end(pieces: Sequence[Piece]) -> float:
    """Return when the last piece ends."""
    return max((piece.end for piece in pieces), default=0.0)


class _Row:
    """One component: how far each part of the batch has come."""

    def __init__(self, layers: Component, parts: int) -> None:
        self.spans = [layer / parts for layer in layers]
        self.ways = [sum(self.spans[layer:]) for layer in range(len(layers))]
        self.ready: list[list[tuple[float, int]]] = [[] for _ in layers]
        if layers:
            self.ready[0] = [(0.0, part) for part in range(parts)]

    def layers(self, now: float) -> Iterator[int]:
        """Yield the layers for which a part is ready."""
        return (layer for layer, heap in enumerate(self.ready) if heap and heap[0][0] <= now + SLACK)

    def first(self, now: float, room: float) -> float:
        """Return when the first part becomes ready that still fits into the room from now on."""
        arrivals = [
            heap[0][0]
            for span, heap in zip(self.spans, self.ready, strict=True)
            if heap and max(heap[0][0] - now, 0.0) + span <= room + SLACK
        ]
        return min(arrivals, default=math.inf)

    def take(self, layer: int, start: float) -> tuple[int, float]:
        """Run a part in a layer; return the part and its end."""
        _, part = heapq.heappop(self.ready[layer])
        end = start + self.spans[layer]
        if layer + 1 < len(self.ready):
            heapq.heappush(self.ready[layer + 1], (end, part))
        return part, end


def _placed(
    gaps: Sequence[Sequence[tuple[float, float]]], components: Sequence[Component], parts: int, far: bool
) -> list[Piece]:
    """Place all parts of all layers into the gaps of the ranks; ``far``: what has far to go comes first."""
    rows = [_Row(component, parts) for component in components]
    left = parts * sum(map(len, components))
    clocks = [(mine[0][0], rank, 0) for rank, mine in enumerate(gaps)]
    heapq.heapify(clocks)
    pieces: list[Piece] = []
    while left:
        now, rank, gap = heapq.heappop(clocks)
        room = gaps[rank][gap][1] - now
        choices = [
            (-(row.ways if far else row.spans)[layer], number, layer)
            for number, row in enumerate(rows)
            for layer in row.layers(now)
            if row.spans[layer] <= room + SLACK
        ]
        if choices:
            _, number, layer = min(choices)
            part, end = rows[number].take(layer, now)
            pieces.append(Piece(rank, number, layer, part, now, end))
            left -= 1
            heapq.heappush(clocks, (end, rank, gap))
            continue
        later = min(row.first(now, room) for row in rows)
        if later < math.inf:
            heapq.heappush(clocks, (later, rank, gap))
        elif gap + 1 < len(gaps[rank]):
            heapq.heappush(clocks, (gaps[rank][gap + 1][0], rank, gap + 1))
    return pieces
