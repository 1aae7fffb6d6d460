"""ZB-1p: searched order within the activations of 1F1B; it comes out as good as ZB-H1."""

from __future__ import annotations

from planner.formulas.pipeline_split import zb_h1_bubble_seconds, zb_h1_span_bubble_seconds
from planner.techniques.schedules._sweep import shortest_order
from planner.techniques.schedules.family import (
    ONE_CHUNK,
    UNIT,
    Orders,
    PassTimes,
    Schedule,
    shortest_weight_gradient,
)
from planner.techniques.schedules.zb_h1 import (
    awaiting_weight_chunks,
    in_flight_chunks,
)


def order(pp: int, vpp: int, microbatches: int, times: PassTimes = UNIT) -> Orders:
    """Search an order for these pass times."""
    return shortest_order(pp, microbatches, times, limit=pp)


ENTRY = Schedule(
    name="zb-1p",
    aliases=("zb1p",),
    cite="arXiv:2401.10241, sec. 3",
    splits_backward=True,
    rules=(ONE_CHUNK,),
    bubble_seconds=zb_h1_bubble_seconds,
    span_bubble_seconds=zb_h1_span_bubble_seconds,
    in_flight_chunks=in_flight_chunks,
    awaiting_weight_chunks=awaiting_weight_chunks,
    order=order,
    holds=shortest_weight_gradient,
)
