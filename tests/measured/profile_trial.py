"""How well a profile predicts what it has not seen: measured kernel tables in the place of a GPU.

Run as ``python -m tests.measured.profile_trial TABLES_DIR``. Of each accelerator's table only the rows
nearest to the points that ``planner profile`` measures by default are shown to the fit; all others are
predicted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from planner.calibrate.kernels import attention as kernel_attention
from planner.calibrate.kernels import gemm as kernel_gemm
from planner.calibrate.kernels.fit import relative_errors
from planner.calibrate.kernels.residuals import with_residuals
from planner.calibrate.kernels.tables import DATASHEETS, Row, columns, select
from planner.calibrate.measured.curves import corrected_law, with_places
from planner.formulas import size_grid
from planner.formulas.size_grid import ATTENTION_AXES
from planner.formulas.size_grid import PRODUCT_AXES as AXES
from planner.numeric import Column
from planner.profile.benches import benches
from planner.profile.benches.family import Point
from planner.profile.device import Device
from planner.units import GIB, MIB
from tests.lab.kernels import attention as lab_attention
from tests.lab.kernels.files import rows
from tests.lab.kernels.gemm import backend_of

SMALLEST: Final = 512.0
"""Least size of a product whose error is told. [element]"""
CAPABILITIES: Final = {"a100-80gb-sxm": 8.0, "h100-80gb-sxm": 9.0, "h200-141gb": 9.0}


def stand_in(name: str) -> Device:
    """Return a device with the grid of an accelerator, and nothing that runs."""
    units = int(DATASHEETS[name].multiprocessors)
    return Device("cuda", 0, name, 80 * GIB, 50.0 * MIB, units, CAPABILITIES[name], None)


def nearest(points: Sequence[Point], table: Sequence[Row], names: Sequence[str]) -> Column:
    """Return for each row whether it is the nearest one to a point, in doublings of every size."""
    places = np.log2(np.stack([columns(table, names)[name] for name in names], axis=1))
    seen = np.zeros(len(table), dtype=bool)
    for point in points:
        place = np.log2([point.shape[name] for name in names])
        seen[int(np.argmin(((places - place) ** 2).sum(axis=1)))] = True
    return seen


def split(table: Sequence[Row], seen: Column) -> tuple[list[Row], list[Row]]:
    """Return the rows that were seen, and the others."""
    return [row for row, one in zip(table, seen, strict=True) if one], [
        row for row, one in zip(table, seen, strict=True) if not one
    ]


def grid_points(name: str, bench: str, **wanted: str) -> list[Point]:
    """Return the points that a profile of an accelerator measures, of one variant or data type."""
    device, chosen = stand_in(name), benches()[bench]
    points = [*chosen.coarse(device), *chosen.finer(device)]
    return [point for point in points if all(getattr(point, key) == value for key, value in wanted.items())]


def products(
    name: str, dtype: str, table: Sequence[Row], base: Mapping[str, float] | None
) -> tuple[dict[str, float], Mapping[str, float]]:
    """Return rows seen and unseen with the mean errors of the unseen, and the constants of the law."""
    sheet = DATASHEETS[name]
    large = [row for row in table if min(float(row[axis]) for axis in AXES) >= SMALLEST]
    points = grid_points(name, "gemm", dtype=dtype, variant="product")
    seen, unseen = split(large, nearest(points, large, AXES))
    shape, there = columns(seen, AXES), columns(unseen, AXES)
    law, _ = kernel_gemm.fit_law(shape, dtype, sheet, base)
    corrected = corrected_law(shape, dtype, sheet, base)
    alone = relative_errors(kernel_gemm.model_of(dtype, sheet), law.values, there)
    model = kernel_gemm.model_of(dtype, sheet)(law.values, there)
    share = corrected.grid.share(*(there[axis] for axis in AXES)) if corrected.grid else 0.0
    errors = np.abs(model * (1 + share) / there["seconds"] - 1)
    counts = {"seen": len(seen), "unseen": len(unseen)}
    return {**counts, "law": float(alone.mean()), "error": float(errors.mean())}, law.values


def attention(name: str, head_dim: str, table: Sequence[Row], droop: float) -> dict[str, float]:
    """Return the same of causal attention forward."""
    sheet, names = DATASHEETS[name], ("batch", "heads", "seq", "kv_heads")
    points = grid_points(name, "attention", variant="chosen-causal-forward")
    own = [point for point in points if point.shape["head_dim"] == int(head_dim)]
    seen, unseen = split(table, nearest(own, table, names))
    shape, there = (with_places(columns(rows, (*names, "head_dim"))) for rows in (seen, unseen))
    fitted, model = (
        kernel_attention.fit_attention(seen, "bf16", sheet, droop),
        kernel_attention.model_of("bf16", sheet),
    )
    found = with_residuals(fitted, model, kernel_attention.FREE, shape, ATTENTION_AXES)
    predicted = model(fitted.values, there)
    better = size_grid.corrected(predicted, found.grid, *(there[axis] for axis in ATTENTION_AXES))
    law, error = (float(np.mean(np.abs(one / there["seconds"] - 1))) for one in (predicted, better))
    return {"seen": len(seen), "unseen": len(unseen), "law": law, "error": error}


def trial(folder: Path) -> list[dict[str, object]]:
    """Return one row for each accelerator and kind of kernel."""
    gemm, flash = rows(folder, "gemm"), rows(folder, "attention")
    found: list[dict[str, object]] = []
    for name in CAPABILITIES:
        base: Mapping[str, float] | None = None
        for dtype in ("bf16", "fp8"):
            own = select(gemm, gpu=name, dtype=dtype)
            if not own:
                continue
            own = select(own, source=backend_of(own))
            errors, values = products(name, dtype, own, base)
            found.append({"gpu": name, "what": f"products {dtype}", **errors})
            base = values if base is None else base
        droop = base["droop"] if base else 0.0
        causal = select(flash, gpu=name, dtype="bf16")
        for head_dim in ("64", "128"):
            sized = select(causal, head_dim=head_dim)
            known = {row["source"] for row in sized} & set(lab_attention.BACKENDS)
            if known:
                own = select(sized, source=lab_attention.backend_of(sized))
                found.append(
                    {"gpu": name, "what": f"attention {head_dim}", **attention(name, head_dim, own, droop)}
                )
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the errors."""
    parser = argparse.ArgumentParser(prog="python -m tests.measured.profile_trial", description=__doc__)
    parser.add_argument("tables", type=Path, help="folder with gemm.csv and attention.csv")
    for row in trial(parser.parse_args(arguments).tables):
        sys.stdout.write(
            f"{row['gpu']:16} {row['what']:14} seen {row['seen']:5} unseen {row['unseen']:5} "
            f"law {row['law']:6.2%} with residuals {row['error']:6.2%}\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
