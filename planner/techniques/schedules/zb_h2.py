"""ZB-H2: twice the forwards of 1F1B ahead; no rank idles between its passes where all are equal."""

from __future__ import annotations

import numpy as np

from planner.formulas.pipeline import Pipe
from planner.formulas.pipeline_split import zb_h2_bubble_seconds, zb_h2_span_bubble_seconds
from planner.numeric import Num
from planner.techniques.schedules._orders import alternate_split
from planner.techniques.schedules.family import (
    ONE_CHUNK,
    UNIT,
    Mask,
    Orders,
    PassTimes,
    Schedule,
    weight_gradient_hides,
)


def holds(pipe: Pipe) -> Mask:
    """Say that the weight gradient is the shortest pass, and no shorter than a message."""
    return weight_gradient_hides(pipe, messages=1)


def in_flight_chunks(pp: Num, vpp: Num, microbatches: Num, rank: Num) -> Num:
    """Twice as many as 1F1B, less one."""
    return np.minimum(microbatches, 2 * pp - 1 + 0.0 * (vpp * rank))


def awaiting_weight_chunks(pp: Num, vpp: Num, microbatches: Num, rank: Num) -> Num:
    """Rank ``i`` keeps ``2 i`` weight gradients back."""
    return np.maximum(0.0, in_flight_chunks(pp, vpp, microbatches, rank) - (2 * (pp - rank) - 1))


def order(pp: int, vpp: int, microbatches: int, times: PassTimes = UNIT) -> Orders:
    """Write out the passes: rank ``i`` warms up with ``2 (pp - i) - 1`` forwards."""
    return tuple(alternate_split(rank, microbatches, 2 * (pp - rank) - 1, 2 * rank) for rank in range(pp))


ENTRY = Schedule(
    name="zb-h2",
    aliases=("zbh2",),
    cite="arXiv:2401.10241, sec. 2.2",
    splits_backward=True,
    rules=(ONE_CHUNK,),
    bubble_seconds=zb_h2_bubble_seconds,
    span_bubble=zb_h2_span_bubble_seconds,
    in_flight_chunks=in_flight_chunks,
    awaiting_weight_chunks=awaiting_weight_chunks,
    order=order,
    holds=holds,
)
