"""The matrix-product entries of a curve file, fitted to the measured tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from planner.calibrate.kernels.entries import Entry, accuracy
from planner.calibrate.kernels.fit import Fit
from planner.calibrate.kernels.gemm import Lasting, fit_law, gemm_entry, lasting_of, split_launch
from planner.calibrate.kernels.tables import OPERAND_BYTES, Datasheet, Row, columns, select
from planner.dataclasses import replace

BACKENDS = ("trtllm-1.3.0rc20", "sglang-0.5.10")
"""Backends with a complete table; the one with the most rows is fitted, and never mixed with another."""


KEPT_RATIOS = {"fp8_block": "fp8"}
"""Data types whose kernel changed between the two tables, and whose ratio they take."""


def backend_of(table: Sequence[Row]) -> str:
    """Backend with the most rows.

    Raises
    ------
    ValueError
        If none of the known ones has any.
    """
    counts = {name: len(select(table, source=name)) for name in BACKENDS}
    best = max(counts, key=lambda name: counts[name])
    if not counts[best]:
        raise ValueError(f"no rows of {', '.join(BACKENDS)}")
    return best


def fit_gemm(
    table: Sequence[Row], dtype: str, sheet: Datasheet, base: Mapping[str, float] | None = None
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
    base : Mapping, optional
        Constants of the 16-bit fit, whose memory efficiency, clock and launch hold here too.

    Returns
    -------
    Fit
        Constants, with the time of the quantisation kernels told apart from that of the product.
    """
    best, _ = fit_law(columns(table, ("m", "n", "k")), dtype, sheet, base)
    return best if base is None else replace(best, values=split_launch(best.values, base["launch"]))


def gemm_entries(table: Sequence[Row], sustained: Sequence[Row], sheet: Datasheet) -> dict[str, Entry]:
    """Fit every data type that one accelerator was measured in."""
    entries: dict[str, Entry] = {}
    base: Mapping[str, float] | None = None
    ratios: dict[str, Lasting] = {}
    for dtype in OPERAND_BYTES:
        measured = select(table, dtype=dtype)
        if not measured:
            continue
        backend = backend_of(measured)
        measured = select(measured, source=backend)
        fitted = fit_gemm(measured, dtype, sheet, base)
        base = fitted.values if base is None else base
        lasting = lasting_of(select(sustained, dtype=dtype), dtype, sheet, fitted)
        ratios[dtype] = ratios[KEPT_RATIOS[dtype]] if dtype in KEPT_RATIOS else lasting
        shape = columns(measured, ("m", "n", "k"))
        entries[dtype] = gemm_entry(fitted, dtype, sheet, shape, ratios[dtype]) | accuracy(fitted, backend)
    return entries
