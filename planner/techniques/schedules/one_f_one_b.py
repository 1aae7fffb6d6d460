"""1F1B: after a warm-up every rank alternates one forward and one backward."""

from __future__ import annotations

from planner.formulas.pipeline import one_f_one_b_bubble_seconds
from planner.numeric import Num, minimum
from planner.techniques.schedules._orders import alternate
from planner.techniques.schedules.family import ONE_CHUNK, UNIT, Orders, Pass, PassTimes, Schedule


def in_flight_chunks(pp: Num, vpp: Num, microbatches: Num, rank: Num) -> Num:
    """One micro-batch for each rank from here to the last."""
    return minimum(microbatches, pp - rank + 0.0 * vpp)


def order(pp: int, vpp: int, microbatches: int, times: PassTimes = UNIT) -> Orders:
    """Write out the passes: rank ``i`` warms up with ``pp - 1 - i`` forwards."""

    def passes(rank: int) -> tuple[Pass, ...]:
        forwards = [Pass("F", rank, microbatch) for microbatch in range(microbatches)]
        backwards = [Pass("BW", rank, microbatch) for microbatch in range(microbatches)]
        return alternate(forwards, backwards, pp - 1 - rank)

    return tuple(passes(rank) for rank in range(pp))


ENTRY = Schedule(
    name="1f1b",
    aliases=("Schedule1F1B", "pipedream-flush", "dapple"),
    cite="SOSP 2019 doi:10.1145/3341301.3359646; arXiv:2006.09503",
    splits_backward=False,
    rules=(ONE_CHUNK,),
    bubble_seconds=one_f_one_b_bubble_seconds,
    in_flight_chunks=in_flight_chunks,
    order=order,
    additive=True,
)
