"""Fit the fused attention curve of each accelerator, data type and head size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from planner.calibrate.kernels.fit import Columns, Fit, Free, Model, fit
from planner.calibrate.kernels.gemm import with_droop
from planner.calibrate.kernels.tables import Datasheet, Row, columns
from planner.formulas.attention import (
    AttentionCurve,
    attention_flops,
    attention_forward_seconds,
    visible_keys,
)
from planner.numeric import Column

FREE = (
    Free("efficiency", 0.6, 0.05, 1.0),
    Free("half_keys", 200.0, 0.0, 5000.0),
    Free("half_queries_per_multiprocessor", 50.0, 0.0, 2000.0),
    Free("launch", 5e-6, 0.0, 1e-4),
)
SHARED = Free("shared_half_keys", 200.0, 0.0, 5000.0)
"""Fitted where heads with keys of their own were measured beside heads that share them."""

NAMES = ("batch", "heads", "seq", "head_dim", "kv_heads")


def curve_of(values: Mapping[str, float], dtype: str, sheet: Datasheet) -> AttentionCurve:
    """Curve with these constants, without the loss of clock."""
    rate = values["efficiency"] * sheet.peaks[dtype]
    return AttentionCurve(
        rate=rate,
        half_keys=values["half_keys"],
        half_queries=values["half_queries_per_multiprocessor"] * sheet.multiprocessors,
        launch=values["launch"],
        backward_rate=rate,
        backward_half_keys=values["half_keys"],
        seq_range=(0.0, float("inf")),
        shared_half_keys=values["shared_half_keys"],
    )


def model_of(dtype: str, sheet: Datasheet) -> Model:
    """Formula of one accelerator, data type and head size, causal, from constants to seconds."""

    def model(values: Mapping[str, float], shape: Columns) -> Column:
        curve = curve_of(values, dtype, sheet)
        seq = shape["seq"]
        visible = visible_keys(seq, seq, seq)
        size = (shape["batch"], shape["heads"], seq, visible, shape["head_dim"])
        shared = shape["heads"] / shape["kv_heads"]
        busy = attention_forward_seconds(*size, curve, shared) - curve.launch
        return np.asarray(curve.launch + with_droop(busy, values["droop"]), dtype=np.float64)

    return model


def free_constants(shape: Columns) -> tuple[Free, ...]:
    """Constants that these shapes can tell apart."""
    shared = shape["heads"] / shape["kv_heads"]
    return (*FREE, SHARED) if shared.min() == 1 < shared.max() else FREE


def fit_attention(
    table: Sequence[Row], dtype: str, sheet: Datasheet, droop: float, shared_half_keys: float = 0.0
) -> Fit:
    """Fit one head size of one accelerator and data type; the clock falls as it does in matrix products.

    Parameters
    ----------
    table : sequence of rows
        Rows of one accelerator, data type, head size and backend.
    dtype : str
        Data type.
    sheet : Datasheet
        Its accelerator.
    droop : float
        Share by which long bf16 products slow down. [-]
    shared_half_keys : float
        Taken where the rows cannot tell: that of another head size. [element]
    """
    shape = columns(table, NAMES)
    work = attention_flops(shape["batch"], shape["heads"], shape["seq"], shape["seq"] / 2, shape["head_dim"])
    known = {"droop": droop, SHARED.name: shared_half_keys}
    return fit(model_of(dtype, sheet), free_constants(shape), known, shape, np.asarray(work))
