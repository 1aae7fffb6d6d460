"""The expert entries of a curve file, fitted to the measured tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np

from planner.calibrate.kernels.entries import Entry, accuracy
from planner.calibrate.kernels.experts import NAMES, experts_entry, fit_experts
from planner.calibrate.kernels.tables import Datasheet, Row, columns, select
from planner.formulas.gemm import GemmCurve

BACKENDS = ("trtllm-1.3.0rc20", "sglang-0.5.10")


FEWEST_ROWS = 50


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


def experts_entries(
    table: Sequence[Row], sheet: Datasheet, dense: Mapping[str, GemmCurve]
) -> dict[str, Entry]:
    """Fit every data type that one accelerator has enough rows of.

    Parameters
    ----------
    table : sequence of rows
        Rows of one accelerator.
    sheet : Datasheet
        The accelerator.
    dense : Mapping
        Matrix products in each data type, in short bursts.
    """
    entries: dict[str, Entry] = {}
    for dtype, backend in product(dense, BACKENDS):
        own = select(table, dtype=dtype, source=backend)
        measured = select(own, distribution="balanced")
        if dtype in entries or len(measured) < FEWEST_ROWS:
            continue
        fitted = fit_experts(measured, dense[dtype], sheet)
        entry = experts_entry(fitted, columns(measured, NAMES), measured[0]["kernel"])
        entries[dtype] = entry | {"skewed_router_time": skew(own)} | accuracy(fitted, backend)
    return entries
