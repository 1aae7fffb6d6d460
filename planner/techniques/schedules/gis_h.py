"""GIS-H: as GIS in groups of half as many micro-batches as ranks: nearly half of the activations."""

from __future__ import annotations

import numpy as np

from planner.formulas.pipeline import Pipe
from planner.formulas.pipeline_offload import group_interleaved_bubble_seconds
from planner.numeric import Num
from planner.techniques.schedules._groups import group_order, group_peak, group_turns, half
from planner.techniques.schedules.family import (
    MANY_CHUNKS,
    UNIT,
    InRounds,
    Mask,
    Orders,
    PassTimes,
    Schedule,
    ScheduleRule,
)

FORM = InRounds(group_interleaved_bubble_seconds, per_round=lambda pp, microbatches: half(pp))


def holds(pipe: Pipe) -> Mask:
    """Say that the pipeline is full, and that a micro-batch comes around within the time of its group."""
    turns = group_turns(pipe, group=half(pipe.pp))
    return np.logical_and(np.greater_equal(pipe.m, pipe.pp), turns)


def in_flight_chunks(pp: Num, vpp: Num, microbatches: Num, rank: Num) -> Num:
    """The share (v + 1) / 2v of 1F1B's on the first rank."""
    return group_peak(pp, vpp, microbatches, rank, group=half(pp))


def order(pp: int, vpp: int, microbatches: int, times: PassTimes = UNIT) -> Orders:
    """Write out the passes: groups of half as many micro-batches as ranks."""
    return group_order(pp, vpp, microbatches, group=int(half(pp)))


WHOLE_GROUPS = ScheduleRule(
    "micro-batches in multiples of half of pp, rounded up",
    lambda pp, vpp, m: np.equal(np.mod(m, half(pp)), 0),
)

ENTRY = Schedule(
    name="gis-h",
    aliases=("generalized-interleaved-half",),
    cite="arXiv:2503.01328",
    splits_backward=True,
    rules=(MANY_CHUNKS, WHOLE_GROUPS),
    bubble_seconds=FORM,
    in_flight_chunks=in_flight_chunks,
    order=order,
    holds=holds,
)
