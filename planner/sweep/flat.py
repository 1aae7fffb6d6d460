"""The results as flat rows with the same keys, for CSV."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from planner.sweep.row import Row

NEAREST = ("peak_gib", "missing_gib", "gpus")


def flat_rows(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return one flat row for each case: what the grid says, the best plan, and what would fit.

    What the grid says is named ``grid_AXIS``; the figures of the best plan have the names that the CSV of
    ``planner search`` has, and are empty where nothing fits.
    """
    axes = dict.fromkeys(name for row in rows for name in row.case)
    figures = dict.fromkeys(name for row in rows for name in row.best)
    return [_flat(row, list(axes), list(figures)) for row in rows]


def _flat(row: Row, axes: list[str], figures: list[str]) -> dict[str, Any]:
    outcome, nearest = row.outcome, row.outcome.nearest or {}
    return {
        "key": row.key,
        "status": outcome.status,
        "reason": outcome.reason,
        **{f"grid_{name}": row.case.get(name) for name in axes},
        **{name: row.best.get(name) for name in figures},
        **{f"nearest_{name}": nearest.get(name) for name in NEAREST},
        "nearest_changes": "; ".join(nearest.get("changes") or ()),
        "elapsed_s": outcome.elapsed_s,
    }
