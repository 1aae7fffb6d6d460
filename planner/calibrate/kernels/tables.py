"""The measured kernel tables, and the datasheet of each accelerator in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from planner.dataclasses import dataclass
from planner.numeric import Column
from planner.units import TB, TFLOP

Row = Mapping[str, str]

OPERAND_BYTES = {"bf16": 2.0, "fp8": 1.0, "fp8_block": 1.0, "nvfp4": 0.5625}
"""Bytes of an operand element; nvfp4 has one byte of scale for 16 elements. [byte]"""


@dataclass(frozen=True)
class Datasheet:
    """What the efficiencies of one accelerator are shares of."""

    peaks: Mapping[str, float]
    """Dense peak of each data type. [FLOP/s]"""
    bandwidth: float
    """Memory bandwidth. [byte/s]"""
    multiprocessors: float
    """Streaming multiprocessors; the waves of the fitted products confirm the number. [-]"""
    small_tiles: bool
    """Whether its matrix kernels also come in tiles of 64, as those of single warps do."""
    source: str
    """Page of the figures."""


def _nvidia(
    tera_flops: tuple[float, float, float],
    terabytes: float,
    multiprocessors: float,
    source: str,
    small: bool = False,
) -> Datasheet:
    bf16, fp8, nvfp4 = (tera * TFLOP for tera in tera_flops)
    peaks = {"bf16": bf16, "fp8": fp8, "fp8_block": fp8, "nvfp4": nvfp4}
    return Datasheet(peaks, terabytes * TB, multiprocessors, small, source)


_PAGE = "https://www.nvidia.com/en-us/data-center/"
_DGX = "https://resources.nvidia.com/en-us-dgx-systems/"

DATASHEETS: Mapping[str, Datasheet] = {
    "a100-80gb-sxm": _nvidia((312, 0, 0), 2.039, 108, f"{_PAGE}a100/", small=True),
    "h100-80gb-sxm": _nvidia((989, 1979, 0), 3.35, 132, f"{_PAGE}h100/"),
    "h200-141gb": _nvidia((989, 1979, 0), 4.8, 132, f"{_PAGE}h200/"),
    "b200-180gb": _nvidia((2250, 4500, 9000), 8.0, 148, f"{_DGX}dgx-b200-datasheet"),
    "gb200-186gb": _nvidia((2500, 5000, 10000), 8.0, 152, f"{_PAGE}gb200-nvl72/"),
    "b300": _nvidia((2250, 4500, 12600), 8.0, 148, f"{_DGX}dgx-b300-datasheet"),
    "gb300": _nvidia((2500, 5000, 15000), 8.0, 152, f"{_PAGE}gb300-nvl72/"),
    "l40s": _nvidia((362, 733, 0), 0.864, 142, f"{_PAGE}l40s/", small=True),
    "rtx-pro-6000-server": _nvidia(
        (467.8, 935.6, 1871.2), 1.792, 188, f"{_PAGE}rtx-pro-6000-blackwell-server-edition/", small=True
    ),
}
"""Accelerators with a table; dense peaks in TFLOP/s of bf16, fp8 and nvfp4 (0 is none), then TB/s."""


def select(table: Iterable[Row], **wanted: str) -> list[Row]:
    """Return the rows whose columns have these values."""
    return [row for row in table if all(row[name] == value for name, value in wanted.items())]


def columns(table: Sequence[Row], names: Sequence[str]) -> dict[str, Column]:
    """Return shape columns as float arrays, and the time in seconds."""
    shapes = {name: np.array([float(row[name]) for row in table]) for name in names}
    return shapes | {"seconds": np.array([float(row["time_us"]) * 1e-6 for row in table])}
