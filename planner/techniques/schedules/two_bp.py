"""2BP over 1F1B: weight gradients wait until a rank would idle at the end, and the rest runs last."""

from __future__ import annotations

import numpy as np

from planner.formulas.pipeline import Pipe
from planner.formulas.pipeline_delayed import delayed_bubble_seconds
from planner.numeric import Num
from planner.techniques.schedules._orders import OrderScript
from planner.techniques.schedules.family import ONE_CHUNK, UNIT, Mask, Orders, Pass, PassTimes, Schedule


def holds(pipe: Pipe) -> Mask:
    """Say that the weight gradient is no longer than the forward, whose slot it takes."""
    return np.less_equal(pipe.W, pipe.F)


def in_flight_chunks(pp: Num, vpp: Num, microbatches: Num, rank: Num) -> Num:
    """All micro-batches: no weight gradient runs before the last forward."""
    return microbatches + 0.0 * (pp * vpp * rank)


def awaiting_weight_chunks(pp: Num, vpp: Num, microbatches: Num, rank: Num) -> Num:
    """All but those that 1F1B has in flight."""
    return microbatches - np.minimum(microbatches, pp - rank + 0.0 * vpp)


def order(pp: int, vpp: int, microbatches: int, times: PassTimes = UNIT) -> Orders:
    """Write out 1F1B; in the cool-down a weight gradient stands where a forward stood."""

    def passes(rank: int) -> tuple[Pass, ...]:
        script = OrderScript(microbatches)
        ahead = min(pp - 1 - rank, microbatches)
        script.run("F", rank, ahead)
        for _ in range(microbatches - ahead):
            script.run("F", rank)
            script.run("B", rank)
        for _ in range(ahead):
            script.run("W", rank, int(script.count("W", rank) < script.count("B", rank)))
            script.run("B", rank)
        script.run("W", rank, microbatches - script.count("W", rank))
        return script.passes()

    return tuple(passes(rank) for rank in range(pp))


ENTRY = Schedule(
    name="2bp",
    aliases=("2bp-1f1b",),
    cite="arXiv:2405.18047",
    splits_backward=True,
    rules=(ONE_CHUNK,),
    bubble_seconds=delayed_bubble_seconds,
    in_flight_chunks=in_flight_chunks,
    awaiting_weight_chunks=awaiting_weight_chunks,
    order=order,
    holds=holds,
)
