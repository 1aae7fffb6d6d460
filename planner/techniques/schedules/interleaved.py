"""Interleaved 1F1B: several chunks on every rank, micro-batches in rounds."""

from __future__ import annotations

import numpy as np

from planner.formulas.pipeline import Pipe, looped_bubble_seconds, round_microbatches
from planner.numeric import Num
from planner.techniques.schedules._orders import alternate, looped
from planner.techniques.schedules.family import (
    EQUAL_ROUNDS,
    MANY_CHUNKS,
    UNIT,
    InRounds,
    Mask,
    Orders,
    PassTimes,
    Schedule,
)


def holds(pipe: Pipe) -> Mask:
    """Say that a message takes no longer than a pass of a chunk."""
    return np.less_equal(pipe.vpp * pipe.c, np.minimum(pipe.F, pipe.backward))


def in_flight_chunks(pp: Num, vpp: Num, microbatches: Num, rank: Num) -> Num:
    """Chunks in flight: the warm-up forwards and one more."""
    warm_up = 2 * (pp - 1 - rank) + (vpp - 1) * round_microbatches(pp, microbatches)
    return np.minimum(microbatches * vpp, warm_up + 1)


def order(pp: int, vpp: int, microbatches: int, times: PassTimes = UNIT) -> Orders:
    """Write out the passes; a round is ``pp`` micro-batches where ``pp`` divides them."""
    per_round = int(round_microbatches(pp, microbatches))
    ranks = looped(pp, vpp, microbatches, per_round, "BW")
    ahead = (vpp - 1) * per_round
    return tuple(
        alternate(forwards, backwards, 2 * (pp - 1 - rank) + ahead)
        for rank, (forwards, backwards) in enumerate(ranks)
    )


ENTRY = Schedule(
    name="interleaved-1f1b",
    aliases=("interleaved", "Interleaved1F1B", "ScheduleInterleaved1F1B", "1f1b-interleaved", "1f1b-i"),
    cite="arXiv:2104.04473",
    splits_backward=False,
    rules=(MANY_CHUNKS, EQUAL_ROUNDS),
    bubble_seconds=InRounds(looped_bubble_seconds),
    in_flight_chunks=in_flight_chunks,
    order=order,
    holds=holds,
)
