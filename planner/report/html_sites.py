"""The page of a search over sites: ways as a table, and what each takes by the rate of the narrowest link."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.errors import InputError, Problem
from planner.report.html import Cell, Figure, HtmlBlock, HtmlPage, footer, number, plot, table
from planner.report.html_figures import figure
from planner.report.page import significant
from planner.units import percent

HEADINGS = (
    "method", "inner steps", "s/step", "trains", "Gb/s mean", "peak", "compute to one loss", "days", "USD",
    "cost in learning", "source",
)  # fmt: skip


def sites_report(document: Mapping[str, Any], source: str, version: str) -> HtmlPage:
    """Return the page of the JSON that a search over sites printed.

    Raises
    ------
    InputError
        If it is not whole.
    """
    try:
        ways, others = document["ways"], document["not_ranked"]
        model, curves = document["model"]["name"], document["curves"]
        blocks = [
            HtmlBlock("tiles", rows=tuple(_tiles(document))),
            table(
                "Ways, best first", HEADINGS, [_row(one) for one in ways], "Days and money are to one loss."
            ),
            plot(
                "sites",
                "By the rate of the narrowest link",
                curves_figure(curves, ways),
                "Ways in full colour are ranked; their time is that to one loss where its cost is known.",
            ),
            table("Not ranked: no runner is known", HEADINGS, [_row(one) for one in others]),
        ]
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(Problem(source, f"no {error}", "the JSON that `planner search` printed")) from None
    shown = tuple(block for block in blocks if block.kind != "table" or block.rows)
    return HtmlPage(f"{model} over {len(document['sites'])} sites", shown, footer(version))


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
        ("inside sites", document["runtime"]),
    ]


def _row(one: Mapping[str, Any]) -> list[Cell]:
    mean = max(link["mean_gbit_per_s"] for link in one["links"])
    peak = max(link["peak_gbit_per_s"] for link in one["links"])
    factor, days, usd = (
        one[name] for name in ("compute_to_same_loss", "days_to_same_loss", "cost_usd_to_same_loss")
    )
    packed = f", {one['compress']}" if one["compress"] != "none" else ""
    return [
        Cell(f"{one['sync']}{packed}"),
        number(one["inner_steps"], str(one["inner_steps"])),
        number(one["step_time_s"], significant(one["step_time_s"], 3)),
        number(one["utilisation"], percent(one["utilisation"])),
        number(mean, significant(mean, 3)),
        number(peak, significant(peak, 3)),
        number(factor, significant(factor, 3)) if factor is not None else Cell("unknown"),
        number(days, significant(days, 3)),
        number(usd, significant(usd, 3)),
        Cell(one["penalty"]["text"]),
        Cell(one["penalty"]["source"]),
    ]


def curves_figure(curves: Mapping[str, Any], ways: list[Mapping[str, Any]]) -> Figure:
    """Return the time of each method by the rate of the narrowest link, both on scales of powers."""
    ranked = {one["sync"]: one["compute_to_same_loss"] or 1.0 for one in ways}
    data = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": name,
            "x": curves["narrowest_gbit_per_s"],
            "y": [ranked.get(name, 1.0) * seconds for seconds in steps],
            "opacity": 1.0 if name in ranked else 0.3,
            "line": {"dash": "solid" if name in ranked else "dot"},
            "hovertemplate": name + ": %{x:.3g} Gb/s %{y:.3g} s<extra></extra>",
        }
        for name, steps in curves["step_time_s"].items()
    ]
    logs = {"type": "log"}
    return figure(data, "Gb/s of the narrowest link", "seconds a step, to one loss", xaxis=logs, yaxis=logs)
