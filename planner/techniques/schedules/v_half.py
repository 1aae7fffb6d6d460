"""V-Half: half of the activations of 1F1B, and half of its bubble."""

from __future__ import annotations

import numpy as np

from planner.formulas.pipeline_v import v_half_bubble_seconds
from planner.numeric import Num
from planner.techniques.schedules._blocks import BuildingBlock, block_schedule
from planner.techniques.schedules.family import Mask


def peak_chunks(pp: Num) -> Num:
    """Half of those of 1F1B."""
    return 2 * np.floor((pp + 2) / 2)


def fills(pp: Num, microbatches: Num) -> Mask:
    """Say that there are enough micro-batches for the formula."""
    return np.greater_equal(microbatches, 2 * pp)


def block(rank: int, pp: int) -> BuildingBlock:
    """Slots of the first micro-batch on a rank, passes of one slot each."""
    shift = 3 if pp % 2 == 0 else 0
    return BuildingBlock(
        2 * rank, 3 * pp - rank - 2, 3 * pp + shift + 2 * rank - 1, 6 * pp + shift - rank - 2
    )


ENTRY = block_schedule(
    name="v-half",
    formula=v_half_bubble_seconds,
    peak=peak_chunks,
    block=block,
    full=fills,
)
