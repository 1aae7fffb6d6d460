"""Fit the shape of the curve of expert layers: how many rows an expert needs to be fast."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np

from planner.calibrate.kernel_entries import Entry, accuracy, microseconds, plain, size_range
from planner.calibrate.kernel_fit import Columns, Fit, Free, Model, fit
from planner.calibrate.kernel_tables import OPERAND_BYTES, Datasheet, Row, columns, select
from planner.formulas.experts import ExpertCurve, expert_layer_seconds
from planner.numeric import Column

BACKENDS = ("trtllm-1.3.0rc20", "sglang-0.5.10")

NAMES = ("tokens", "hidden", "inter", "topk", "experts", "etp", "ep")

COMMON = (Free("launch", 5e-5, 0.0, 1e-3), Free("weight_efficiency", 0.7, 0.05, 1.0))
HALF_ROWS = Free("half_rows", 100.0, 0.0, 5000.0)
ACTIVATION = Free("activation_efficiency", 0.5, 0.05, 1.0)

COUNTED_EFFICIENCY = 0.85
"""Share of the memory bandwidth that bf16 activations are counted at, as elsewhere. [-]"""

FEWEST_ROWS = 50


def curve_of(values: Mapping[str, float], dtype: str, sheet: Datasheet) -> ExpertCurve:
    """Curve with these constants."""
    return ExpertCurve(
        rate=values["efficiency"] * sheet.peaks[dtype],
        half_rows=values["half_rows"],
        launch=values["launch"],
        weight_bandwidth=values["weight_efficiency"] * sheet.bandwidth,
        activation_bandwidth=values["activation_efficiency"] * sheet.bandwidth,
        operand_bytes=OPERAND_BYTES[dtype],
        rows_range=(0.0, float("inf")),
    )


def rows_per_expert(shape: Columns) -> Column:
    """Rows of one expert under a balanced router; ``tokens`` counts the whole expert-parallel group."""
    return shape["tokens"] * shape["topk"] / shape["experts"]


def model_of(dtype: str, sheet: Datasheet) -> Model:
    """Formula of one accelerator and data type, from constants and shapes to seconds."""

    def model(values: Mapping[str, float], shape: Columns) -> Column:
        curve = curve_of(values, dtype, sheet)
        local = shape["experts"] / shape["ep"]
        inner = shape["inter"] / shape["etp"]
        seconds = expert_layer_seconds(rows_per_expert(shape), local, shape["hidden"], inner, curve)
        return np.asarray(seconds, dtype=np.float64)

    return model


def fit_experts(
    table: Sequence[Row], dtype: str, sheet: Datasheet, efficiency: float, half_rows: float | None = None
) -> Fit:
    """Fit one data type of one accelerator, balanced router.

    The rate is the dense product's, since the rows are optimistic about it. Rows of an expert and bytes of
    its activations explain the same loss: bf16 counts the bytes and fits the rows; the other types keep
    those rows and fit the bytes, which their quantisation adds to.

    Parameters
    ----------
    table : sequence of rows
        Rows of one accelerator, data type and backend.
    dtype : str
        Data type.
    sheet : Datasheet
        Its accelerator.
    efficiency : float
        Burst efficiency of the dense product. [-]
    half_rows : float, optional
        Rows that the bf16 fit found. [element]
    """
    shape = columns(table, NAMES)
    routed = shape["tokens"] * shape["topk"] / shape["ep"]
    work = 6 * routed * shape["hidden"] * shape["inter"] / shape["etp"]
    known = {"efficiency": efficiency}
    if half_rows is None:
        known["activation_efficiency"] = COUNTED_EFFICIENCY
        return fit(model_of(dtype, sheet), (*COMMON, HALF_ROWS), known, shape, work)
    known["half_rows"] = half_rows
    return fit(model_of(dtype, sheet), (*COMMON, ACTIVATION), known, shape, work)


def skew(table: Sequence[Row]) -> dict[str, str]:
    """Median time of the busiest rank under a skewed router over the balanced time, for each ep."""
    balanced = {
        tuple(row[name] for name in NAMES): float(row["time_us"])
        for row in select(table, distribution="balanced")
    }
    ratios: dict[int, list[float]] = {}
    for row in select(table, distribution="power_law_1.2"):
        shape = tuple(row[name] for name in NAMES)
        if shape in balanced:
            ratios.setdefault(int(row["ep"]), []).append(float(row["time_us"]) / balanced[shape])
    return {str(ep): f"{np.median(ratios[ep]):.3g}" for ep in sorted(ratios)}


def experts_entries(table: Sequence[Row], sheet: Datasheet, dense: Mapping[str, float]) -> dict[str, Entry]:
    """Fit every data type that one accelerator has enough rows of.

    Parameters
    ----------
    table : sequence of rows
        Rows of one accelerator.
    sheet : Datasheet
        The accelerator.
    dense : Mapping
        Burst efficiency of the dense product in each data type. [-]
    """
    entries: dict[str, Entry] = {}
    half_rows: float | None = None
    for dtype, backend in product(dense, BACKENDS):
        own = select(table, dtype=dtype, source=backend)
        measured = select(own, distribution="balanced")
        if dtype in entries or len(measured) < FEWEST_ROWS:
            continue
        fitted = fit_experts(measured, dtype, sheet, dense[dtype], half_rows)
        half_rows = fitted.values["half_rows"] if half_rows is None else half_rows
        entry = experts_entry(fitted, columns(measured, NAMES), measured[0]["kernel"])
        entries[dtype] = entry | {"skewed_router_time": skew(own)} | accuracy(fitted, backend)
    return entries


def experts_entry(fitted: Fit, shape: Columns, kernel: str) -> Entry:
    """Fields of one data type that `planner.formulas.experts.expert_curve` reads."""
    values = fitted.values
    return {
        "half_rows": plain(values["half_rows"]),
        "launch": microseconds(values["launch"]),
        "activation_efficiency": plain(values["activation_efficiency"]),
        "weight_efficiency": plain(values["weight_efficiency"]),
        "range": {"rows": size_range(rows_per_expert(shape)), "tokens": size_range(shape["tokens"])},
        "kernel": kernel,
    }
