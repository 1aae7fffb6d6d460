"""V-ZB: the activations of 1F1B, and nearly no bubble."""

from __future__ import annotations

import numpy as np

from planner.formulas.pipeline_v import v_zb_bubble_seconds
from planner.numeric import Num
from planner.techniques.schedules._blocks import BuildingBlock, block_schedule
from planner.techniques.schedules.family import Mask


def peak_chunks(pp: Num) -> Num:
    """As many as the first rank of 1F1B."""
    return 2 * pp


def fills(pp: Num, microbatches: Num) -> Mask:
    """Say that the formula takes any number of micro-batches."""
    return np.greater_equal(microbatches, 1)


def block(rank: int, pp: int) -> BuildingBlock:
    """Slots of the first micro-batch on a rank, passes of one slot each."""
    turn = 4 * (pp - 1) + 1
    top = turn + 2 * (pp - 1) + 1
    back = top + 4 * (pp - 1) + 1
    return BuildingBlock(4 * rank, turn + 2 * (pp - 1 - rank), top + 4 * rank, back + 2 * (pp - 1 - rank))


ENTRY = block_schedule(
    name="v-zb",
    formula=v_zb_bubble_seconds,
    peak=peak_chunks,
    block=block,
    full=fills,
)
