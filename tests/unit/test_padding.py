"""Padding of sharded rows, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from planner.cost.case import case_of
from planner.cost.memory.padding import Parameters, expert_padding, padded_elements
from tests.cases import every
from tests.unit.cost_jobs import MODELS, job, plan_of, runtime


def test_columns_and_scalars_pad_alike() -> None:
    """Of 10 rows 4 ranks hold 3 each, 5 ranks 2, and 16 ranks one: 2, 0 and 6 rows too many, of 7."""
    found = padded_elements([Parameters(10.0, 7.0)], np.array([4.0, 5.0, 16.0]))
    assert np.array_equal(np.asarray(found), [14.0, 0.0, 42.0])
    assert padded_elements([Parameters(10.0, 7.0)], 16.0) == 42.0


@every(("gpus", "share"), [(4, 1.0), (6, 12 / 8), (8, 1.0), (16, 1.0)])
def test_experts_are_whole_until_ranks_are_more(gpus: int, share: float) -> None:
    """Of 8 experts 6 ranks hold 2 each: 12 for 8; more ranks than experts cut the experts' own rows."""
    work = job(MODELS["experts"], gpus)
    plan = plan_of(work, zero=3)
    case = case_of(plan, work, runtime("torchtitan"))
    assert case.experts == 8
    assert expert_padding(case, plan) == pytest.approx(share)
