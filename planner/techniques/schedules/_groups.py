"""Interleaved orders with a split backward, as PipeOffload has them: in groups, or evenly repeated.

A beat of a full pipeline is one forward, one input gradient and its weight gradient on every rank.
"""

from __future__ import annotations

import math

import numpy as np

from planner.formulas.pipeline import Pipe
from planner.numeric import Num
from planner.techniques.schedules._orders import alternate, looped
from planner.techniques.schedules.family import Mask, Orders, Pass, weight_gradient_hides


def half(pp: Num) -> Num:
    """Return half of the ranks, rounded up: so many beats of three passes outlast a pass on every rank."""
    return np.ceil(pp / 2.0)


def group_order(pp: int, vpp: int, microbatches: int, group: int) -> Orders:
    """Run groups of micro-batches through all chunks in turn, every weight gradient at once."""

    def passes(rank: int, forwards: list[Pass], gradients: list[Pass]) -> tuple[Pass, ...]:
        script: list[Pass] = []
        for item in alternate(forwards, gradients, group * (vpp - 1) + pp - 1 - rank):
            script += [item, item._replace(kind="W")] if item.kind == "B" else [item]
        return tuple(script)

    return tuple(passes(rank, *own) for rank, own in enumerate(looped(pp, vpp, microbatches, group, "B")))


def group_peak(pp: Num, vpp: Num, microbatches: Num, rank: Num, group: Num) -> Num:
    """Count the chunks in flight: the forwards before the first gradient."""
    return np.minimum(microbatches * vpp, group * (vpp - 1) + pp - rank)


def group_turns(pipe: Pipe, group: Num) -> Mask:
    """Say that a micro-batch goes once around the ranks, either way, while a rank runs a group's beats.

    The weight gradient is the shortest pass, and far longer than a message.
    """
    around = pipe.pp * (np.maximum(pipe.F, pipe.B) + pipe.vpp * pipe.c)
    in_time = np.less_equal(around, group * (pipe.F + pipe.B + pipe.W))
    return np.logical_and(in_time, weight_gradient_hides(pipe, messages=8 * pipe.vpp))


def beats(pp: int, vpp: int) -> tuple[int, ...]:
    """Return the beats in which a micro-batch visits the chunks of a rank, no two equal modulo ``vpp``."""
    stride = int(half(pp))
    apart = vpp // math.gcd(vpp, stride)
    return tuple(stride * visit + visit // apart for visit in range(vpp))


def lead_beats(pp: Num, vpp: Num) -> Num:
    """Count the beats from the first visit to the last."""
    stride = half(pp)
    shared = np.gcd(np.asarray(vpp).astype(np.int64), np.asarray(stride).astype(np.int64))
    return stride * (vpp - 1) + (shared - 1)


def uniform_order(pp: int, vpp: int, microbatches: int) -> Orders:
    """Let a micro-batch enter every ``vpp`` beats, and repeat what it does: all have the same lifespans."""
    visits = beats(pp, vpp)

    def passes(rank: int) -> tuple[Pass, ...]:
        back = visits[-1] + pp - 1 - rank
        placed: list[tuple[int, int, Pass]] = []
        for microbatch in range(microbatches):
            for visit, beat in enumerate(visits):
                at, chunk = beat + vpp * microbatch, (vpp - 1 - visit) * pp + rank
                placed.append((at, 0, Pass("F", visit * pp + rank, microbatch)))
                placed.append((at + back, 1, Pass("B", chunk, microbatch)))
                placed.append((at + back, 2, Pass("W", chunk, microbatch)))
        return tuple(item for _, _, item in sorted(placed, key=lambda entry: entry[:2]))

    return tuple(passes(rank) for rank in range(pp))
