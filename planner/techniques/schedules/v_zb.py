"""V-ZB: the activations of 1F1B, and nearly no bubble."""

from __future__ import annotations

import numpy as np

from planner.formulas.pipeline_v import v_zb_bubble_seconds
from planner.numeric import Num
from planner.techniques.schedules._blocks import Block, block_order
from planner.techniques.schedules._family import (
    TWO_CHUNKS,
    UNIT,
    Mask,
    Orders,
    PassTimes,
    Schedule,
    v_messages,
    v_rank,
)


def bubble_seconds(
    pp: Num, vpp: Num, microbatches: Num, forward: Num, input_gradient: Num, weight_gradient: Num, hop: Num
) -> Num:
    """Makespan minus work."""
    return v_zb_bubble_seconds(pp, microbatches, forward, input_gradient, weight_gradient, hop)


def holds(
    pp: Num, vpp: Num, microbatches: Num, forward: Num, input_gradient: Num, weight_gradient: Num, hop: Num
) -> Mask:
    """Say that the weight gradient is the shortest pass but far longer than a message, and the V is full."""
    shortest = np.less_equal(weight_gradient, np.minimum(forward, input_gradient))
    hidden = np.less_equal(16 * hop, weight_gradient)
    return np.logical_and(np.greater_equal(microbatches, pp), np.logical_and(shortest, hidden))


def in_flight_chunks(pp: Num, vpp: Num, microbatches: Num, rank: Num) -> Num:
    """As many as the first rank of 1F1B, on every rank."""
    return np.minimum(2 * pp + 0.0 * (vpp * rank), 2 * microbatches)


def block(rank: int, pp: int) -> Block:
    """Slots of the first micro-batch on a rank, passes of one slot each."""
    turn = 4 * (pp - 1) + 1
    top = turn + 2 * (pp - 1) + 1
    back = top + 4 * (pp - 1) + 1
    return Block(4 * rank, turn + 2 * (pp - 1 - rank), top + 4 * rank, back + 2 * (pp - 1 - rank))


def order(pp: int, vpp: int, microbatches: int, times: PassTimes = UNIT) -> Orders:
    """Write out the repeated block."""
    return block_order(pp, microbatches, block)


ENTRY = Schedule(
    name="v-zb",
    aliases=("vzb",),
    cite="arXiv:2405.15362",
    splits_backward=True,
    rules=(TWO_CHUNKS,),
    bubble_seconds=bubble_seconds,
    span_bubble_seconds=bubble_seconds,
    in_flight_chunks=in_flight_chunks,
    order=order,
    placement=v_rank,
    messages=v_messages,
    holds=holds,
)
