"""The range that a step is expected in: what a band says of prices, turned round to what is measured."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from planner.inputs.bands import is_as_expected, step_range
from planner.report.plan_columns import banded
from tests.cases import every

PRICES = st.floats(1e-3, 1e6)
BANDS = st.floats(0.001, 3.0)


@given(PRICES, BANDS, st.floats(0.01, 100.0))
def test_a_measured_step_is_in_the_range_where_its_price_is_off_by_no_more_than_the_band(
    price: float, band: float, times: float
) -> None:
    measured = price * times
    off = abs(price / measured - 1.0)
    low, high = step_range(price, band)
    if abs(off - band) > 1e-9:
        assert (low <= measured <= high) == (off < band)


@given(PRICES, BANDS)
def test_a_range_holds_the_price_and_nothing_below_zero(price: float, band: float) -> None:
    low, high = step_range(price, band)
    assert 0.0 < low < price < high


def test_a_price_that_may_be_low_by_any_factor_has_no_upper_end() -> None:
    assert math.isinf(step_range(1.0, 1.0)[1])
    assert banded({"error_band": 1.388, "step_time_s": 0.116}) == "0.116 (> 0.0486)"
    assert banded({"error_band": 0.25, "step_time_s": 100.0}) == "100 (80-133)"


@every(("measured", "expected"), [(0.9, True), (2.9, True), (3.1, False), (0.3, False)])
def test_a_run_that_takes_several_times_its_price_is_worth_a_look(measured: float, expected: bool) -> None:
    assert is_as_expected(measured, 1.0, 2.0) is expected
