"""V-Min: a third of the activations of 1F1B; unequal passes cost every micro-batch."""

from __future__ import annotations

import numpy as np

from planner.formulas.pipeline_v import v_min_bubble_seconds
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
    return v_min_bubble_seconds(pp, microbatches, forward, input_gradient, weight_gradient, hop)


def holds(
    pp: Num, vpp: Num, microbatches: Num, forward: Num, input_gradient: Num, weight_gradient: Num, hop: Num
) -> Mask:
    """Say that the weight gradient is the shortest pass but far longer than a message, and the V is full."""
    shortest = np.less_equal(weight_gradient, np.minimum(forward, input_gradient))
    hidden = np.less_equal(16 * hop, weight_gradient)
    full = np.logical_and(np.greater_equal(microbatches, 2 * pp), np.greater_equal(pp, 3))
    return np.logical_and(full, np.logical_and(shortest, hidden))


def in_flight_chunks(pp: Num, vpp: Num, microbatches: Num, rank: Num) -> Num:
    """A third of those of 1F1B, on the fullest rank."""
    return np.minimum(2 * np.floor((pp + 4) / 3) + 0.0 * (vpp * rank), 2 * microbatches)


def block(rank: int, pp: int) -> Block:
    """Slots of the first micro-batch on a rank, passes of one slot each."""
    shift = 2 if pp % 3 == 0 else 0
    return Block(rank, 2 * pp - rank - 1, 2 * pp + shift + rank, 4 * pp + shift - rank - 1)


def order(pp: int, vpp: int, microbatches: int, times: PassTimes = UNIT) -> Orders:
    """Write out the repeated block."""
    return block_order(pp, microbatches, block)


ENTRY = Schedule(
    name="v-min",
    aliases=("vmin",),
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
