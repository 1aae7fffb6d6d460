"""V-Min: a third of the activations of 1F1B; unequal passes cost every micro-batch."""

from __future__ import annotations

import numpy as np

from planner.formulas.pipeline_v import v_min_bubble_seconds
from planner.numeric import Num
from planner.techniques.schedules._blocks import BuildingBlock, block_schedule
from planner.techniques.schedules.family import Mask


def peak_chunks(pp: Num) -> Num:
    """A third of those of 1F1B."""
    return 2 * np.floor((pp + 4) / 3)


def fills(pp: Num, microbatches: Num) -> Mask:
    """Say that there are enough ranks for the formula."""
    return np.greater_equal(pp, 3)


def block(rank: int, pp: int) -> BuildingBlock:
    """Slots of the first micro-batch on a rank, passes of one slot each."""
    shift = 2 if pp % 3 == 0 else 0
    return BuildingBlock(rank, 2 * pp - rank - 1, 2 * pp + shift + rank, 4 * pp + shift - rank - 1)


ENTRY = block_schedule(
    name="v-min",
    formula=v_min_bubble_seconds,
    peak=peak_chunks,
    block=block,
    full=fills,
)
