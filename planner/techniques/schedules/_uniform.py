"""What PO-H and PO-F share: the evenly repeated order, its closed form, and where that claims to hold."""

from __future__ import annotations

from typing import Final

import numpy as np

from planner.formulas.pipeline import Pipe
from planner.formulas.pipeline_offload import uniform_interleaved_bubble_seconds
from planner.numeric import Num
from planner.techniques.schedules._groups import group_turns, half, lead_beats, uniform_order
from planner.techniques.schedules.family import UNIT, Mask, Orders, PassTimes


def bubble_seconds(pipe: Pipe) -> Num:
    """Makespan minus work, copies hidden."""
    return uniform_interleaved_bubble_seconds(pipe, lead_beats(pipe.pp, pipe.vpp))


def holds(pipe: Pipe) -> Mask:
    """Say that turns are short, ranks many, passes alike, and that the step is long beside two passes."""
    turns = group_turns(pipe, group=half(pipe.pp))
    many = np.logical_and(np.greater_equal(pipe.pp, 2 * pipe.vpp), np.greater_equal(pipe.m, 6 * pipe.pp))
    alike = np.less_equal(np.abs(pipe.B - pipe.F), 0.2 * pipe.F)
    return np.logical_and(np.logical_and(turns, many), alike)


def in_flight_chunks(pp: Num, vpp: Num, microbatches: Num, rank: Num) -> Num:
    """Chunks between forward and weight gradient, on the device or not: nearly half of those of 1F1B."""
    return np.minimum(microbatches * vpp, lead_beats(pp, vpp) + pp - rank)


MOVING: Final = 5.0
"""Chunks on their way to the host or back, or in their passes, at most where all go and copies keep up. [-]

Played steps have no more, nearly all of them four (`tests/property/test_pipeline_offload.py`).

References
----------
.. [1] X. Wan et al., "PipeOffload," arXiv:2503.01328: about four layers, of one in a chunk, are left on the
   device, whatever the number of stages.
"""


def on_device_chunks(pp: Num, vpp: Num, microbatches: Num, rank: Num, kept: Num) -> Num:
    """Bound of the chunks on the device where copies keep up and the last ``kept`` of a rank's chunks stay.

    Chunk ``n`` lives 2 l (v - 1 - n) / (v - 1) + p - i beats for a lead of l beats, and a micro-batch enters
    every v; of each kept chunk one more may be there.
    """
    lives = lead_beats(pp, vpp) * (kept * (kept - 1.0)) / np.maximum(vpp - 1.0, 1.0) + kept * (pp - rank)
    moving = MOVING * (1.0 - kept / vpp)
    return np.minimum(in_flight_chunks(pp, vpp, microbatches, rank), lives / vpp + kept + moving)


def order(pp: int, vpp: int, microbatches: int, times: PassTimes = UNIT) -> Orders:
    """Write out the passes of a micro-batch, and repeat them."""
    return uniform_order(pp, vpp, microbatches)
