"""The pictures of the report as plotly figures, made of plain numbers; colours come from the page's theme."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from planner.report.as_json import TIME_KEYS
from planner.report.estimate_page import MEMORY_WORDS, TIME_WORDS
from planner.report.html import Figure

PALETTE: Final = (
    "#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee",
    "#aa3377", "#999999", "#ee7733", "#009988", "#bb5566",
)  # fmt: skip
"""Colours that any colour vision tells apart (P. Tol, "Colour Schemes," SRON/EPS/TN/09-002, 2021)."""

MEMORY_PARTS: Final = tuple(name for name in MEMORY_WORDS if name != "total")
GOOD, BAD, TOTAL = PALETTE[0], PALETTE[1], PALETTE[6]
UPSIDE: Final = {"autorange": "reversed"}
"""An axis whose first row is on top."""
FEW: Final = 400
"""Passes up to which the bars of a timeline are outlined."""
KINDS: Final = {"F": "forward", "B": "input gradient", "W": "weight gradient", "BW": "backward"}


def figure(data: list[Figure], x: str, y: str, **layout: Any) -> Figure:
    """Return a figure whose axes are named and that takes the size and colours of its place."""
    common = {
        "autosize": True,
        "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "colorway": list(PALETTE),
        "xaxis": {"title": {"text": x}, "automargin": True} | layout.pop("xaxis", {}),
        "yaxis": {"title": {"text": y}, "automargin": True} | layout.pop("yaxis", {}),
        "legend": {"orientation": "h", "y": -0.25},
    }
    return {"data": data, "layout": common | layout}


def waterfall_figure(parts: Sequence[tuple[str, float]], step: float) -> Figure:
    """Return the parts of a step as steps of a stair that ends at the whole."""
    kept = [(name, seconds) for name, seconds in parts if abs(seconds) > 5e-4 * step]
    rest = step - sum(seconds for _, seconds in kept)
    kept += [("smaller parts", rest)] if abs(rest) > 1e-9 * step else []
    names = [name for name, _ in kept] + ["the step"]
    trace = {
        "type": "waterfall",
        "orientation": "h",
        "y": names,
        "x": [seconds for _, seconds in kept] + [step],
        "measure": ["relative"] * len(kept) + ["total"],
        "text": [f"{seconds / step:.1%}" for _, seconds in kept] + [f"{step:.4g} s"],
        "textposition": "auto",
        "insidetextfont": {"color": "#ffffff"},
        "increasing": {"marker": {"color": GOOD}},
        "totals": {"marker": {"color": TOTAL}},
        "hovertemplate": "%{y}: %{delta:.4g} s<extra></extra>",
    }
    height = 60 + 28 * len(names)
    ends = {"range": [0, 1.25 * step]}
    return figure([trace], "seconds", "", height=height, showlegend=False, xaxis=ends, yaxis=UPSIDE)


FEW_BARS: Final = 5
"""Stages below which bars do not fill the width of a figure. [-]"""


def memory_figure(stages: Sequence[Mapping[str, Any]], capacity_gib: float) -> Figure:
    """Return the memory of every stage as a stack, with the capacity as a line."""
    names = [f"stage {stage['stage']}" for stage in stages]
    data = [
        {
            "type": "bar",
            "name": part,
            "x": names,
            "y": [stage[f"{part}_gib"] for stage in stages],
            "hovertemplate": "%{x}: " + part + " %{y:.2f} GiB<extra></extra>",
        }
        for part in MEMORY_PARTS
    ]
    gap = {"bargap": 1 - 0.15 * len(names)} if len(names) < FEW_BARS else {}
    line = {
        "type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": capacity_gib, "y1": capacity_gib,
        "line": {"dash": "dash", "color": BAD, "width": 2},
    }  # fmt: skip
    note = {
        "xref": "paper", "x": 1, "xanchor": "right", "y": capacity_gib, "yanchor": "bottom",
        "showarrow": False,
        "text": f"device: {capacity_gib:.1f} GiB",
    }  # fmt: skip
    top = max([capacity_gib, *(stage["total_gib"] for stage in stages)])
    return figure(
        data, "", "GiB at the peak moment", barmode="stack", height=380, shapes=[line], annotations=[note],
        yaxis={"range": [0, 1.08 * top]}, **gap,
    )  # fmt: skip


def front(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the points that no other one beats in both coordinates, by the first.

    Examples
    --------
    >>> front([(2, 1), (1, 3), (2, 2), (3, 1), (1, 4)])
    [(1, 3), (2, 1)]
    """
    best: list[tuple[float, float]] = []
    for x, y in sorted(points):
        if not best or y < best[-1][1]:
            best.append((x, y))
    return best


Point = tuple[str, float, float]
"""What a plan is called, seconds of its step, and GiB of its peak stage."""


def pareto_figure(groups: Mapping[str, Sequence[Point]], capacity_gib: float) -> Figure:
    """Return plans by time and memory, with the line of those that fit and none beats in both."""
    best = front((time, gib) for points in groups.values() for _, time, gib in points if gib <= capacity_gib)
    line = {
        "type": "scatter", "mode": "lines", "name": "Pareto front", "x": [x for x, _ in best],
        "y": [y for _, y in best], "line": {"shape": "hv", "dash": "dot", "color": TOTAL},
        "hoverinfo": "skip",
    }  # fmt: skip
    data: list[Figure] = [line]
    symbols = ("circle", "diamond", "square", "x")
    for (name, points), symbol in zip(groups.items(), symbols, strict=False):
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": name,
                "x": [seconds for _, seconds, _ in points],
                "y": [gib for _, _, gib in points],
                "text": [label for label, _, _ in points],
                "marker": {"size": 11, "symbol": symbol},
                "hovertemplate": "%{text}<br>%{x:.4g} s, %{y:.1f} GiB<extra></extra>",
            }
        )
    shape = {
        "type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": capacity_gib, "y1": capacity_gib,
        "line": {"dash": "dash", "color": BAD, "width": 2},
    }  # fmt: skip
    return figure(data, "seconds of a step", "GiB of the peak stage", height=420, shapes=[shape])


def terms_figure(names: Sequence[str], terms: Sequence[Mapping[str, float]]) -> Figure:
    """Return the time of several plans, one stacked bar each."""
    data = [
        {
            "type": "bar",
            "orientation": "h",
            "name": TIME_WORDS[key],
            "y": list(names),
            "x": [term[key] for term in terms],
            "hovertemplate": TIME_WORDS[key] + ": %{x:.4g} s<extra></extra>",
        }
        for key in TIME_KEYS
        if any(term[key] > 0 for term in terms)
    ]
    height = 200 + 36 * len(names)
    return figure(data, "seconds of a step", "", barmode="stack", height=height, yaxis=UPSIDE)


Growth = Sequence[tuple[int, float]]
"""Numbers of accelerators, each with tokens/s in all."""


def scaling_figure(rows: Growth, here: int, best: Growth = ()) -> Figure:
    """Return tokens/s over numbers of accelerators, beside the line of even growth from the plan's own.

    Parameters
    ----------
    rows : sequence of (int, float)
        The plan with its data parallelism changed.
    here : int
        The plan's own number. [-]
    best : sequence of (int, float)
        The fastest plan of each number, where they were searched.
    """
    ideal = next(rate for gpus, rate in rows if gpus == here) / here
    counts = sorted({gpus for gpus, _ in (*rows, *best)})
    series = {"this plan, dp changed": rows, "fastest plan of each count": best}
    data: list[Figure] = [
        {"type": "scatter", "mode": "lines+markers", "name": name,
         "x": [gpus for gpus, _ in growth], "y": [rate for _, rate in growth],
         "hovertemplate": "%{x} accelerators: %{y:,.0f} tokens/s<extra></extra>"}
        for name, growth in series.items() if growth
    ]  # fmt: skip
    data.append(
        {"type": "scatter", "mode": "lines", "name": "even growth", "line": {"dash": "dot", "color": TOTAL},
         "x": counts, "y": [gpus * ideal for gpus in counts], "hoverinfo": "skip"}
    )  # fmt: skip
    ticks = {"type": "log", "tickvals": counts, "ticktext": [str(gpus) for gpus in counts]}
    rates = round_numbers(*(rate for _, rate in (*rows, *best)), *(gpus * ideal for gpus in counts))
    marks = {"type": "log", "tickvals": rates, "ticktext": [f"{rate:,.0f}" for rate in rates]}
    return figure(data, "accelerators", "tokens/s in all", height=380, xaxis=ticks, yaxis=marks)


def round_numbers(*values: float) -> list[float]:
    """Return 1, 2 and 5 times the powers of ten from the last below all values to the first above.

    Examples
    --------
    >>> round_numbers(65_000, 260_000), round_numbers(2.0)
    ([50000.0, 100000.0, 200000.0, 500000.0], [2.0])
    """
    low, high = min(values), max(values)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    marks = [digit * 10.0**power for power in powers for digit in (1, 2, 5)]
    first = max(mark for mark in marks if mark <= low)
    last = min(mark for mark in marks if mark >= high)
    return [mark for mark in marks if first <= mark <= last]


Bar = tuple[str, int, float, float, int]
"""Kind of a pass, rank, start and end in seconds, micro-batch."""


def timeline_figure(bars: Sequence[Bar], ranks: int) -> Figure:
    """Return the passes of a step, one row for each pipeline rank."""
    data = []
    for kind, words in KINDS.items():
        mine = [bar for bar in bars if bar[0] == kind]
        if mine:
            data.append(
                {
                    "type": "bar",
                    "orientation": "h",
                    "name": words,
                    "y": [f"rank {rank}" for _, rank, _, _, _ in mine],
                    "x": [end - start for _, _, start, end, _ in mine],
                    "base": [start for _, _, start, _, _ in mine],
                    "text": [str(number) for *_, number in mine],
                    "textposition": "none",
                    "marker": {"line": {"width": 0.5 if len(bars) <= FEW else 0}},
                    "hovertemplate": words + " of micro-batch %{text}: %{x:.3g} s<extra></extra>",
                }
            )
    rows = [f"rank {rank}" for rank in range(ranks)]
    axis = {"categoryorder": "array", "categoryarray": rows, "autorange": "reversed"}
    return figure(data, "seconds", "", barmode="overlay", height=140 + 30 * ranks, yaxis=axis)
