"""Breadth-first: every chunk runs all micro-batches before the next chunk starts."""

from __future__ import annotations

from planner.formulas.pipeline import looped_bubble_seconds
from planner.numeric import Num
from planner.techniques.schedules._family import MANY_CHUNKS, UNIT, Orders, Pass, PassTimes, Schedule


def bubble_seconds(
    pp: Num, vpp: Num, microbatches: Num, forward: Num, input_gradient: Num, weight_gradient: Num, hop: Num
) -> Num:
    """Makespan minus work."""
    return looped_bubble_seconds(pp, vpp, microbatches, forward, input_gradient + weight_gradient, hop)


def in_flight_chunks(pp: Num, vpp: Num, microbatches: Num, rank: Num) -> Num:
    """All micro-batches in all chunks, on every rank."""
    return microbatches * vpp + 0.0 * (pp * rank)


def order(pp: int, vpp: int, microbatches: int, times: PassTimes = UNIT) -> Orders:
    """Write out the passes; backward goes through chunks and micro-batches in reverse."""

    def passes(rank: int) -> tuple[Pass, ...]:
        visits = [
            (chunk * pp + rank, microbatch) for chunk in range(vpp) for microbatch in range(microbatches)
        ]
        return (*(Pass("F", *visit) for visit in visits), *(Pass("BW", *visit) for visit in reversed(visits)))

    return tuple(passes(rank) for rank in range(pp))


ENTRY = Schedule(
    name="breadth-first",
    aliases=("LoopedBFS", "ScheduleLoopedBFS", "bfs"),
    cite="arXiv:2211.05953",
    splits_backward=False,
    rules=(MANY_CHUNKS,),
    bubble_seconds=bubble_seconds,
    span_bubble_seconds=bubble_seconds,
    in_flight_chunks=in_flight_chunks,
    order=order,
)
