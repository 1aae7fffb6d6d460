"""What Megatron-Bridge's cards tell of the first step, stage by stage."""

from __future__ import annotations

import numpy as np
import pytest

from planner.cost.case import case_of
from planner.cost.memory.stage_memory import first_step_bytes
from planner.cost.step.parts import PlanParts
from planner.units import GB
from tests.cases import every
from tests.measured.matched import priced

MEGATRON_70B_FEED_FORWARD = 20 * 3 * 8192 * 28672 / 4
"""Weights of the feed-forwards of 20 layers on one of four tensor-parallel ranks. [element]"""


def stages_gb(card: str) -> list[float]:
    """Return what each stage holds at the peak of the first step of one card. [GB]"""
    (run,) = (run for run, _ in priced() if run.run.id == card)
    case = case_of(run.plan, run.job, run.runtime)
    memory = PlanParts(run.plan, case).step.memory
    return [float(nbytes) / GB for nbytes in np.ravel(first_step_bytes(case, memory))]


@every("card", ["bc-0056", "bc-0057"])
def test_cards_that_recompute_the_feed_forward_tell_what_middle_stages_hold(card: str) -> None:
    """55.6 GB were told; a rank of every stage tells its own, and the harness takes the first line."""
    first, second, third, last = stages_gb(card)
    assert second == third == pytest.approx(55.6, abs=0.05)
    assert min(first, last) > 58.9


def test_transposes_are_in_the_first_step_of_the_other_cards() -> None:
    """58.8 and 50.2 GB, at tp 4 and tp 8, leave no room for weights that rest without their transposes."""
    for card, told, tp in (("bc-0059", 58.8, 4), ("bc-0062", 50.2, 8)):
        without = max(stages_gb(card)) - MEGATRON_70B_FEED_FORWARD * 4 / tp / GB
        assert max(stages_gb(card)) == pytest.approx(told, rel=0.01)
        assert without < 0.965 * told
