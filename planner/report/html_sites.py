"""The page of a search over sites: ways as a table, and what each takes by the rate of the narrowest link."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from planner.errors import InputError, Problem
from planner.report.html import Figure, HtmlBlock, HtmlPage, footer, plot
from planner.report.html_figures import figure
from planner.report.page import significant
from planner.report.sites_columns import LEARNING, LINKS, UNRANKED, ways_view
from planner.report.view import View

LINK = "Gb/s of the narrowest link"


def sites_report(document: Mapping[str, Any], source: str, version: str) -> HtmlPage:
    """Return the page of the JSON that a search over sites printed.

    Raises `InputError` if it is not whole.
    """
    try:
        ways, others = document["ways"], document["not_ranked"]
        model = document["model"]["name"]
        blocks = [
            HtmlBlock("tiles", rows=tuple(_tiles(document))),
            ways_view(ways, more=LEARNING).block(
                "Ways, best first",
                "Compute, days and money are to the loss of exact training after the same tokens.",
            ),
            plot(
                "sites",
                "By the rate of the narrowest link",
                curves_figure(document),
                "Ways in full colour are ranked; their time is to the same loss where its cost is known. "
                "A dot is where one stops being ahead of data parallelism, the line the narrowest link.",
            ),
            plot(
                "utilisation",
                "Utilisation by the rate of the narrowest link",
                utilisation_figure(document),
                "Share of the time in which accelerators train.",
            ),
            ways_view(document["by_inner_steps"]).block("By inner steps"),
            View(LINKS, _best(document)["links"]).block("Links of the best way"),
            ways_view(others, UNRANKED, LEARNING).block("Not ranked"),
        ]
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(Problem(source, f"no {error}", "the JSON that `planner search` printed")) from None
    shown = tuple(block for block in blocks if block.kind != "table" or block.rows)
    return HtmlPage(f"{model} over {len(document['sites'])} sites", shown, footer(version))


def _best(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the first way, of those that are not ranked where none is."""
    found: Mapping[str, Any] = (*document["ways"], *document["not_ranked"])[0]
    return found


def _tiles(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    work = document["workload"]
    where = ", ".join(f"{one['gpus']} of {one['cluster']} at {one['name']}" for one in document["sites"])
    return [
        ("sites", where),
        (
            "inner step",
            f"{work['global_batch']:,} sequences of {work['seq_len']:,} tokens, {work['precision']}",
        ),
        ("narrowest link", f"{significant(document['narrowest_gbit_per_s'], 3)} Gb/s"),
        ("critical batch", f"{significant(document['critical_batch_tokens'] / 1e6, 3)} M tokens"),
        *_twice(document["time_with_twice_the_replicas"]),
        ("inside sites", document["runtime"]),
    ]


def _twice(share: float | None) -> list[tuple[str, str]]:
    """Return what as many replicas again would save; near 1 they stop paying."""
    return [("time with twice the replicas", f"{significant(share, 2)}x")] if share is not None else []


def curves_figure(document: Mapping[str, Any]) -> Figure:
    """Return the time of each method by the rate of the narrowest link, both on scales of powers.

    A dot on a ranked one marks its crossover with exact data parallelism, where it has one.
    """
    curves = document["curves"]
    ranked = {one["sync"]: one["compute_to_same_loss"] or 1.0 for one in document["ways"]}
    times = {name: [ranked.get(name, 1.0) * step for step in steps]
             for name, steps in curves["step_time_s"].items()}  # fmt: skip
    data = [_line(name, curves, values, "s", name in ranked) for name, values in times.items()]
    marks = [
        (one["sync"], rate, _at(rate, curves["narrowest_gbit_per_s"], times[one["sync"]]))
        for one in document["ways"]
        if (rate := one["crossover_gbit_per_s"]) and one["sync"] in times
    ]
    data.append(
        {
            "type": "scatter",
            "mode": "markers",
            "name": "crossover with ddp",
            "x": [rate for _, rate, _ in marks],
            "y": [seconds for _, _, seconds in marks],
            "text": [name for name, _, _ in marks],
            "marker": {"color": "#888888", "size": 9},
            "hovertemplate": "%{text} is ahead of ddp below %{x:.3g} Gb/s<extra></extra>",
        }
    )
    logs = {"type": "log"}
    lines = _narrowest(document)
    return figure(data, LINK, "seconds a step, to the same loss", xaxis=logs, yaxis=logs, shapes=lines)


def utilisation_figure(document: Mapping[str, Any]) -> Figure:
    """Return the share of the time in which accelerators train, by the rate of the narrowest link."""
    curves = document["curves"]
    ways = {one["sync"]: one for one in (*document["ways"], *document["not_ranked"])}
    ranked = {one["sync"] for one in document["ways"]}
    data = [
        _line(name, curves, [100.0 * trained / step for step in steps], "%", name in ranked)
        for name, steps in curves["step_time_s"].items()
        if name in ways and (trained := ways[name]["utilisation"] * ways[name]["step_time_s"])
    ]
    lines, shares = _narrowest(document), {"range": [0, 101]}
    return figure(data, LINK, "utilisation [%]", xaxis={"type": "log"}, yaxis=shares, shapes=lines)


def _line(name: str, curves: Mapping[str, Any], values: list[float], unit: str, ranked: bool) -> Figure:
    """Return a method's line, dotted and pale where it is not ranked."""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": curves["narrowest_gbit_per_s"],
        "y": values,
        "opacity": 1.0 if ranked else 0.3,
        "line": {"dash": "solid" if ranked else "dot"},
        "hovertemplate": f"{name}: %{{x:.3g}} Gb/s %{{y:.3g}} {unit}<extra></extra>",
    }


def _narrowest(document: Mapping[str, Any]) -> list[Figure]:
    """Return an upright line at the rate that the narrowest link has."""
    rate = document["narrowest_gbit_per_s"]
    line = {"color": "#888888", "width": 1, "dash": "dash"}
    return [{"type": "line", "x0": rate, "x1": rate, "y0": 0, "y1": 1, "yref": "paper", "line": line}]


def _at(rate: float, rates: list[float], values: list[float]) -> float:
    """Return the value at a rate, straight between its neighbours on scales of powers."""
    return float(np.exp(np.interp(np.log(rate), np.log(rates), np.log(values))))
