"""The fewest accelerators on which something fits."""

from __future__ import annotations

from collections.abc import Sequence

from planner.sweep.front import fitting, hours
from planner.sweep.questions.family import Reply, SweepQuestion, would_fit
from planner.sweep.row import Row


def smallest(rows: Sequence[Row], _limit: float) -> Reply:
    """Return the fewest accelerators of ``rows`` that fit; of equals, the fastest."""
    found = min(fitting(rows), key=lambda row: (row.best["gpus"], hours(row.best)), default=None)
    if found is None:
        return {"gpus": None, "peak_gib": None, "hours_per_billion_tokens": None, "note": would_fit(rows)}
    return {
        "gpus": found.best["gpus"],
        "peak_gib": found.best["peak_gib"],
        "hours_per_billion_tokens": hours(found.best),
        "note": "",
    }


ENTRY = SweepQuestion(
    name="smallest-cluster",
    axis="gpus",
    title=lambda _limit: "Smallest cluster of the grid that fits:",
    answer=smallest,
)
