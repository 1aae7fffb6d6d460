"""ZeroPP: units of micro-batches run breadth-first through looped chunks; weight gradients fill idle time.

A chunk's parameters are gathered once for each unit of ``pp`` micro-batches. Only the paper's abstract was at
hand: the order is our reading of its idea.
"""

from __future__ import annotations

import numpy as np

from planner.formulas.pipeline import Pipe
from planner.formulas.pipeline_delayed import zeropp_bubble_seconds
from planner.numeric import Num
from planner.techniques.schedules._greedy import fill_idle
from planner.techniques.schedules.family import (
    MANY_CHUNKS,
    UNIT,
    WHOLE_UNITS,
    Mask,
    Orders,
    Pass,
    PassTimes,
    Schedule,
    weight_gradient_hides,
)


def holds(pipe: Pipe) -> Mask:
    """Say that the weight gradient is the shortest pass but far longer than a message."""
    return weight_gradient_hides(pipe, messages=16 * pipe.vpp)


def in_flight_chunks(pp: Num, vpp: Num, microbatches: Num, rank: Num) -> Num:
    """One unit, and the weight gradients that fill the wait of the next."""
    return np.minimum(vpp * microbatches, vpp * pp + 2 * (pp - 1) + 0.0 * rank)


def rounds(pp: Num, vpp: Num, microbatches: Num) -> Num:
    """Once for each unit of ``pp`` micro-batches."""
    return np.maximum(1.0, microbatches / pp + 0.0 * vpp)


def order(pp: int, vpp: int, microbatches: int, times: PassTimes = UNIT) -> Orders:
    """Write out the passes: forwards and gradients in their order, weight gradients where a rank idles."""
    fixed = [_fixed_passes(rank, pp, vpp, microbatches) for rank in range(pp)]
    return fill_idle(fixed, vpp * pp, limit=vpp * pp + 2 * (pp - 1))


def _fixed_passes(rank: int, pp: int, vpp: int, microbatches: int) -> list[Pass]:
    script: list[Pass] = []
    for start in range(0, microbatches, pp):
        unit = range(start, start + pp)
        chunks = range(rank, vpp * pp, pp)
        script += [Pass("F", chunk, microbatch) for chunk in chunks for microbatch in unit]
        script += [Pass("B", chunk, microbatch) for chunk in reversed(chunks) for microbatch in unit]
    return script


ENTRY = Schedule(
    name="zeropp",
    aliases=("zero-pp",),
    cite="arXiv:2402.03791",
    splits_backward=True,
    rules=(MANY_CHUNKS, WHOLE_UNITS),
    bubble_seconds=zeropp_bubble_seconds,
    in_flight_chunks=in_flight_chunks,
    rounds=rounds,
    order=order,
    holds=holds,
)
