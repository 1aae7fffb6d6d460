"""GPipe: all forwards, then all backwards."""

from __future__ import annotations

from planner.formulas.pipeline import gpipe_bubble_seconds
from planner.numeric import Num
from planner.techniques.schedules.family import ONE_CHUNK, UNIT, Orders, Pass, PassTimes, Schedule


def in_flight_chunks(pp: Num, vpp: Num, microbatches: Num, rank: Num) -> Num:
    """All micro-batches of the step."""
    return microbatches + 0.0 * (pp * vpp * rank)


def order(pp: int, vpp: int, microbatches: int, times: PassTimes = UNIT) -> Orders:
    """Write out F0 F1 ... B0 B1 ... for every rank."""
    return tuple(
        tuple(Pass(kind, rank, microbatch) for kind in ("F", "BW") for microbatch in range(microbatches))
        for rank in range(pp)
    )


ENTRY = Schedule(
    name="gpipe",
    aliases=("ScheduleGPipe", "fill-drain"),
    cite="arXiv:1811.06965",
    splits_backward=False,
    rules=(ONE_CHUNK,),
    bubble_seconds=gpipe_bubble_seconds,
    in_flight_chunks=in_flight_chunks,
    order=order,
    additive=True,
)
