"""ZB-2p: searched order within twice the activations of 1F1B."""

from __future__ import annotations

import numpy as np

from planner.formulas.pipeline import Pipe
from planner.formulas.pipeline_split import zb_2p_bubble_seconds, zb_2p_span_bubble_seconds
from planner.numeric import Num
from planner.techniques.schedules._sweep import shortest_order
from planner.techniques.schedules.family import ONE_CHUNK, UNIT, Mask, Orders, PassTimes, Schedule
from planner.techniques.schedules.zb_h2 import holds as h2_holds


def holds(pipe: Pipe) -> Mask:
    """Say that ZB-H2 is the best order: passes nearly equal, or all activations kept for weight gradients."""
    exact = h2_holds(pipe)
    equal = np.less_equal(np.maximum(pipe.F, pipe.B), 1.05 * pipe.W)
    full = np.logical_and(np.greater_equal(pipe.m, 3 * pipe.pp), np.less_equal(20 * pipe.c, pipe.W))
    return np.logical_and(np.logical_and(exact, equal), full)


def in_flight_chunks(pp: Num, vpp: Num, microbatches: Num, rank: Num) -> Num:
    """The limit: twice as many as 1F1B."""
    return np.minimum(microbatches, 2 * pp + 0.0 * (vpp * rank))


def order(pp: int, vpp: int, microbatches: int, times: PassTimes = UNIT) -> Orders:
    """Search an order for these pass times."""
    return shortest_order(pp, microbatches, times, limit=2 * pp)


ENTRY = Schedule(
    name="zb-2p",
    aliases=("zb2p",),
    cite="arXiv:2401.10241, sec. 3",
    splits_backward=True,
    rules=(ONE_CHUNK,),
    bubble_seconds=zb_2p_bubble_seconds,
    span_bubble=zb_2p_span_bubble_seconds,
    in_flight_chunks=in_flight_chunks,
    order=order,
    holds=holds,
)
