"""Fit the curve of each collective inside a scale-up domain, for each number of ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from planner.calibrate.kernels.entries import Entry, microseconds, percent, size_range
from planner.calibrate.kernels.fit import Columns, Fit, Free, Model, fit, relative_errors
from planner.calibrate.kernels.tables import Row, columns, select
from planner.formulas.collective_curves import BUS_FACTOR, CollectiveCurve, collective_seconds
from planner.numeric import Column
from planner.units import MIB

FREE = (
    Free("launch", 1e-5, 0.0, 1e-3),
    Free("bandwidth", 2e11, 1e8, 2e12),
    Free("ramp", 2e-5, 0.0, 1e-2),
)


def curve_of(values: Mapping[str, float], operation: str, ranks: float) -> CollectiveCurve:
    """Curve with one number of ranks."""
    return CollectiveCurve(
        bus_factor=BUS_FACTOR[operation],
        ranks=(ranks,),
        launch=(values["launch"],),
        seconds_per_byte=(1 / values["bandwidth"],),
        ramp=(values["ramp"],),
    )


def model_of(operation: str, ranks: float) -> Model:
    """Formula of one operation and number of ranks, from constants and sizes to seconds."""

    def model(values: Mapping[str, float], shape: Columns) -> Column:
        curve = curve_of(values, operation, ranks)
        return np.asarray(collective_seconds(shape["bytes"], ranks, curve), dtype=np.float64)

    return model


def collective_entry(fitted: Fit, shape: Columns, large_error: float) -> Entry:
    """Fields of one operation and number of ranks."""
    values = fitted.values
    return {
        "launch": microseconds(values["launch"]),
        "bandwidth": f"{values['bandwidth'] / 1e9:.4g} GB/s",
        "ramp": microseconds(values["ramp"]),
        "range": {"bytes": size_range(shape["bytes"])},
        "rows": fitted.rows,
        "mean_error": percent(fitted.mean_error),
        "p90_error": percent(fitted.p90_error),
        "mean_error_from_1_mib": percent(large_error),
        "held_out_error": percent(fitted.held_out_error),
        "naive_error": percent(fitted.naive_error),
    }


def operation_entry(table: Sequence[Row], operation: str) -> Entry:
    """Fit one operation at every number of ranks that was measured."""
    entries: dict[str, Entry] = {}
    for ranks in sorted({row["ranks"] for row in table}, key=int):
        shape = columns(select(table, ranks=ranks), ("bytes",))
        model = model_of(operation, float(ranks))
        fitted = fit(model, FREE, {}, shape, shape["bytes"])
        large = relative_errors(model, fitted.values, shape)[shape["bytes"] >= MIB]
        entries[ranks] = collective_entry(fitted, shape, float(large.mean()))
    return {"ranks": entries, "backend": table[0]["source"], "standing": "fitted"}
