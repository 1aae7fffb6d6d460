"""Fit the matrix-product curve of each accelerator and data type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from planner.calibrate.kernel_fit import Columns, Fit, Free, Model, fit, relative_errors, solve
from planner.calibrate.kernel_tables import OPERAND_BYTES, Datasheet, Row, columns, select
from planner.formulas.gemm import (
    GemmCurve,
    gemm_compute_seconds,
    gemm_memory_seconds,
    quantisation_seconds,
    tile_costs,
)
from planner.formulas.roofline import roofline_seconds
from planner.numeric import Column

BACKENDS = ("trtllm-1.3.0rc20", "sglang-0.5.10")
"""Backends whose rows are fitted, the first that has the accelerator; never mixed."""

DROOP_SECONDS = 8e-3
"""Length of a product at which half of the loss of clock has set in. [s]"""

WAVES_MUST_EARN = 0.003
"""Held-out error that waves of tiles have to take away to stay in a curve. [-]"""

LARGE_TILES = ((128.0, 256.0), (256.0, 128.0), (128.0, 128.0))
SMALL_TILES = ((64.0, 256.0), (256.0, 64.0), (64.0, 128.0), (128.0, 64.0))

COMMON = (
    Free("efficiency", 0.8, 0.05, 1.0),
    Free("half_k", 100.0, 0.0, 5000.0),
    Free("launch", 4e-6, 0.0, 5e-5),
    Free("memory_efficiency", 0.7, 0.3, 1.0),
    Free("droop", 0.1, 0.0, 1.0),
)
SMOOTH = (*COMMON, Free("half_mn", 20.0, 0.0, 500.0))
WAVES = (*COMMON, Free("wave_weight", 0.2, 0.0, 1.0), Free("tile_edge", 3.0, 0.0, 30.0))


def burst_seconds(shape: Columns, curve: GemmCurve, droop: float) -> Column:
    """Seconds in a short benchmark, where only a long product lets the clock fall.

    The compute time grows by ``droop * t / (t + 8 ms)``: full clock at first, the sustained one when
    the product itself outlasts the power limiter.
    """
    m, n, k = shape["m"], shape["n"], shape["k"]
    compute = gemm_compute_seconds(m, n, k, curve)
    compute = compute * (1 + droop * compute / (compute + DROOP_SECONDS))
    product = curve.launch + roofline_seconds(compute, gemm_memory_seconds(m, n, k, curve))
    return np.asarray(product + quantisation_seconds(m * k, curve), dtype=np.float64)


def tiles_of(sheet: Datasheet) -> tuple[tuple[float, float], ...]:
    """Tiles that the accelerator's matrix kernels have."""
    return LARGE_TILES + SMALL_TILES if sheet.small_tiles else LARGE_TILES


def curve_of(values: Mapping[str, float], dtype: str, sheet: Datasheet) -> GemmCurve:
    """Curve with these constants, without the loss of clock."""
    operand = OPERAND_BYTES[dtype]
    everywhere = (0.0, float("inf"))
    return GemmCurve(
        rate=values["efficiency"] * sheet.peaks[dtype],
        half_k=values["half_k"],
        half_mn=values["half_mn"],
        wave_weight=values["wave_weight"],
        tiles=tile_costs(tiles_of(sheet), values["tile_edge"]),
        multiprocessors=sheet.multiprocessors,
        launch=values["launch"],
        bandwidth=values["memory_efficiency"] * sheet.bandwidth,
        operand_bytes=operand,
        output_bytes=2.0,
        quantisation_bytes=quantisation_bytes(dtype),
        quantisation_launch=values["quantisation_launch"],
        m_range=everywhere,
        n_range=everywhere,
        k_range=everywhere,
    )


def quantisation_bytes(dtype: str) -> float:
    """Bytes to read a bf16 element and write it in ``dtype``, nothing for bf16. [byte]"""
    return 0.0 if dtype == "bf16" else 2.0 + OPERAND_BYTES[dtype]


def model_of(dtype: str, sheet: Datasheet) -> Model:
    """Formula of one accelerator and data type, from constants and shapes to seconds."""

    def model(values: Mapping[str, float], shape: Columns) -> Column:
        return burst_seconds(shape, curve_of(values, dtype, sheet), values["droop"])

    return model


def backend_of(table: Sequence[Row]) -> str:
    """Backend to fit: the newest complete one that the accelerator has.

    Raises
    ------
    ValueError
        If it has none of them.
    """
    counts = {name: len(select(table, source=name)) for name in BACKENDS}
    known = [name for name in BACKENDS if counts[name]]
    if not known:
        raise ValueError(f"no rows of {', '.join(BACKENDS)}")
    return known[0] if counts[known[0]] >= max(counts.values()) else known[-1]


def fit_gemm(
    table: Sequence[Row], dtype: str, sheet: Datasheet, launch: float | None = None
) -> Fit:
    """Fit one data type of one accelerator; waves of tiles stay only where they earn their place.

    Parameters
    ----------
    table : sequence of rows
        Rows of one accelerator, data type and backend.
    dtype : str
        Data type.
    sheet : Datasheet
        Its accelerator.
    launch : float, optional
        Launch time of the 16-bit product; the rest belongs to the quantisation kernels. [s]
    """
    shape = columns(table, ("m", "n", "k"))
    work = 2 * shape["m"] * shape["n"] * shape["k"]
    known = {"half_mn": 0.0, "wave_weight": 0.0, "tile_edge": 0.0, "quantisation_launch": 0.0}
    model = model_of(dtype, sheet)
    smooth = fit(model, SMOOTH, known, shape, work)
    waves = fit(model, WAVES, known, shape, work)
    best = waves if waves.held_out_error < smooth.held_out_error - WAVES_MUST_EARN else smooth
    if launch is None:
        return best
    extra = max(best.values["launch"] - launch, 0.0)
    parts = {"launch": best.values["launch"] - extra, "quantisation_launch": extra}
    return replace(best, values=dict(best.values) | parts)


def sustained_ratio(table: Sequence[Row], dtype: str, sheet: Datasheet, values: Mapping[str, float]) -> tuple[float, float]:
    """Share of the burst rate held over a second and more, and the mean error with it.

    Parameters
    ----------
    table : sequence of rows
        Products that were repeated for at least one second.
    dtype, sheet, values
        Data type, accelerator and constants of the burst fit; all but the rate are kept.
    """
    shape = columns(table, ("m", "n", "k"))
    model = model_of(dtype, sheet)

    def sustained(ratio: Mapping[str, float], rows: Columns) -> Column:
        rate = values["efficiency"] * ratio["ratio"]
        return model(dict(values) | {"efficiency": rate, "droop": 0.0}, rows)

    ratio = solve(sustained, [Free("ratio", 0.9, 0.3, 1.2)], {}, shape)
    return ratio["ratio"], float(relative_errors(sustained, ratio, shape).mean())


def percent(share: float) -> str:
    """Return a share as text in percent."""
    return f"{100 * share:.1f}%"


def size_range(shape: Column) -> list[int]:
    """Return the smallest and the largest size."""
    return [int(shape.min()), int(shape.max())]


def accuracy(fitted: Fit) -> dict[str, object]:
    """Fields that say how well a curve holds."""
    return {
        "rows": fitted.rows,
        "mean_error": percent(fitted.mean_error),
        "p90_error": percent(fitted.p90_error),
        "held_out_error": percent(fitted.held_out_error),
        "held_out_p90_error": percent(fitted.held_out_p90_error),
        "naive_error": percent(fitted.naive_error),
        "standing": "fitted",
    }


def gemm_entry(
    fitted: Fit, dtype: str, sheet: Datasheet, shape: Columns, sustained: Mapping[str, object]
) -> dict[str, object]:
    """One ``gemm`` entry of a curve file."""
    values = fitted.values
    return {
        "efficiency": f"{values['efficiency']:.4g}",
        **sustained,
        "half_k": f"{values['half_k']:.4g}",
        "half_mn": f"{values['half_mn']:.4g}",
        "wave_weight": f"{values['wave_weight']:.4g}",
        "tile_edge": f"{values['tile_edge']:.4g}",
        "tiles": [[int(a), int(b)] for a, b in tiles_of(sheet)],
        "launch": f"{values['launch'] * 1e6:.4g} us",
        "memory_efficiency": f"{values['memory_efficiency']:.4g}",
        "operand_bytes": f"{OPERAND_BYTES[dtype]:.4g} B",
        "output_bytes": "2 B",
        "quantisation_bytes": f"{quantisation_bytes(dtype):.4g} B",
        "quantisation_launch": f"{values['quantisation_launch'] * 1e6:.4g} us",
        "range": {name: size_range(shape[name]) for name in ("m", "n", "k")},
        **accuracy(fitted),
    }


def sustained_entry(
    table: Sequence[Row], dtype: str, sheet: Datasheet, fitted: Fit
) -> dict[str, object]:
    """How much of the burst rate lasts, and how that is known."""
    if table:
        ratio, error = sustained_ratio(table, dtype, sheet, fitted.values)
        return {
            "sustained_ratio": f"{min(ratio, 1.0):.4g}",
            "sustained_standing": "fitted to products repeated for a second and more",
            "sustained_backend": table[0]["source"],
            "sustained_rows": len(table),
            "sustained_mean_error": percent(error),
        }
    return {
        "sustained_ratio": f"{1 / (1 + fitted.values['droop']):.4g}",
        "sustained_standing": "fitted to the slowing of products longer than 8 ms in short benchmarks",
    }


def gemm_entries(
    table: Sequence[Row], sustained: Sequence[Row], sheet: Datasheet
) -> dict[str, dict[str, object]]:
    """Fit every data type that one accelerator was measured in."""
    entries: dict[str, dict[str, object]] = {}
    launch = None
    for dtype in OPERAND_BYTES:
        measured = select(table, dtype=dtype)
        if not measured:
            continue
        backend = backend_of(measured)
        measured = select(measured, source=backend)
        fitted = fit_gemm(measured, dtype, sheet, launch)
        launch = fitted.values["launch"] if launch is None else launch
        lasting = sustained_entry(select(sustained, dtype=dtype), dtype, sheet, fitted)
        shape = columns(measured, ("m", "n", "k"))
        entries[dtype] = gemm_entry(fitted, dtype, sheet, shape, lasting) | {"backend": backend}
    return entries
