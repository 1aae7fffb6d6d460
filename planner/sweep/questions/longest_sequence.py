"""The longest sequence that fits."""

from __future__ import annotations

from collections.abc import Sequence

from planner.sweep.front import fitting
from planner.sweep.questions.family import Reply, SweepQuestion, would_fit
from planner.sweep.ranges import multiples
from planner.sweep.row import NOTHING_FITS, Row
from planner.units import ungrouped


def longest(rows: Sequence[Row], _limit: float) -> Reply:
    """Return the longest sequence of ``rows`` that fits, and the next one, which does not."""
    found = max(fitting(rows), key=lambda row: int(row.best["seq_len"]), default=None)
    if found is None:
        return {"seq_len": None, "peak_gib": None, "note": would_fit(rows)}
    length = int(found.best["seq_len"])
    tried = [row.case.get("seq_len") for row in rows if row.outcome.status == NOTHING_FITS]
    over = [number for number in (int(ungrouped(text)) for text in tried if text) if number > length]
    note = f"{min(over)} does not fit" if over else "the longest that was tried"
    return {"seq_len": length, "peak_gib": found.best["peak_gib"], "note": note}


ENTRY = SweepQuestion(
    name="longest-sequence",
    axis="seq_len",
    settings=("gpus",),
    needs=("seq_len",),
    title=lambda _limit: "Longest sequence of the grid that fits:",
    answer=longest,
    between=multiples,
    halves=True,
)
