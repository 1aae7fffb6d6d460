"""PyTorch's pipeline schedules by the planner's names, and what each asks of chunks and micro-batches."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from planner.dataclasses import dataclass
from planner.numeric import Num
from planner.plan import Plan
from planner.rules import Mask, divides


@dataclass(frozen=True)
class TorchSchedule:
    """One class of ``torch.distributed.pipelining.schedules``."""

    name: str
    """As ``pipeline_parallel_schedule`` takes it."""
    least_chunks: float
    most_chunks: float
    """Chunks per rank. [-]"""
    microbatches: Callable[[Num, Num], Mask]
    """Whether it runs (pp, micro-batches)."""
    text: str
    """The micro-batches it takes, in words."""
    splits_backward: bool = False
    """Whether the weight gradient is a pass of its own, which a compiled layer cannot give."""


def _any_count(pp: Num, microbatches: Num) -> Mask:
    return np.greater_equal(microbatches, 1)


def _one_per_stage(pp: Num, microbatches: Num) -> Mask:
    return np.greater_equal(microbatches, pp)


def _two_per_rank(pp: Num, microbatches: Num) -> Mask:
    return np.greater_equal(microbatches, 2 * pp)


def _equal_rounds(pp: Num, microbatches: Num) -> Mask:
    return divides(np.maximum(1, np.floor_divide(microbatches, pp)), microbatches)


_ROUNDS = "micro-batches in equal rounds of pp or more"

SCHEDULES: Final = {
    "gpipe": TorchSchedule("GPipe", 1, 1, _any_count, "1 or more"),
    "1f1b": TorchSchedule("1F1B", 1, 1, _one_per_stage, "pp or more"),
    "interleaved-1f1b": TorchSchedule("Interleaved1F1B", 2, math.inf, _equal_rounds, _ROUNDS),
    "breadth-first": TorchSchedule("LoopedBFS", 2, math.inf, _any_count, "1 or more"),
    "zb-1p": TorchSchedule("InterleavedZeroBubble", 1, 1, _equal_rounds, _ROUNDS, splits_backward=True),
    "zb-v": TorchSchedule("ZBVZeroBubble", 2, 2, _any_count, "1 or more", splits_backward=True),
    "dualpipe-v": TorchSchedule("DualPipeV", 2, 2, _two_per_rank, "2 · pp or more", splits_backward=True),
}


def compilable(plan: Plan) -> bool:
    """Whether the plan's layers can be compiled: a schedule may need the weight gradient apart."""
    return bool(plan.pp <= 1) or not SCHEDULES[plan.schedule].splits_backward


ASYNC_EXPOSED = 0.74
"""Share of tensor-parallel messages that nothing hides where they go in pieces beside their products (async
tensor parallelism), as torchtitan's published pairs with and without it bear out. [-]
"""
