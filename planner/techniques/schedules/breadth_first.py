"""Breadth-first: every chunk runs all micro-batches before the next chunk starts."""

from __future__ import annotations

from planner.formulas.pipeline import looped_bubble_seconds
from planner.numeric import Num
from planner.techniques.schedules.family import MANY_CHUNKS, UNIT, InRounds, Orders, Pass, PassTimes, Schedule


def in_flight_chunks(pp: Num, vpp: Num, microbatches: Num, rank: Num) -> Num:
    """All micro-batches in all chunks, on every rank."""
    return microbatches * vpp + 0.0 * (pp * rank)


def rounds(pp: Num, vpp: Num, microbatches: Num) -> Num:
    """Once: a chunk's weights are gathered for all of its passes."""
    return 1.0 + 0.0 * (pp * vpp * microbatches)


def order(pp: int, vpp: int, microbatches: int, times: PassTimes = UNIT) -> Orders:
    """Write out the passes; backward goes through chunks and micro-batches in reverse."""

    def passes(rank: int) -> tuple[Pass, ...]:
        visits = [
            (chunk * pp + rank, microbatch) for chunk in range(vpp) for microbatch in range(microbatches)
        ]
        return (*(Pass("F", *visit) for visit in visits), *(Pass("BW", *visit) for visit in reversed(visits)))

    return tuple(passes(rank) for rank in range(pp))


BUBBLE = InRounds(looped_bubble_seconds, per_round=lambda pp, microbatches: microbatches)
"""All micro-batches are one round."""

ENTRY = Schedule(
    name="breadth-first",
    aliases=("LoopedBFS", "ScheduleLoopedBFS", "bfs"),
    cite="arXiv:2211.05953",
    splits_backward=False,
    rules=(MANY_CHUNKS,),
    bubble_seconds=BUBBLE,
    in_flight_chunks=in_flight_chunks,
    rounds=rounds,
    order=order,
)
