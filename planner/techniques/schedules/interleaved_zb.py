"""Interleaved ZB-H1: ZB-H1 over a loop of chunks, as PyTorch runs it; with one chunk it is ZB-H1."""

from __future__ import annotations

from collections import deque

import numpy as np

from planner.formulas.pipeline import Pipe, round_microbatches
from planner.formulas.pipeline_split import interleaved_zb_bubble_seconds
from planner.numeric import Num
from planner.techniques.schedules._orders import alternate, looped
from planner.techniques.schedules.family import (
    EQUAL_ROUNDS,
    UNIT,
    InRounds,
    Mask,
    Orders,
    Pass,
    PassTimes,
    Schedule,
    weight_gradient_hides,
)


def holds(pipe: Pipe) -> Mask:
    """Say that a round fills the ranks, and the weight gradient is the shortest pass but hides messages."""
    hides = weight_gradient_hides(pipe, messages=2 * pipe.vpp)
    return np.logical_and(np.greater_equal(pipe.m, pipe.pp), hides)


def in_flight_chunks(pp: Num, vpp: Num, microbatches: Num, rank: Num) -> Num:
    """As many as the first rank has ahead, on every rank."""
    ahead = (vpp - 1) * round_microbatches(pp, microbatches) + pp
    return np.minimum(microbatches * vpp, ahead + 0.0 * rank)


def awaiting_weight_chunks(pp: Num, vpp: Num, microbatches: Num, rank: Num) -> Num:
    """Rank ``i`` keeps ``i`` weight gradients back."""
    live = (vpp - 1) * round_microbatches(pp, microbatches) + pp - rank
    return np.maximum(0.0, in_flight_chunks(pp, vpp, microbatches, rank) - live)


def order(pp: int, vpp: int, microbatches: int, times: PassTimes = UNIT) -> Orders:
    """Write out the passes: rank ``i`` lets ``i`` weight gradients wait."""
    per_round = int(round_microbatches(pp, microbatches))

    def passes(rank: int, forwards: list[Pass], gradients: list[Pass]) -> tuple[Pass, ...]:
        waiting: deque[Pass] = deque()
        script: list[Pass] = []
        for item in alternate(forwards, gradients, (vpp - 1) * per_round + pp - 1 - rank):
            script.append(item)
            if item.kind == "B":
                waiting.append(item._replace(kind="W"))
            if len(waiting) > rank:
                script.append(waiting.popleft())
        return (*script, *waiting)

    ranks = looped(pp, vpp, microbatches, per_round, "B")
    return tuple(passes(rank, *own) for rank, own in enumerate(ranks))


ENTRY = Schedule(
    name="interleaved-zb",
    aliases=("InterleavedZeroBubble", "ScheduleInterleavedZeroBubble", "interleaved-zb-h1"),
    cite="arXiv:2401.10241; https://docs.pytorch.org/docs/stable/distributed.pipelining.html",
    splits_backward=True,
    rules=(EQUAL_ROUNDS,),
    bubble_seconds=InRounds(interleaved_zb_bubble_seconds),
    in_flight_chunks=in_flight_chunks,
    awaiting_weight_chunks=awaiting_weight_chunks,
    order=order,
    holds=holds,
)
