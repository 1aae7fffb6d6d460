"""ZB-V: two chunks per rank in a V; the memory of 1F1B, and no rank idles where passes are equal."""

from __future__ import annotations

from typing import Final

import numpy as np

from planner.formulas.pipeline import Pipe
from planner.formulas.pipeline_v import zb_v_bubble_seconds, zb_v_span_bubble_seconds
from planner.numeric import Num
from planner.techniques.schedules._orders import OrderScript
from planner.techniques.schedules.family import (
    TWO_CHUNKS,
    UNIT,
    Kind,
    Mask,
    Orders,
    Pass,
    PassTimes,
    Schedule,
    v_messages,
    v_rank,
    weight_gradient_hides,
)

GROUP: Final[tuple[Kind, ...]] = ("F", "B", "W")


def holds(pipe: Pipe) -> Mask:
    """Say that the weight gradient is the shortest pass and hides messages; and the V full, or one round."""
    hides = weight_gradient_hides(pipe, messages=16)
    few = np.logical_and(np.less_equal(pipe.m, pipe.pp), np.less_equal(pipe.F, pipe.B))
    return np.logical_and(np.logical_or(few, np.greater_equal(pipe.m, 2 * pipe.pp - 1)), hides)


def in_flight_chunks(pp: Num, vpp: Num, microbatches: Num, rank: Num) -> Num:
    """Two chunks for each rank, everywhere; fewer on the first ranks until the V is full."""
    return np.minimum(2 * pp + 0.0 * vpp, microbatches + np.minimum(microbatches, rank + 1))


def order(pp: int, vpp: int, microbatches: int, times: PassTimes = UNIT) -> Orders:
    """Write out the passes as if there were enough micro-batches to fill the V; the others are left out."""
    return tuple(_passes(rank, pp, microbatches) for rank in range(pp))


def _passes(rank: int, pp: int, microbatches: int) -> tuple[Pass, ...]:
    script, enough = OrderScript(microbatches), max(2 * pp - 1, microbatches)
    down, up = rank, 2 * pp - 1 - rank
    script.run("F", down, 2 * (pp - rank) - 1)
    for _ in range(rank):
        script.run("F", up)
        script.run("F", down)
    for _ in range(pp - rank):
        script.run_all(GROUP, up)
    while script.count("F", up) < enough:
        script.run("F", down, int(script.count("F", down) < enough))
        script.run_all(GROUP[1:], down)
        script.run_all(GROUP, up)
    for _ in range(rank):
        script.run("B", down)
        script.run("B", up)
    for _ in range(pp - rank):
        script.run_all(GROUP[1:], down)
    script.run("W", up, enough - script.count("W", up))
    script.run("W", down, enough - script.count("W", down))
    return script.passes()


ENTRY = Schedule(
    name="zb-v",
    aliases=("zbv", "ZBVZeroBubble", "ScheduleZBVZeroBubble"),
    cite="arXiv:2401.10241, sec. 6",
    splits_backward=True,
    rules=(TWO_CHUNKS,),
    bubble_seconds=zb_v_bubble_seconds,
    span_bubble=zb_v_span_bubble_seconds,
    in_flight_chunks=in_flight_chunks,
    order=order,
    placement=v_rank,
    messages=v_messages,
    holds=holds,
)
