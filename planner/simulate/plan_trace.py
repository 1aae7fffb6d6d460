"""A played plan as a trace: passes, messages, what ends the step, and the memory of every rank."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from planner.dataclasses import replace
from planner.simulate.plan import PlayedPlan
from planner.simulate.record import memory_over_time
from planner.simulate.trace import COMPUTE, Event, trace
from planner.units import GIB, MICROSECOND

COLLECTIVE: Final = 2
OFFLOAD: Final = 3


def plan_trace(played: PlayedPlan) -> Event:
    """Return a played plan in the Trace Event Format, ready for JSON.

    The track ``send`` has each message for as long as it is on the wire; what of it is not hidden is in the
    pass that waits for it. The counter ``memory`` is what the device reports in use. [GiB]

    References
    ----------
    .. [1] "Trace Event Format," https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU.
    """
    wired = replace(played.pipeline, hops=played.wires)
    document = trace(played.timeline, wired)
    events: list[Event] = document["traceEvents"]
    for rank in range(len(played.timeline.orders)):
        events += _ends(played, rank)
        events += _memory(played, rank)
    return document


def _ends(played: PlayedPlan, rank: int) -> Iterator[Event]:
    """Yield what a rank does after the last pass of all."""
    start = played.timeline.makespan
    parts = (
        ("data parallel", COLLECTIVE, played.exchange[rank]),
        ("optimizer", COMPUTE, played.optimizer[rank]),
        ("offload", OFFLOAD, played.offload[rank]),
    )
    for name, track, seconds in parts:
        if seconds > 0:
            if track != COMPUTE:
                yield {"ph": "M", "name": "thread_name", "pid": rank, "tid": track, "args": {"name": name}}
            yield {
                "ph": "X",
                "name": name,
                "cat": name,
                "pid": rank,
                "tid": track,
                "ts": start / MICROSECOND,
                "dur": seconds / MICROSECOND,
                "args": {},
            }
        start += seconds


def _memory(played: PlayedPlan, rank: int) -> Iterator[Event]:
    for time, held in memory_over_time(played.timeline, rank, played.sizes):
        yield {
            "ph": "C",
            "name": "memory",
            "pid": rank,
            "ts": time / MICROSECOND,
            "args": {"GiB": (held + played.resting[rank]) / GIB},
        }
