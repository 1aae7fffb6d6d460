"""The longest sequence that a plan can take as it is laid out."""

from __future__ import annotations

import math
from typing import Final

from planner.cost.estimate import Estimate, estimate
from planner.dataclasses import replace

STEP: Final = 1024
"""Tokens that lengths are multiples of. [-]"""
LONGEST: Final = 2**26
"""Tokens beyond which nobody asks. [-]"""


def with_sequence(answer: Estimate, seq_len: int) -> Estimate:
    """Return the same plan for sequences of another length, as many of them."""
    workload = answer.job.workload.model_copy(update={"seq_len": seq_len})
    job = replace(answer.job, workload=workload)
    return estimate(answer.plan, job, answer.runtime, answer.capacity)


def longest_sequence(answer: Estimate) -> int | None:
    """Return the longest sequence with which a plan runs and fits; None where the shortest does not.

    Lengths are multiples of `STEP` that the ranks of a sequence share evenly, found by halving: what fits at
    a length fits at a shorter one.
    """
    plan, model = answer.plan, answer.job.model
    unit = math.lcm(STEP, 2 * int(plan.cp) * int(plan.tp))
    most = model.max_positions if model.learned_positions and model.max_positions else LONGEST
    low, high = 0, most // unit + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if with_sequence(answer, middle * unit).feasible else (low, middle)
    return low * unit or None


def longest_line(answer: Estimate) -> str:
    """Return the longest sequence in words."""
    found = longest_sequence(answer)
    told = "nothing fits" if found is None else f"at most {found:,} tokens fit"
    return f"With this layout and batch {told} in a sequence (now {answer.job.workload.seq_len:,})."
