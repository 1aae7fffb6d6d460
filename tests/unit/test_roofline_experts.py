"""Expert layers: hand arithmetic and laws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.formulas.experts import (
    ExpertCurve,
    expert_layer_seconds,
    experts_extrapolated,
    grouped_gemm_seconds,
    routed_activation_seconds,
    tiled_rows,
    tiled_rows_in_mean,
)
from planner.inputs.curves import expert_curve, gemm_curve
from tests.unit.test_roofline_gemm import FIELDS as DENSE_FIELDS

CURVE = ExpertCurve(
    rate=500e12,
    launch=50e-6,
    bandwidth=2e12,
    activation_bandwidth=1e12,
    token_bytes=3.0,
    operand_bytes=2.0,
    output_bytes=2.0,
    rows_range=(16.0, 4096.0),
)

FIELDS = {
    "launch": "50 us",
    "rate_share": "1.2",
    "memory_efficiency": "0.8",
    "activation_efficiency": "0.85",
    "token_bytes": "2 B",
    "range": {"rows": [16, 4096]},
}


def test_many_rows_by_hand() -> None:
    # 8 experts, 10,000 rows, 4096 x 4096: 2 * 8 * 1e4 * 4096^2 / 500e12; what is moved takes 1.1 ms of 5.4.
    compute = 2 * 8 * 1e4 * 4096**2 / 500e12
    assert grouped_gemm_seconds(1e4, 4096.0, 4096.0, 8.0, CURVE) == pytest.approx(compute, rel=1e-3)


def test_few_rows_read_the_weights() -> None:
    # 64 experts of 4096 x 1024, and for one row of each what is read and written besides.
    moved = 64 * (4096 * 1024 + 1024 + 4096) * 2 / 2e12
    slow = ExpertCurve(1e18, 0.0, 2e12, 1e12, 0.0, 2.0, 2.0, (1.0, 2.0))
    assert grouped_gemm_seconds(1.0, 4096.0, 1024.0, 64.0, slow) == pytest.approx(moved, rel=1e-9)


def test_tiles_hold_the_rows_of_one_expert() -> None:
    rows = np.array([1.0, 128.0, 129.0])
    assert tiled_rows(rows, CURVE).tolist() == [128, 128, 256]
    # The mean over counts from 1 to 128 tiles, each as likely, of what tiles compute: half a tile more, less
    # half a row.
    counts = np.arange(1.0, 128 * 128 + 1)
    assert tiled_rows_in_mean(counts.mean(), CURVE) == pytest.approx(tiled_rows(counts, CURVE).mean() + 0.5)


def test_layer_is_launch_and_tokens_and_activations_and_two_products() -> None:
    shape = (256.0, 8.0, 2048.0, 768.0)
    parts = (
        50e-6
        + 16384 * 2048 * 3 / 1e12
        + routed_activation_seconds(*shape, CURVE)
        + grouped_gemm_seconds(256.0, 2 * 768.0, 2048.0, 8.0, CURVE)
        + grouped_gemm_seconds(256.0, 2048.0, 768.0, 8.0, CURVE)
    )
    assert expert_layer_seconds(16384.0, *shape, CURVE) == pytest.approx(parts)
    # 2048 rows of 2048 + 768 elements, 6 bytes each, at 1 TB/s.
    assert routed_activation_seconds(*shape, CURVE) == pytest.approx(2048 * 2816 * 6 / 1e12)


@given(shape=st.tuples(*[st.integers(1, 10_000)] * 5), axis=st.integers(0, 4), more=st.integers(1, 1000))
def test_more_work_never_takes_less(shape: tuple[int, ...], axis: int, more: int) -> None:
    small = [float(size) for size in shape]
    large = [size + more * (place == axis) for place, size in enumerate(small)]
    assert expert_layer_seconds(*small, CURVE) <= expert_layer_seconds(*large, CURVE)


def test_array_equals_scalar() -> None:
    rows = np.random.default_rng(5).integers(1, 10_000, 300).astype(float)
    column = expert_layer_seconds(512.0, rows, 8.0, 4096.0, 1536.0, CURVE)
    assert column.tolist() == [
        float(expert_layer_seconds(512.0, one, 8.0, 4096.0, 1536.0, CURVE)) for one in rows
    ]


def test_the_rate_is_at_most_that_of_the_dense_product() -> None:
    dense = gemm_curve(DENSE_FIELDS, 1e15, 4e12, 132.0)
    curve = expert_curve(FIELDS, dense, 4e12)
    assert (curve.rate, curve.operand_bytes) == (dense.rate, dense.operand_bytes)
    assert expert_curve(FIELDS, dense, 4e12, trained=False).rate == pytest.approx(1.2 * dense.rate)
    slower = FIELDS | {"rate_share": "0.8"}
    assert expert_curve(slower, dense, 4e12).rate == pytest.approx(0.8 * dense.rate)
    assert (curve.bandwidth, curve.activation_bandwidth) == pytest.approx((3.2e12, 3.4e12))
    assert experts_extrapolated(np.array([8.0, 16.0, 5000.0]), curve).tolist() == [1, 0, 1]


def test_a_range_without_rows_is_refused() -> None:
    with pytest.raises(ValueError, match="rows with two numbers"):
        expert_curve(FIELDS | {"range": 3}, gemm_curve(DENSE_FIELDS, 1e15, 4e12, 132.0), 4e12)
