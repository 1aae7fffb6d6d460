"""Fit the matrix-product curve of each accelerator and data type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from planner.calibrate.kernels.entries import Entry, microseconds, percent, plain, size_range
from planner.calibrate.kernels.fit import Columns, Fit, Free, Model, fit, relative_errors, solve
from planner.calibrate.kernels.tables import OPERAND_BYTES, Datasheet, Row, columns
from planner.dataclasses import dataclass
from planner.formulas.gemm import (
    GemmCurve,
    gemm_compute_seconds,
    gemm_memory_seconds,
    quantisation_seconds,
    tile_costs,
)
from planner.formulas.roofline import roofline_seconds
from planner.numeric import Column, Num

DROOP_SECONDS = 8e-3
"""Length of a product at which half of the loss of clock has set in. [s]"""

WAVES_MUST_EARN = 0.003
"""Held-out error that waves of tiles have to take away to stay in a curve. [-]"""

LARGE_TILES = ((128.0, 256.0), (256.0, 128.0))
SMALL_TILES = ((128.0, 128.0), (64.0, 64.0))

RATE = (
    Free("efficiency", 0.8, 0.05, 1.0),
    Free("half_k", 100.0, 0.0, 5000.0),
    Free("launch", 4e-6, 0.0, 5e-5),
)
SMOOTH = (*RATE, Free("half_mn", 20.0, 0.0, 500.0))
WAVES = (*RATE, Free("wave_weight", 0.2, 0.0, 1.0))
EDGE = (Free("tile_edge", 3.0, 0.0, 32.0),)
"""Fitted only where tiles differ in size; tiles of one area cost the same."""
MACHINE = (Free("memory_efficiency", 0.7, 0.3, 1.0), Free("droop", 0.1, 0.0, 1.0))
"""What belongs to the accelerator whatever the data type: fitted to bf16, then kept."""
CAST = (Free("quantisation_bytes", 3.0, 0.0, 20.0),)

ABSENT = {
    name: 0.0 for name in ("half_mn", "wave_weight", "tile_edge", "quantisation_bytes", "quantisation_launch")
}


@dataclass(frozen=True)
class Lasting:
    """Share of the burst rate that lasts, and how that is known."""

    ratio: float
    fields: Entry


def with_droop(busy: Num, droop: float) -> Num:
    """Seconds of work that long products do while the clock falls under them."""
    return busy * (1 + droop * busy / (busy + DROOP_SECONDS))


def burst_seconds(shape: Columns, curve: GemmCurve, droop: float) -> Column:
    """Seconds in a short benchmark, where only a long product lets the clock fall.

    The compute time grows by ``droop * t / (t + 8 ms)``: full clock at first, the sustained one when
    the product itself outlasts the power limiter.
    """
    m, n, k = shape["m"], shape["n"], shape["k"]
    compute = with_droop(gemm_compute_seconds(m, n, k, curve), droop)
    product = curve.launch + roofline_seconds(compute, gemm_memory_seconds(m, n, k, curve))
    if curve.residuals is not None:
        own = 1.0 + curve.residuals.share(m, n, k)
        return np.asarray((product + quantisation_seconds(m * k, curve)) * own, dtype=np.float64)
    return np.asarray(product + quantisation_seconds(m * k, curve), dtype=np.float64)


def tiles_of(sheet: Datasheet) -> tuple[tuple[float, float], ...]:
    """Tiles that the accelerator's matrix kernels have."""
    return LARGE_TILES + SMALL_TILES if sheet.small_tiles else LARGE_TILES


def curve_of(values: Mapping[str, float], dtype: str, sheet: Datasheet) -> GemmCurve:
    """Curve with these constants, without the loss of clock."""
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
        operand_bytes=OPERAND_BYTES[dtype],
        output_bytes=2.0,
        quantisation_bytes=values["quantisation_bytes"],
        quantisation_launch=values["quantisation_launch"],
        m_range=everywhere,
        n_range=everywhere,
        k_range=everywhere,
    )


def model_of(dtype: str, sheet: Datasheet) -> Model:
    """Formula of one accelerator and data type, from constants and shapes to seconds."""

    def model(values: Mapping[str, float], shape: Columns) -> Column:
        return burst_seconds(shape, curve_of(values, dtype, sheet), values["droop"])

    return model


def fit_law(
    shape: Columns, dtype: str, sheet: Datasheet, base: Mapping[str, float] | None
) -> tuple[Fit, tuple[Free, ...]]:
    """Fit the law with its whole launch time, and tell which constants were free."""
    work = 2 * shape["m"] * shape["n"] * shape["k"]
    known = ABSENT if base is None else ABSENT | {one.name: base[one.name] for one in MACHINE}
    more = MACHINE if base is None else CAST
    model = model_of(dtype, sheet)
    smooth = fit(model, (*SMOOTH, *more), known, shape, work)
    edge = EDGE if sheet.small_tiles else ()
    waves = fit(model, (*WAVES, *edge, *more), known, shape, work)
    earns = waves.held_out_error < smooth.held_out_error - WAVES_MUST_EARN
    return (waves, (*WAVES, *edge, *more)) if earns else (smooth, (*SMOOTH, *more))


def split_launch(values: Mapping[str, float], product: float) -> dict[str, float]:
    """Give the launch time beyond that of a 16-bit product to the quantisation kernels."""
    launch = min(values["launch"], product)
    return dict(values) | {"launch": launch, "quantisation_launch": values["launch"] - launch}


def sustained_ratio(
    table: Sequence[Row], dtype: str, sheet: Datasheet, values: Mapping[str, float]
) -> tuple[float, float]:
    """Share of the burst rate held over a second and more, and the mean error with it.

    ``table``: products that were repeated for at least one second; ``values``: constants of the burst fit;
    all but the rate are kept.
    """
    shape = columns(table, ("m", "n", "k"))
    model = model_of(dtype, sheet)

    def sustained(ratio: Mapping[str, float], rows: Columns) -> Column:
        rate = values["efficiency"] * ratio["ratio"]
        return model(dict(values) | {"efficiency": rate, "droop": 0.0}, rows)

    ratio = solve(sustained, [Free("ratio", 0.9, 0.3, 1.2)], {}, shape)
    return min(ratio["ratio"], 1.0), float(relative_errors(sustained, ratio, shape).mean())


def lasting_of(table: Sequence[Row], dtype: str, sheet: Datasheet, fitted: Fit) -> Lasting:
    """Share of the burst rate that lasts: measured where there is a table, else seen in long products."""
    if not table:
        return Lasting(
            1 / (1 + fitted.values["droop"]), {"sustained_standing": "long bf16 products of the burst table"}
        )
    ratio, error = sustained_ratio(table, dtype, sheet, fitted.values)
    fields: Entry = {
        "sustained_standing": "products repeated for a second and more",
        "sustained_backend": table[0]["source"],
        "sustained_rows": len(table),
        "sustained_mean_error": percent(error),
    }
    return Lasting(ratio, fields)


def gemm_entry(fitted: Fit, dtype: str, sheet: Datasheet, shape: Columns, lasting: Lasting) -> Entry:
    """Fields of one data type that `planner.inputs.curves.gemm_curve` reads."""
    values = fitted.values
    return {
        "efficiency": plain(values["efficiency"]),
        "sustained_ratio": plain(lasting.ratio),
        **lasting.fields,
        "droop": plain(values["droop"]),
        "half_k": plain(values["half_k"]),
        "half_mn": plain(values["half_mn"]),
        "wave_weight": plain(values["wave_weight"]),
        "tile_edge": plain(values["tile_edge"]),
        "tiles": [[int(a), int(b)] for a, b in tiles_of(sheet)],
        "launch": microseconds(values["launch"]),
        "memory_efficiency": plain(values["memory_efficiency"]),
        "operand_bytes": f"{OPERAND_BYTES[dtype]:.4g} B",
        "output_bytes": "2 B",
        "quantisation_bytes": f"{values['quantisation_bytes']:.4g} B",
        "quantisation_launch": microseconds(values["quantisation_launch"]),
        "range": {name: size_range(shape[name]) for name in ("m", "n", "k")},
    }
