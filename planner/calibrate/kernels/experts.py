"""Fit the curve of expert layers: the dense product's law, and what is around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from planner.calibrate.kernels.entries import Entry, microseconds, plain, size_range
from planner.calibrate.kernels.fit import Columns, Fit, Free, Model, fit
from planner.calibrate.kernels.tables import Datasheet, Row, columns
from planner.formulas.experts import ExpertCurve, expert_layer_seconds
from planner.formulas.gemm import GemmCurve
from planner.numeric import Column

NAMES = ("tokens", "hidden", "inter", "topk", "experts", "etp", "ep")

FREE = (
    Free("launch", 5e-5, 0.0, 1e-3),
    Free("rate_share", 1.0, 0.3, 3.0),
    Free("memory_efficiency", 0.7, 0.05, 1.0),
    Free("activation_efficiency", 0.4, 0.05, 1.0),
    Free("token_bytes", 2.0, 0.0, 50.0),
)


def curve_of(values: Mapping[str, float], dense: GemmCurve, sheet: Datasheet) -> ExpertCurve:
    """Curve with these constants."""
    return ExpertCurve(
        rate=values["rate_share"] * dense.rate,
        launch=values["launch"],
        bandwidth=values["memory_efficiency"] * sheet.bandwidth,
        activation_bandwidth=values["activation_efficiency"] * sheet.bandwidth,
        token_bytes=values["token_bytes"],
        operand_bytes=dense.operand_bytes,
        output_bytes=dense.output_bytes,
        rows_range=(0.0, float("inf")),
    )


def rows_per_expert(shape: Columns) -> Column:
    """Rows of one expert under a balanced router; ``tokens`` counts the whole expert-parallel group."""
    return shape["tokens"] * shape["topk"] / shape["experts"]


def model_of(dense: GemmCurve, sheet: Datasheet) -> Model:
    """Formula of one accelerator and data type, from constants and shapes to seconds."""

    def model(values: Mapping[str, float], shape: Columns) -> Column:
        curve = curve_of(values, dense, sheet)
        local = shape["experts"] / shape["ep"]
        inner = shape["inter"] / shape["etp"]
        rows = rows_per_expert(shape)
        seconds = expert_layer_seconds(shape["tokens"], rows, local, shape["hidden"], inner, curve)
        return np.asarray(seconds, dtype=np.float64)

    return model


def fit_experts(
    table: Sequence[Row],
    dense: GemmCurve,
    sheet: Datasheet,
    known: Mapping[str, float] = MappingProxyType({}),
) -> Fit:
    """Fit one data type of one accelerator, balanced router.

    ``table``: rows of one accelerator, data type and backend; ``dense``: matrix products of the same type, in
    short bursts as the rows; ``known``: constants that are not fitted.
    """
    shape = columns(table, NAMES)
    routed = shape["tokens"] * shape["topk"] / shape["ep"]
    work = 6 * routed * shape["hidden"] * shape["inter"] / shape["etp"]
    free = [one for one in FREE if one.name not in known]
    return fit(model_of(dense, sheet), free, known, shape, work)


def experts_entry(fitted: Fit, shape: Columns, kernel: str) -> Entry:
    """Fields of one data type that `planner.inputs.curves.expert_curve` reads."""
    values = fitted.values
    return {
        "launch": microseconds(values["launch"]),
        "rate_share": plain(values["rate_share"]),
        "memory_efficiency": plain(values["memory_efficiency"]),
        "activation_efficiency": plain(values["activation_efficiency"]),
        "token_bytes": f"{values['token_bytes']:.4g} B",
        "range": {"rows": size_range(rows_per_expert(shape)), "tokens": size_range(shape["tokens"])},
        "kernel": kernel,
    }
