"""Expert layers: hand arithmetic and laws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.formulas.experts import (
    ExpertCurve,
    expert_curve,
    expert_layer_seconds,
    experts_extrapolated,
    grouped_gemm_seconds,
    routed_activation_seconds,
)
from planner.formulas.gemm import gemm_curve
from tests.unit.test_roofline_gemm import FIELDS as DENSE_FIELDS

CURVE = ExpertCurve(
    rate=500e12,
    half_rows=100.0,
    launch=50e-6,
    weight_bandwidth=2e12,
    activation_bandwidth=1e12,
    operand_bytes=2.0,
    rows_range=(16.0, 4096.0),
)

FIELDS = {
    "half_rows": "130",
    "launch": "50 us",
    "weight_efficiency": "0.8",
    "activation_efficiency": "0.85",
    "range": {"rows": [16, 4096]},
}


def test_many_rows_by_hand() -> None:
    # 8 experts, 9900 + 100 rows, 4096 x 4096: 2 * 8 * 1e4 * 4096^2 / 500e12; the weights take 0.13 ms.
    compute = 2 * 8 * 1e4 * 4096**2 / 500e12
    assert grouped_gemm_seconds(9900.0, 8.0, 4096.0, 4096.0, CURVE) == pytest.approx(compute, rel=1e-4)


def test_few_rows_read_the_weights() -> None:
    weights = 64 * 4096 * 1024 * 2 / 2e12
    slow = ExpertCurve(1e18, 0.0, 0.0, 2e12, 1e12, 2.0, (1.0, 2.0))
    assert grouped_gemm_seconds(1.0, 64.0, 4096.0, 1024.0, slow) == pytest.approx(weights, rel=1e-3)


def test_layer_is_launch_and_activations_and_three_products() -> None:
    shape = (256.0, 8.0, 2048.0, 768.0)
    parts = (
        50e-6
        + routed_activation_seconds(*shape, CURVE)
        + grouped_gemm_seconds(256.0, 8.0, 3 * 768.0, 2048.0, CURVE)
    )
    assert expert_layer_seconds(*shape, CURVE) == pytest.approx(parts)
    # 2048 rows of 2048 + 768 elements, 6 bytes each, at 1 TB/s.
    assert routed_activation_seconds(*shape, CURVE) == pytest.approx(2048 * 2816 * 6 / 1e12)


@given(shape=st.tuples(*[st.integers(1, 10_000)] * 4), axis=st.integers(0, 3), more=st.integers(1, 1000))
def test_more_work_never_takes_less(shape: tuple[int, ...], axis: int, more: int) -> None:
    small = [float(size) for size in shape]
    large = [size + more * (place == axis) for place, size in enumerate(small)]
    assert expert_layer_seconds(*small, CURVE) <= expert_layer_seconds(*large, CURVE)


def test_array_equals_scalar() -> None:
    rows = np.random.default_rng(5).integers(1, 10_000, 300).astype(float)
    column = expert_layer_seconds(rows, 8.0, 4096.0, 1536.0, CURVE)
    assert column.tolist() == [float(expert_layer_seconds(one, 8.0, 4096.0, 1536.0, CURVE)) for one in rows]


def test_the_rate_is_that_of_the_dense_product() -> None:
    dense = gemm_curve(DENSE_FIELDS, 1e15, 4e12, 132.0)
    curve = expert_curve(FIELDS, dense, 4e12)
    assert (curve.rate, curve.operand_bytes) == (dense.rate, dense.operand_bytes)
    assert (curve.weight_bandwidth, curve.activation_bandwidth) == pytest.approx((3.2e12, 3.4e12))
    assert experts_extrapolated(np.array([8.0, 16.0, 5000.0]), curve).tolist() == [1, 0, 1]


def test_a_range_without_rows_is_refused() -> None:
    with pytest.raises(ValueError, match="rows with two numbers"):
        expert_curve(FIELDS | {"range": 3}, gemm_curve(DENSE_FIELDS, 1e15, 4e12, 132.0), 4e12)
