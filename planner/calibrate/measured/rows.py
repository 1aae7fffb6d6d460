"""Rows of a raw profile as the tables that the kernel fits read, and the datasheet they are shares of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from planner.calibrate.kernels.tables import DATASHEETS, Datasheet, Row
from planner.inputs.hardware import Accelerator

Raw = Mapping[str, Any]

LARGE_TILE_ARCHITECTURES: Final = ("hopper", "blackwell", "rubin")
"""Architectures whose matrix kernels have no tiles of single warps."""

HEADROOM: Final = 1.25
"""Assumed peak over the best rate measured, where no datasheet is known. [-]"""


def of_bench(rows: Iterable[Raw], bench: str, dtype: str = "", variant: str = "") -> list[Raw]:
    """Return the rows of one bench, and of one data type and variant where given."""
    return [
        row
        for row in rows
        if row["bench"] == bench and dtype in ("", row["dtype"]) and variant in ("", row["variant"])
    ]


def as_table(rows: Iterable[Raw], **constants: str) -> list[Row]:
    """Return raw rows with their shapes and times as text, as the measured kernel tables have them."""
    return [
        {name: str(size) for name, size in row["shape"].items()}
        | {"dtype": row["dtype"], "variant": row["variant"], "time_us": repr(row["seconds"] * 1e6)}
        | constants
        for row in rows
    ]


def best_rate(rows: Iterable[Raw], work: str) -> float:
    """Largest rate of work over time, 0 where there are no rows. [FLOP/s] or [byte/s]"""
    return max((row[work] / row["seconds"] for row in rows), default=0.0)


def sheet_of(accelerator: Accelerator) -> Datasheet:
    """Return the datasheet of an accelerator that ships."""
    if accelerator.name in DATASHEETS:
        return DATASHEETS[accelerator.name]
    peak = accelerator.peak
    wide = float(peak.get("bf16", peak.get("fp16", 0.0)))
    eight, four = float(peak.get("fp8", 0.0)), float(peak.get("nvfp4", 0.0))
    return Datasheet(
        peaks={"bf16": wide, "fp8": eight, "fp8_block": eight, "nvfp4": four},
        bandwidth=float(accelerator.memory_bandwidth),
        multiprocessors=float(accelerator.multiprocessors or 1),
        small_tiles=accelerator.arch not in LARGE_TILE_ARCHITECTURES,
        source=accelerator.memory_bandwidth.source,
    )


def sheet_from(rows: Iterable[Raw], multiprocessors: float) -> Datasheet:
    """Return stand-ins for a datasheet that nobody has: the best rates measured, with headroom."""
    table = list(rows)
    products = [row for row in table if row["bench"] in ("gemm", "attention")]
    wide = HEADROOM * best_rate(products, "flops")
    moved = HEADROOM * best_rate(of_bench(table, "elementwise") or products, "bytes")
    peaks = {"bf16": wide, "fp8": 0.0, "fp8_block": 0.0, "nvfp4": 0.0}
    return Datasheet(peaks, moved, multiprocessors, True, "best rate measured, times 1.25")
