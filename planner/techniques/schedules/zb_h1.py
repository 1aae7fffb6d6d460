"""ZB-H1: 1F1B with the backward split; weight gradients fill the bubble within the memory of 1F1B."""

from __future__ import annotations

import numpy as np

from planner.formulas.pipeline_split import zb_h1_bubble_seconds, zb_h1_span_bubble_seconds
from planner.numeric import Num
from planner.techniques.schedules._orders import alternate_split
from planner.techniques.schedules.family import (
    ONE_CHUNK,
    UNIT,
    Orders,
    PassTimes,
    Schedule,
    shortest_weight_gradient,
)


def in_flight_chunks(pp: Num, vpp: Num, microbatches: Num, rank: Num) -> Num:
    """As many as the first rank of 1F1B, on every rank."""
    return np.minimum(microbatches, pp + 0.0 * (vpp * rank))


def awaiting_weight_chunks(pp: Num, vpp: Num, microbatches: Num, rank: Num) -> Num:
    """Rank ``i`` keeps ``i`` weight gradients back."""
    return np.maximum(0.0, in_flight_chunks(pp, vpp, microbatches, rank) - (pp - rank))


def order(pp: int, vpp: int, microbatches: int, times: PassTimes = UNIT) -> Orders:
    """Write out the passes: rank ``i`` warms up with ``pp - i`` forwards."""
    return tuple(alternate_split(rank, microbatches, pp - rank, rank) for rank in range(pp))


ENTRY = Schedule(
    name="zb-h1",
    aliases=("zbh1",),
    cite="arXiv:2401.10241, sec. 2.1",
    splits_backward=True,
    rules=(ONE_CHUNK,),
    bubble_seconds=zb_h1_bubble_seconds,
    span_bubble=zb_h1_span_bubble_seconds,
    in_flight_chunks=in_flight_chunks,
    awaiting_weight_chunks=awaiting_weight_chunks,
    order=order,
    holds=shortest_weight_gradient,
)
