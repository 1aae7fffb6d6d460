"""The document of a sweep that scripts read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from planner.report.as_json import plain
from planner.sweep.front import best_rows, pareto_rows
from planner.sweep.page import Asked
from planner.sweep.row import counts
from planner.sweep.run import Sweep

SWEEP: Final = "planner/sweep/1"


def sweep_document(sweep: Sweep, varying: Sequence[str], asked: Asked, out: str) -> dict[str, Any]:
    """Return the document: counts, every case, and the keys of the best cases and of the front."""
    document: dict[str, Any] = plain(
        {
            "schema": SWEEP,
            "out": out,
            "counts": {"cases": len(sweep.rows), "skipped": sweep.skipped}
            | {status.replace("-", "_"): number for status, number in counts(sweep.rows).items()},
            "best": [row.key for row in best_rows(sweep.rows)],
            "pareto": [row.key for row in pareto_rows(sweep.rows)],
            "answers": {
                question.name.replace("-", "_"): question.replies(sweep.rows, varying, limit)
                for question, limit in asked.items()
            },
            "cases": [row.document() for row in sweep.rows],
        }
    )
    return document
