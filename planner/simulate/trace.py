"""A step as a trace that Chrome's ``about:tracing`` and Perfetto read: one track for each rank and stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from planner.simulate.record import ActivationBytes, memory_over_time
from planner.techniques.schedules.engine import Pipeline, Timeline
from planner.units import MICROSECOND

COMPUTE: Final = 0
SEND: Final = 1
NAMES: Final = {"F": "forward", "B": "input gradient", "W": "weight gradient", "BW": "backward"}

Event = dict[str, Any]


def trace(timeline: Timeline, pipeline: Pipeline, unit: float = MICROSECOND) -> Event:
    """Return a played step in the Trace Event Format, ready for JSON.

    ``pipeline``: places of the chunks, and latencies of the messages; ``unit``: what stands for one
    microsecond of the trace, in the timeline's unit: 1e-6 for seconds.

    References
    ----------
    .. [1] "Trace Event Format," https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU.
    """
    events: list[Event] = []
    for rank in range(len(timeline.orders)):
        events += _names(rank)
        events += _passes(timeline, rank, unit)
        events += _sends(timeline, pipeline, rank, unit)
        events += _memory(timeline, len(pipeline.ranks), rank, unit)
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _names(rank: int) -> Iterator[Event]:
    yield {"ph": "M", "name": "process_name", "pid": rank, "args": {"name": f"rank {rank}"}}
    yield {"ph": "M", "name": "process_sort_index", "pid": rank, "args": {"sort_index": rank}}
    for stream, name in ((COMPUTE, "compute"), (SEND, "send")):
        yield {"ph": "M", "name": "thread_name", "pid": rank, "tid": stream, "args": {"name": name}}


def _passes(timeline: Timeline, rank: int, unit: float) -> Iterator[Event]:
    for (kind, chunk, microbatch), start, end in timeline.rank_events(rank):
        yield {
            "ph": "X",
            "name": f"{kind}{microbatch}",
            "cat": NAMES[kind],
            "pid": rank,
            "tid": COMPUTE,
            "ts": start / unit,
            "dur": (end - start) / unit,
            "args": {"chunk": chunk, "microbatch": microbatch},
        }


def _sends(timeline: Timeline, pipeline: Pipeline, rank: int, unit: float) -> Iterator[Event]:
    down, up = pipeline.delays()
    for (kind, chunk, microbatch), _, end in timeline.rank_events(rank):
        delay = {"F": down[chunk], "W": 0.0}.get(kind, up[chunk])
        if delay > 0:
            target = pipeline.ranks[chunk + 1 if kind == "F" else chunk - 1]
            yield {
                "ph": "X",
                "name": f"{kind}{microbatch} to {target}",
                "cat": "message",
                "pid": rank,
                "tid": SEND,
                "ts": end / unit,
                "dur": delay / unit,
                "args": {"chunk": chunk, "microbatch": microbatch, "to": target},
            }


def _memory(timeline: Timeline, chunks: int, rank: int, unit: float) -> Iterator[Event]:
    ones = ActivationBytes((1.0,) * chunks, (1.0,) * chunks)
    for time, held in memory_over_time(timeline, rank, ones):
        yield {
            "ph": "C",
            "name": "activations in flight",
            "pid": rank,
            "ts": time / unit,
            "args": {"chunks": held},
        }
