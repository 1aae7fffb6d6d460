"""DualPipe: micro-batches enter at both ends; every rank holds two chunks, so the weights twice."""

from __future__ import annotations

import numpy as np

from planner.formulas.pipeline import Pipe
from planner.formulas.pipeline_two_way import dualpipe_bubble_seconds
from planner.numeric import Num
from planner.techniques.schedules._dualpipe import dual_passes
from planner.techniques.schedules._orders import second_route
from planner.techniques.schedules.family import (
    EVEN_RANKS,
    ONE_CHUNK,
    UNIT,
    Mask,
    Orders,
    Pass,
    PassTimes,
    Schedule,
    ScheduleRule,
    two_way_rank,
    weight_gradient_hides,
)


def holds(pipe: Pipe) -> Mask:
    """Say that the weight gradient is the shortest pass but far longer than a message."""
    return weight_gradient_hides(pipe, messages=8)


def in_flight_chunks(pp: Num, vpp: Num, microbatches: Num, rank: Num) -> Num:
    """One micro-batch for each rank and one more, everywhere."""
    return np.minimum(microbatches, pp + 1 + 0.0 * (vpp * rank))


def order(pp: int, vpp: int, microbatches: int, times: PassTimes = UNIT) -> Orders:
    """Write out the passes: half of the micro-batches run from the first rank, half from the last."""
    half, each = pp // 2, microbatches // 2

    def passes(rank: int) -> tuple[Pass, ...]:
        there, back = rank, 2 * pp - 1 - rank
        if rank < half:
            script = dual_passes(rank, half, there, back, each)
        else:
            script = dual_passes(pp - 1 - rank, half, back, there, each)
        return second_route(script, pp, each)

    return tuple(passes(rank) for rank in range(pp))


ENTRY = Schedule(
    name="dualpipe",
    aliases=("ScheduleDualPipe", "dual-pipe"),
    cite="arXiv:2412.19437, sec. 3.2.1",
    splits_backward=True,
    rules=(
        ONE_CHUNK,
        EVEN_RANKS,
        ScheduleRule(
            "an even number of micro-batches, at least 2 pp",
            lambda pp, vpp, m: np.logical_and(np.equal(np.mod(m, 2), 0), np.greater_equal(m, 2 * pp)),
        ),
    ),
    bubble_seconds=dualpipe_bubble_seconds,
    in_flight_chunks=in_flight_chunks,
    order=order,
    placement=two_way_rank,
    weight_copies=2.0,
    routes=2,
    holds=holds,
)
