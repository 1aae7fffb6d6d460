"""DualPipeV: DualPipe folded into a V, without the second copy of the weights."""

from __future__ import annotations

import numpy as np

from planner.formulas.pipeline import Pipe
from planner.formulas.pipeline_v import dualpipe_v_bubble_seconds
from planner.numeric import Num
from planner.techniques.schedules._dualpipe import dual_passes
from planner.techniques.schedules.family import (
    TWO_CHUNKS,
    UNIT,
    Mask,
    Orders,
    PassTimes,
    Schedule,
    ScheduleRule,
    v_messages,
    v_rank,
    weight_gradient_hides,
)


def holds(pipe: Pipe) -> Mask:
    """Say that the weight gradient is the shortest pass but far longer than a message."""
    return weight_gradient_hides(pipe, messages=16)


def in_flight_chunks(pp: Num, vpp: Num, microbatches: Num, rank: Num) -> Num:
    """Two chunks for each rank and one more, everywhere; all where there are few micro-batches."""
    return np.minimum(2 * microbatches, 2 * pp + 1 + 0.0 * (vpp * rank))


def order(pp: int, vpp: int, microbatches: int, times: PassTimes = UNIT) -> Orders:
    """Write out the passes; forward and backward of an overlapped pair follow each other."""
    return tuple(dual_passes(rank, pp, rank, 2 * pp - 1 - rank, microbatches) for rank in range(pp))


ENTRY = Schedule(
    name="dualpipe-v",
    aliases=("DualPipeV", "ScheduleDualPipeV"),
    cite="https://github.com/deepseek-ai/DualPipe; arXiv:2412.19437",
    splits_backward=True,
    rules=(
        TWO_CHUNKS,
        ScheduleRule("at least 2 pp micro-batches", lambda pp, vpp, m: np.greater_equal(m, 2 * pp)),
    ),
    bubble_seconds=dualpipe_v_bubble_seconds,
    in_flight_chunks=in_flight_chunks,
    order=order,
    placement=v_rank,
    messages=v_messages,
    holds=holds,
)
