"""The fewest accelerators that train to the end in time."""

from __future__ import annotations

from collections.abc import Sequence

from planner.sweep.front import fitting
from planner.sweep.questions.family import Reply, SweepQuestion, would_fit
from planner.sweep.row import Row
from planner.units import DAY


def fewest_in_time(rows: Sequence[Row], limit: float) -> Reply:
    """Return the fewest accelerators of ``rows`` with which training takes at most ``limit`` seconds."""
    plans = [row.best for row in fitting(rows) if row.best["days_to_train"] is not None]
    in_time = [best for best in plans if best["days_to_train"] * DAY <= limit]
    if not plans:
        return {"gpus": None, "days_to_train": None, "cost_usd_to_train": None, "note": would_fit(rows)}
    if not in_time:
        fastest = min(plans, key=lambda best: best["days_to_train"])
        note = f"none in time: {fastest['gpus']:,} take {fastest['days_to_train']:.3g} days"
        return {"gpus": None, "days_to_train": None, "cost_usd_to_train": None, "note": note}
    found = min(in_time, key=lambda best: (best["gpus"], best["days_to_train"]))
    figures = {name: found[name] for name in ("gpus", "days_to_train", "cost_usd_to_train")}
    return figures | {"note": ""}


ENTRY = SweepQuestion(
    name="finish-in",
    axis="gpus",
    needs=("tokens",),
    title=lambda limit: f"Fewest accelerators of the grid that finish in {limit / DAY:.4g} days:",
    answer=fewest_in_time,
)
