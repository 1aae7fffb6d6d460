"""BitPipe: two V-shaped interleaved pipelines in opposite directions, each with its own weights."""

from __future__ import annotations

from collections import deque

import numpy as np

from planner.formulas.pipeline import Pipe
from planner.formulas.pipeline_two_way import bitpipe_bubble_seconds
from planner.numeric import Num
from planner.techniques.schedules._orders import OrderScript, second_route
from planner.techniques.schedules.family import (
    EVEN_RANKS,
    TWO_CHUNKS,
    UNIT,
    WHOLE_UNITS,
    Kind,
    Mask,
    Orders,
    Pass,
    PassTimes,
    Schedule,
    two_way_rank,
    v_messages,
)


def holds(pipe: Pipe) -> Mask:
    """Say that the backward is no shorter than the forward, which is far longer than a message."""
    longer = np.less_equal(pipe.F, pipe.backward)
    return np.logical_and(longer, np.less_equal(16 * pipe.c, pipe.F))


def in_flight_chunks(pp: Num, vpp: Num, microbatches: Num, rank: Num) -> Num:
    """The warm-up forwards and one more: fewest at the ends, most in the middle."""
    edge = np.minimum(rank, pp - 1 - rank)
    return 1.5 * pp + edge + 1 + 0.0 * (vpp * microbatches)


def order(pp: int, vpp: int, microbatches: int, times: PassTimes = UNIT) -> Orders:
    """Write out the passes: units of ``pp`` micro-batches, joined directly."""
    return tuple(
        second_route(_passes(rank, pp, microbatches), 2 * pp, microbatches // 2) for rank in range(pp)
    )


def _passes(rank: int, pp: int, microbatches: int) -> tuple[Pass, ...]:
    script, units = OrderScript(microbatches), microbatches // pp
    forwards, backwards = map(deque, _unit_chunks(rank, pp, units))
    warm_up = pp + pp // 2 + min(rank, pp - 1 - rank)
    paired = 2 * pp - warm_up

    def take(kind: Kind, count: int) -> None:
        for _ in range(count):
            script.run(kind, (forwards if kind == "F" else backwards).popleft())

    def pairs(count: int) -> None:
        for _ in range(count):
            take("F", 1)
            take("BW", 1)

    take("F", warm_up)
    for _ in range(units - 1):
        pairs(paired)
        take("BW", warm_up - paired + 1)
        pairs(paired - 1)
        take("F", warm_up - paired + 1)
    pairs(paired)
    take("BW", len(backwards))
    return script.passes()


def _unit_chunks(rank: int, pp: int, units: int) -> tuple[list[int], list[int]]:
    """Chunks that a rank visits, forward and backward, over all units.

    A rank is entered first by one direction (near) and then by the other (far); each comes back through the
    rank's later chunk of that direction.
    """
    half = pp // 2
    down, up = (rank, 2 * pp - 1 - rank), (3 * pp - 1 - rank, 2 * pp + pp + rank)
    (near, near_back), (far, far_back) = (down, up) if rank < half else (up, down)
    alone = half - rank if rank < half else rank - half + 1
    mixed = half - alone

    def visits(a: int, b: int, b_back: int, a_back: int) -> list[int]:
        ends = [a] * alone + [b, a] * mixed + [b, b_back] * alone
        return ends + [a_back, b_back] * mixed + [a_back] * alone

    return visits(near, far, far_back, near_back) * units, visits(near_back, far_back, far, near) * units


ENTRY = Schedule(
    name="bitpipe",
    aliases=("bit-pipe",),
    cite="arXiv:2410.19367; https://github.com/wuhouming/BitPipe",
    splits_backward=False,
    rules=(TWO_CHUNKS, EVEN_RANKS, WHOLE_UNITS),
    bubble_seconds=bitpipe_bubble_seconds,
    in_flight_chunks=in_flight_chunks,
    order=order,
    placement=two_way_rank,
    messages=v_messages,
    weight_copies=2.0,
    routes=2,
    holds=holds,
)
