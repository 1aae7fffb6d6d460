"""GIS: interleaved with the backward split, and no forward earlier than a full pipeline needs."""

from __future__ import annotations

import numpy as np

from planner.formulas.pipeline import Pipe
from planner.formulas.pipeline_offload import group_interleaved_bubble_seconds
from planner.numeric import Num
from planner.techniques.schedules._groups import group_order, group_peak, group_turns
from planner.techniques.schedules.family import (
    MANY_CHUNKS,
    UNIT,
    WHOLE_UNITS,
    InRounds,
    Mask,
    Orders,
    PassTimes,
    Schedule,
)

FORM = InRounds(group_interleaved_bubble_seconds, per_round=lambda pp, microbatches: pp)


def holds(pipe: Pipe) -> Mask:
    """Say that a micro-batch comes around within the time of its group."""
    turns = group_turns(pipe, group=pipe.pp)
    return np.logical_and(np.greater_equal(pipe.m, pipe.pp), turns)


def in_flight_chunks(pp: Num, vpp: Num, microbatches: Num, rank: Num) -> Num:
    """As many as 1F1B on the first rank."""
    return group_peak(pp, vpp, microbatches, rank, group=pp)


def order(pp: int, vpp: int, microbatches: int, times: PassTimes = UNIT) -> Orders:
    """Write out the passes: groups of as many micro-batches as ranks."""
    return group_order(pp, vpp, microbatches, group=pp)


ENTRY = Schedule(
    name="gis",
    aliases=("generalized-interleaved",),
    cite="arXiv:2503.01328",
    splits_backward=True,
    rules=(MANY_CHUNKS, WHOLE_UNITS),
    bubble_seconds=FORM,
    in_flight_chunks=in_flight_chunks,
    order=order,
    holds=holds,
)
