"""The Controllable Memory schedules: a building block, one micro-batch's slots, is repeated every six.

Every rank holds two chunks in a V. A slot is the time of one pass of one chunk.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from planner.formulas.pipeline import Pipe
from planner.numeric import Num
from planner.techniques.schedules._greedy import fill_idle
from planner.techniques.schedules.family import (
    TWO_CHUNKS,
    UNIT,
    Mask,
    Orders,
    Pass,
    PassTimes,
    Schedule,
    Seconds,
    v_messages,
    v_rank,
    weight_gradient_hides,
)

INTERVAL: Final = 6


class BuildingBlock(NamedTuple):
    """Slots of the passes of the first micro-batch on one rank; chunk 0 goes down the V, chunk 1 up."""

    forward_0: int
    forward_1: int
    gradient_1: int
    gradient_0: int


def block_schedule(
    name: str,
    formula: Seconds,
    peak: Callable[[Num], Num],
    block: Callable[[int, int], BuildingBlock],
    full: Callable[[Num, Num], Mask],
) -> Schedule:
    """Make the schedule that repeats a block.

    ``formula``: its bubble, right where the weight gradient is the shortest pass and far longer than a
    message; ``peak``: chunk activations that the peak rank holds, from the ranks; ``block``: the block of
    (rank, pp), passes of one slot each; ``full``: whether (pp, microbatches) fill the V, as the formula needs
    it.
    """

    def holds(pipe: Pipe) -> Mask:
        hides = weight_gradient_hides(pipe, messages=16)
        return np.logical_and(full(pipe.pp, pipe.m), hides)

    def in_flight_chunks(pp: Num, vpp: Num, microbatches: Num, rank: Num) -> Num:
        return np.minimum(peak(pp) + 0.0 * (vpp * rank), 2 * microbatches)

    def order(pp: int, vpp: int, microbatches: int, times: PassTimes = UNIT) -> Orders:
        return block_order(pp, microbatches, block)

    return Schedule(
        name=name,
        aliases=(name.replace("-", ""),),
        cite="arXiv:2405.15362",
        splits_backward=True,
        rules=(TWO_CHUNKS,),
        bubble_seconds=formula,
        in_flight_chunks=in_flight_chunks,
        order=order,
        placement=v_rank,
        messages=v_messages,
        holds=holds,
    )


def block_order(pp: int, microbatches: int, block: Callable[[int, int], BuildingBlock]) -> Orders:
    """Repeat a block, squeeze it, and let weight gradients after the last forward fill what is idle.

    ``block``: the block of (rank, pp).
    """
    fixed: list[tuple[Pass, ...]] = []
    for rank in range(pp):
        passes = _repeated(block(rank, pp), (rank, 2 * pp - 1 - rank), microbatches)
        last = max(place for place, item in enumerate(passes) if item.kind == "F")
        fixed.append((*passes[: last + 1], *(item for item in passes[last + 1 :] if item.kind != "W")))
    return fill_idle(fixed, 2 * pp)


def _repeated(block: BuildingBlock, chunks: tuple[int, int], microbatches: int) -> list[Pass]:
    """Passes of one rank in the order of their slots; weight gradients take the next free slots."""
    used = {slot % INTERVAL for slot in block}

    def free_slot(slot: int) -> int:
        while slot % INTERVAL in used:
            slot += 1
        used.add(slot % INTERVAL)
        return slot

    slots: list[tuple[int, str, int]] = [
        (block.forward_0, "F", chunks[0]),
        (block.forward_1, "F", chunks[1]),
        (block.gradient_1, "B", chunks[1]),
        (block.gradient_0, "B", chunks[0]),
        (free_slot(block.gradient_1 + 1), "W", chunks[1]),
        (free_slot(block.gradient_0 + 1), "W", chunks[0]),
    ]
    timed = [
        (slot + INTERVAL * microbatch, Pass(kind, chunk, microbatch))  # type: ignore[arg-type]
        for microbatch in range(microbatches)
        for slot, kind, chunk in slots
    ]
    return [item for _, item in sorted(timed)]
