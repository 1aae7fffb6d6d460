"""The columns of ways over sites, declared once for text and HTML; their records are those of the JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from planner.report.page import significant
from planner.report.plan_columns import RANK, money
from planner.report.view import Column, View, figure
from planner.units import percent

Record = Mapping[str, Any]


def _three(value: float | None) -> str:
    return significant(value, 3)


def way_name(way: Record) -> str:
    """Return a way in words: method, inner steps, fragments with their delay, compression."""
    words = [way["sync"]]
    if way["inner_steps"] is not None:
        words.append(f"H{way['inner_steps']}")
    if way["fragments"] > 1:
        words.append(f"x{way['fragments']}+{way['delay_steps']}")
    if way["compress"] != "none":
        words.append(way["compress"])
    return " ".join(words)


def _times(way: Record) -> str:
    """Return what a way costs in compute to the same loss."""
    factor = way["compute_to_same_loss"]
    return "exact" if way["exact"] else "unknown" if factor is None else f"{factor:.2f}x"


METHOD: Final = Column("method", "", "sync", way_name)
FIGURES: Final = (
    figure("step_time_s", "s/step", "s", _three),
    figure("utilisation", "trains", "share", percent),
    figure("mean_gbit_per_s", "Gb/s", "Gbit/s", _three),
    figure("peak_gbit_per_s", "peak", "Gbit/s", _three),
    Column("compute", "x", "compute_to_same_loss", _times),
)
TO_LOSS: Final = (
    figure("days_to_same_loss", "days", "day", _three),
    figure("cost_usd_to_same_loss", "cost", "USD", lambda usd: "-" if usd is None else money(usd)),
)
LEARNING: Final = (
    Column("cost in learning", "", "penalty", lambda way: way["penalty"]["text"]),
    Column("source", "", "penalty", lambda way: way["penalty"]["source"]),
)
LINKS: Final = (
    Column("link", "", "between", lambda link: " to ".join(link["between"])),
    figure("mean_gbit_per_s", "Gb/s", "Gbit/s", _three),
    figure("peak_gbit_per_s", "peak while it sends", "Gbit/s", _three),
)


UNRANKED: Final = "not ranked"
"""Heading of ways that nobody runs and nobody asked for."""
REFUSED: Final = Column("why", "", "refused", lambda way: "; ".join(way["refused"]))


def ways_view(ways: Iterable[Record], head: str = "method", more: tuple[Column, ...] = ()) -> View:
    """Return ways under a heading; time and money to the loss only where it is told how long training is."""
    rates = ("mean_gbit_per_s", "peak_gbit_per_s")
    records: list[Record] = [
        dict(way)
        | {rate: max(link[rate] for link in way["links"]) for rate in rates}
        | {"rank": "-" if head == UNRANKED else str(place)}
        for place, way in enumerate(ways, 1)
    ]
    lasts = any(way["days_to_train"] is not None for way in records)
    return View((RANK, METHOD.called(head), *FIGURES, *(TO_LOSS if lasts else ()), *more), records)
