"""What one played step tells: makespan, bubble, and for every rank its work and its memory."""

from __future__ import annotations

from planner.dataclasses import dataclass
from planner.shown import Short
from planner.techniques.schedules.engine import Timeline, Times


@dataclass(frozen=True)
class RankRecord:
    """One rank over the step."""

    stage: int
    """The pipeline rank."""
    busy: float
    """Time in passes. [s]"""
    forwards: int
    backwards: int
    weight_passes: int
    """Passes run; a whole backward counts as one backward."""
    peak_in_flight: int
    """Most chunk activations held at once, each until its weight gradient (or whole backward) is done."""
    peak_bytes: float | None = None
    """Most bytes of activations held at once; None where no sizes are given. [byte]"""


@dataclass(frozen=True, repr=False)
class StepRecord(Short):
    """One step over all ranks.

    Parameters
    ----------
    makespan : float
        From the first start to the last end. [s]
    bubble : float
        Makespan minus the work of the busiest rank. [s]
    longest_span : float
        Longest time from first start to last end on one rank. [s]
    stages : tuple of RankRecord
        One record for each rank.
    """

    makespan: float
    bubble: float
    longest_span: float
    stages: tuple[RankRecord, ...]


@dataclass(frozen=True)
class ActivationBytes:
    """What a micro-batch leaves behind in each chunk."""

    saved: Times
    """Bytes that each chunk keeps from the start of its forward. [byte]"""
    kept_for_weights: Times
    """Bytes of these that stay between input and weight gradient. [byte]"""


def step_record(timeline: Timeline, sizes: ActivationBytes | None = None) -> StepRecord:
    """Sum a played step up.

    ``sizes``: sizes of the activations, for the peak in bytes.
    """
    ranks = range(len(timeline.orders))
    stages = tuple(_rank_record(timeline, rank, sizes) for rank in ranks)
    spans = [
        ends[-1] - starts[0] for starts, ends in zip(timeline.starts, timeline.ends, strict=True) if starts
    ]
    return StepRecord(
        makespan=timeline.makespan,
        bubble=timeline.makespan - max(stage.busy for stage in stages),
        longest_span=max(spans, default=0.0),
        stages=stages,
    )


def _rank_record(timeline: Timeline, rank: int, sizes: ActivationBytes | None) -> RankRecord:
    kinds = [item.kind for item in timeline.orders[rank]]
    chunks = 1 + max((item.chunk for item in timeline.orders[rank]), default=0)
    counted = memory_over_time(timeline, rank, ActivationBytes((1.0,) * chunks, (1.0,) * chunks))
    held = memory_over_time(timeline, rank, sizes) if sizes else None
    return RankRecord(
        stage=rank,
        busy=sum(end - start for start, end in zip(timeline.starts[rank], timeline.ends[rank], strict=True)),
        forwards=kinds.count("F"),
        backwards=kinds.count("B") + kinds.count("BW"),
        weight_passes=kinds.count("W"),
        peak_in_flight=round(max((amount for _, amount in counted), default=0.0)),
        peak_bytes=max((amount for _, amount in held), default=0.0) if held is not None else None,
    )


def memory_over_time(timeline: Timeline, rank: int, sizes: ActivationBytes) -> list[tuple[float, float]]:
    """Return (time, bytes) at every change of what a rank holds.

    A forward takes its bytes when it starts; a gradient gives back when it ends.
    """
    held = 0.0
    curve: list[tuple[float, float]] = []
    for (kind, chunk, _), start, end in timeline.rank_events(rank):
        saved, kept = sizes.saved[chunk], sizes.kept_for_weights[chunk]
        held += {"F": saved, "B": kept - saved, "W": -kept, "BW": -saved}[kind]
        curve.append((start if kind == "F" else end, held))
    return curve
