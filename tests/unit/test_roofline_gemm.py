"""Matrix products: hand arithmetic, laws, cost of a call, and figures published elsewhere."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from scipy.interpolate import RegularGridInterpolator

from planner.formulas.gemm import (
    GemmCurve,
    gemm_compute_seconds,
    gemm_extrapolated,
    gemm_seconds,
    quantisation_seconds,
    tile_costs,
    wave_area,
)
from planner.formulas.size_grid import SizeGrid
from planner.inputs.curves import gemm_curve
from planner.units import parse
from tests.cases import every
from tests.helpers import ROOT

PEAK = 1e15

SMOOTH = GemmCurve(
    rate=0.8e15,
    half_k=100.0,
    half_mn=20.0,
    wave_weight=0.0,
    tiles=tile_costs([(128.0, 256.0), (256.0, 128.0)], 0.0),
    multiprocessors=100.0,
    launch=3e-6,
    bandwidth=2e12,
    operand_bytes=2.0,
    output_bytes=2.0,
    quantisation_bytes=3.0,
    quantisation_launch=5e-6,
    m_range=(256.0, 32768.0),
    n_range=(512.0, 65536.0),
    k_range=(512.0, 65536.0),
)
WAVES = replace(SMOOTH, half_mn=0.0, wave_weight=0.5)
MANY_TILES = replace(
    WAVES, tiles=tile_costs([(128.0, 256.0), (256.0, 128.0), (128.0, 128.0), (64.0, 64.0)], 10.0)
)
CURVES = pytest.mark.parametrize("curve", [SMOOTH, WAVES, MANY_TILES], ids=["smooth", "waves", "many tiles"])

SIZES = st.integers(1, 100_000)


class Counted(np.ndarray[Any, np.dtype[np.float64]]):
    """An array that counts the operations made with it."""

    operations = 0

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: object, **kwargs: object) -> Any:
        Counted.operations += 1
        plain = [np.asarray(one) if isinstance(one, Counted) else one for one in inputs]
        return np.asarray(getattr(ufunc, method)(*plain, **kwargs)).view(Counted)


def test_large_product_by_hand() -> None:
    # (8000 + 20)^2 * (8000 + 100) * 2 / 0.8e15 = 1.302488 ms; operands and result 384 MB in 0.192 ms.
    compute = 2 * 8020**2 * 8100 / 0.8e15
    assert gemm_compute_seconds(8000.0, 8000.0, 8000.0, SMOOTH) == pytest.approx(compute)
    expected = 3e-6 + (compute**4 + 0.192e-3**4) ** 0.25
    assert gemm_seconds(8000.0, 8000.0, 8000.0, SMOOTH) == pytest.approx(expected)


def test_narrow_product_is_bound_by_memory() -> None:
    # One row against a square weight of 8192: the weight is 134 MB, 67 us at 2 TB/s.
    weight = 8192 * 8192 * 2 / 2e12
    assert gemm_seconds(1.0, 8192.0, 8192.0, SMOOTH) == pytest.approx(3e-6 + weight, rel=0.01)


def test_waves_by_hand() -> None:
    # 1280 x 2560 is 10 x 10 tiles of 128 x 256: one wave of 100. One row more makes 11 x 10 tiles, while
    # 6 x 20 of the other tile are 120: both need a second wave, half of which is charged.
    tile = 128 * 256
    assert wave_area(1280.0, 2560.0, WAVES) == 100 * tile
    assert wave_area(1281.0, 2560.0, WAVES) == tile * (0.5 * 110 + 0.5 * 200)


def test_small_tiles_cost_their_border() -> None:
    costs = dict(((a, b), cost) for a, b, cost in tile_costs([(128.0, 256.0), (64.0, 64.0)], 10.0))
    assert costs[128.0, 256.0] == 128 * 256
    # Border of 10: 74^2 for 64^2 of output, against 138 * 266 for 128 * 256.
    assert costs[64.0, 64.0] == pytest.approx(74**2 * (128 * 256) / (138 * 266))


def test_quantisation_is_apart() -> None:
    assert quantisation_seconds(2e9, SMOOTH) == pytest.approx(5e-6 + 2e9 * 3 / 2e12)


@CURVES
@given(m=SIZES, n=SIZES, k=SIZES)
def test_never_above_the_rate(curve: GemmCurve, m: int, n: int, k: int) -> None:
    assert 2.0 * m * n * k / curve.rate <= gemm_seconds(float(m), float(n), float(k), curve) * (1 + 1e-12)


@CURVES
@given(m=SIZES, n=SIZES, k=SIZES, more=st.integers(1, 5000), axis=st.integers(0, 2))
def test_more_work_never_takes_less(curve: GemmCurve, m: int, n: int, k: int, more: int, axis: int) -> None:
    small = [float(m), float(n), float(k)]
    large = [size + more * (place == axis) for place, size in enumerate(small)]
    assert gemm_seconds(*small, curve) <= gemm_seconds(*large, curve) * (1 + 1e-12)


@CURVES
def test_array_equals_scalar(curve: GemmCurve) -> None:
    m, n, k = np.exp(np.random.default_rng(7).uniform(0, 11, (3, 999))).round()
    column = gemm_seconds(m, n, k, curve)
    assert column.tolist() == [
        float(gemm_seconds(*map(float, one), curve)) for one in zip(m, n, k, strict=True)
    ]


@every(("curve", "most"), [(SMOOTH, 25), (WAVES, 60), (MANY_TILES, 60)])
def test_a_call_is_a_few_array_operations(curve: GemmCurve, most: int) -> None:
    Counted.operations = 0
    shape = [np.full(4, size).view(Counted) for size in (1024.0, 2048.0, 4096.0)]
    gemm_seconds(*shape, curve)
    assert 10 < Counted.operations <= most


def test_outside_the_measured_sizes_is_told() -> None:
    m = np.array([255.0, 256.0, 32768.0, 32769.0])
    assert gemm_extrapolated(m, 4096.0, 4096.0, SMOOTH).tolist() == [1, 0, 0, 1]
    assert gemm_extrapolated(1024.0, 256.0, 4096.0, SMOOTH) == 1
    assert gemm_extrapolated(1024.0, 4096.0, 1e6, SMOOTH) == 1


FIELDS = {
    "efficiency": "0.8",
    "sustained_ratio": "0.9",
    "half_k": "100",
    "half_mn": "20",
    "wave_weight": "0.25",
    "tile_edge": "0",
    "tiles": [[128, 256]],
    "launch": "3 us",
    "memory_efficiency": "0.5",
    "operand_bytes": "1 B",
    "output_bytes": "2 B",
    "quantisation_bytes": "5 B",
    "quantisation_launch": "10 us",
    "range": {"m": [256, 1024], "n": [512, 2048], "k": [512, 4096]},
}


def test_fields_become_a_curve() -> None:
    curve = gemm_curve(FIELDS, PEAK, 4e12, 132.0)
    assert (curve.rate, curve.bandwidth, curve.launch) == pytest.approx((0.72e15, 2e12, 3e-6))
    assert curve.tiles == ((128.0, 256.0, 32768.0),)
    assert curve.k_range == (512.0, 4096.0)
    assert gemm_curve(FIELDS, PEAK, 4e12, 132.0, sustained=False).rate == pytest.approx(0.8e15)


def test_a_step_waits_no_longer_for_results_than_memory_does() -> None:
    """In 8 and 4 bit: 720 FLOP, 360 multiply-adds, are done while two bytes are written."""
    slow = FIELDS | {"half_k": "2000", "standing": "fitted", "operand_bytes": "2 B"}
    narrow = slow | {"operand_bytes": "0.5625 B"}
    assert gemm_curve(narrow, PEAK, 4e12, 132.0).half_k == pytest.approx(360.0)
    assert gemm_curve(narrow | {"half_k": "300"}, PEAK, 4e12, 132.0).half_k == 300.0
    for kept in (slow, narrow | {"standing": "measured"}):
        assert gemm_curve(kept, PEAK, 4e12, 132.0).half_k == 2000.0
    assert gemm_curve(narrow, PEAK, 4e12, 132.0, sustained=False).half_k == 2000.0


@every(
    ("change", "error"),
    [
        ({"efficiency": "1.2", "sustained_ratio": "1"}, "not above 0 and at most 1"),
        ({"launch": "3"}, "no unit"),
        ({"range": {"m": [1], "n": [1, 2], "k": [1, 2]}}, "two numbers"),
        ({"range": "all"}, "m, n and k"),
        ({"tiles": []}, "list of"),
    ],
)
def test_wrong_fields_are_refused(change: dict[str, object], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        gemm_curve(FIELDS | change, PEAK, 4e12, 132.0)


PUBLISHED = [
    # Best shape found by brute force, mean of 100 runs: stas00/ml-engineering, compute/accelerator/README.md,
    # "Maximum Achievable Matmul FLOPS Finder".
    ("a100-80gb-sxm", "bf16", 1024, 10240, 5120, 271.2),
    ("h100-80gb-sxm", "bf16", 2048, 2048, 13312, 794.5),
    ("b200-180gb", "bf16", 1792, 16128, 3072, 1745.0),
    ("b300", "bf16", 12288, 18432, 1024, 1769.0),
    ("gb200-186gb", "bf16", 4096, 9728, 2048, 1822.0),
    ("h100-80gb-sxm", "fp8", 1024, 9216, 14336, 1402.6),
    ("h200-141gb", "fp8", 1280, 4096, 12032, 1453.4),
    ("b300", "fp8", 3072, 6144, 7168, 3353.3),
]


@pytest.mark.parametrize(("name", "dtype", "m", "n", "k", "tflops"), PUBLISHED)
def test_published_best_shapes(name: str, dtype: str, m: int, n: int, k: int, tflops: float) -> None:
    """A best shape is a lucky one: the curve may be up to 15% below it, and hardly above."""
    file = yaml.safe_load((ROOT / "hardware_profiles/curves" / f"{name}.yaml").read_text("utf-8"))
    sheet = file["datasheet"]
    curve = gemm_curve(
        file["gemm"][dtype],
        parse(sheet[f"{dtype}_peak"], "FLOP/s"),
        parse(sheet["bandwidth"], "byte/s"),
        parse(sheet["multiprocessors"], "-"),
        sustained=False,
    )
    predicted = 2.0 * m * n * k / float(gemm_seconds(m, n, k, curve)) / 1e12
    assert 0.85 <= predicted / tflops <= 1.06


def test_residuals_are_read_interpolated_and_multiplied_on() -> None:
    """By hand: 10% more at m of 1024 and above, nothing at 512, and half of it in the middle."""
    shares = [0.0] * 4 + [0.1] * 4
    fields = FIELDS | {"residuals": {"m": [512, 1024], "n": [512, 1024], "k": [512, 1024], "shares": shares}}
    plain, own = gemm_curve(FIELDS, PEAK, 4e12, 132.0), gemm_curve(fields, PEAK, 4e12, 132.0)
    for m, more in ((256.0, 1.0), (512.0, 1.0), (768.0, 1.05), (1024.0, 1.1), (4096.0, 1.1)):
        expected = more * gemm_seconds(m, 700.0, 2000.0, plain)
        assert gemm_seconds(m, 700.0, 2000.0, own) == pytest.approx(expected, rel=1e-12)


def test_residuals_of_one_product_and_of_many_are_the_same_bits() -> None:
    dice = np.random.default_rng(3)
    axes = (tuple(2.0 ** np.arange(9, 16)),) * 3
    grid = SizeGrid(axes, tuple(dice.uniform(-0.2, 0.2, 343)))
    sizes = 2.0 ** dice.uniform(8, 16, (3, 500))
    many = grid.share(*sizes)
    assert many.tolist() == [float(grid.share(*map(float, one))) for one in sizes.T]
    exact = RegularGridInterpolator(axes, np.array(grid.shares).reshape(7, 7, 7))
    inside = np.clip(sizes, axes[0][0], axes[0][-1])
    np.testing.assert_allclose(many, exact(inside.T), atol=1e-12)


@every(
    ("change", "message"),
    [
        ({"m": [512]}, "at least two rising sizes"),
        ({"n": [1024, 512]}, "at least two rising sizes"),
        ({"shares": [0.0]}, "1 shares, expected 8"),
        ({"k": "512"}, "lists of numbers"),
    ],
)
def test_residuals_that_make_no_grid_are_refused(change: dict[str, object], message: str) -> None:
    grid = {"m": [512, 1024], "n": [512, 1024], "k": [512, 1024], "shares": [0.0] * 8}
    with pytest.raises(ValueError, match=message):
        gemm_curve(FIELDS | {"residuals": grid | change}, PEAK, 4e12, 132.0)


def test_an_area_is_worked_out_once_and_forgotten_with_the_tiles() -> None:
    whole = wave_area(1024.0, 4096.0, WAVES)
    assert WAVES.known[1024.0, 4096.0] == wave_area(1024.0, 4096.0, WAVES) == whole
    wider = replace(WAVES, tiles=tuple((a, b, 2 * cost) for a, b, cost in WAVES.tiles))
    assert wave_area(1024.0, 4096.0, wider) == 2 * whole
    assert float(wave_area(np.array([1024.0]), 4096.0, WAVES)[0]) == whole
