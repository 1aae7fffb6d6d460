"""The roofline by hand arithmetic."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.formulas.roofline import memory_bound_seconds, roofline_seconds

TIMES = st.floats(1e-7, 10.0)


def test_equal_times_cost_the_fourth_root_of_two() -> None:
    assert roofline_seconds(2.0, 2.0) == pytest.approx(2.0 * 1.189207115, rel=1e-9)


def test_a_small_side_hardly_counts() -> None:
    # The fourth root of 1.0001.
    assert roofline_seconds(1.0, 0.1) == pytest.approx(1.000024999, rel=1e-9)


@given(compute=TIMES, memory=TIMES)
def test_lies_between_the_larger_and_nineteen_percent_above(compute: float, memory: float) -> None:
    larger = max(compute, memory)
    assert larger * (1 - 1e-12) <= roofline_seconds(compute, memory) <= larger * 1.18921


@given(compute=st.lists(TIMES, min_size=1, max_size=20), memory=TIMES)
def test_array_equals_scalar(compute: list[float], memory: float) -> None:
    column = roofline_seconds(np.array(compute), memory)
    assert column.tolist() == [float(roofline_seconds(one, memory)) for one in compute]


def test_memory_bound_kernel_by_hand() -> None:
    # 1.7 GB at 85% of 2 TB/s is one millisecond.
    assert memory_bound_seconds(1.7e9, 2e12, 0.85, 3e-6) == pytest.approx(1.003e-3)
