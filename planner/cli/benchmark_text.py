"""Scores of predictors as a page for people and as flat rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from planner.report.page import Page, Table, counted, scored
from planner.units import percent

Document = Mapping[str, Any]

LEGEND: Final = (
    "error: mean of |predicted / measured - 1| of step time; rank: Spearman of tokens per second, mean over "
    "sources; in them: of seconds, mean over groups of comparable runs; regret: how much slower the run "
    "predicted fastest is than its group's fastest, mean; OOM: groups in which it ran out of memory; fit: "
    "share of calls that were right"
)
RIGHT: Final = ("true_positive", "true_negative")


def _line(scores: Document) -> dict[str, str]:
    time, pick, memory, calls = scores["step_time"], scores["pick"], scores["memory"], scores["oom"]
    judged = sum(calls.values())
    every = [memory, memory["unknown_kind"]]
    count = sum(part["n"] for part in every)
    error = sum(part["mape"] * part["n"] for part in every if part["n"]) / count if count else None
    return {
        "predictor": scores["name"],
        "timed": str(time["n"]),
        "error": percent(time["mape"]),
        "median": percent(time["median_ape"]),
        "bias": percent(time["bias"], signed=True),
        "rank": scored(scores["rank"]["sources"]),
        "in them": scored(scores["rank"]["groups"]),
        "regret": percent(pick["mean"]),
        "OOM": f"{pick['ran_out']:.3g}",
        "memory": percent(error),
        "fit": percent(sum(calls[name] for name in RIGHT) / judged) if judged else "-",
    }


def _chance_line(chance: Document, columns: Sequence[str]) -> dict[str, str]:
    known = {"predictor": "by chance", "regret": percent(chance["mean"]), "OOM": f"{chance['ran_out']:.3g}"}
    return dict.fromkeys(columns, "-") | known


def _table(scores: Sequence[Document], chance: Document) -> Table:
    lines = [_line(one) for one in scores]
    return Table((*lines, _chance_line(chance, list(lines[0]))))


def as_page(document: Document, name: str) -> Page:
    """Return the scores of all predictors, and on the rows that all of them time, for people."""
    judged = document["judged"]
    page: Page = [
        f"{name}: {counted(judged['step_time'], 'step time')}, {counted(judged['memory'], 'peak')} of "
        f"memory, {counted(judged['fit'], 'outcome')}; {counted(judged['groups'], 'group')} to choose in",
        _table(document["predictors"], document["chance"]),
    ]
    for one in document["predictors"]:
        gaps = [f"{count} of {what.replace('_', ' ')}" for what, count in one["missing"].items() if count]
        gaps += [f"{counted(one['unknown_ids'], 'key')} not in the table"] if one["unknown_ids"] else []
        page += [f"{one['name']} leaves out: {', '.join(gaps)}"] if gaps else []
    common = document["common"]
    if common and common["predictors"][0]["step_time"]["n"] == judged["step_time"]:
        page += ["each of them times every row"]
    elif common:
        page += [f"on the {counted(common['rows'], 'row')} that all of them time"]
        page += [_table(common["predictors"], common["chance"])] if common["rows"] else []
    else:
        page += [_sources(document["predictors"][0]["sources"])]
    return [*page, LEGEND]


def _sources(sources: Sequence[Document]) -> Table:
    return Table(
        tuple(
            {
                "source": one["source"] or "(not named)",
                "timed": str(one["n"]),
                "error": percent(one["mape"]),
                "rank": scored(one["spearman"]),
            }
            for one in sources
        )
        or ({"source": "none", "timed": "0", "error": "-", "rank": "-"},)
    )


def as_rows(document: Document) -> list[dict[str, Any]]:
    """Return a flat row for each predictor, on all rows and on the common ones."""
    parts = [("all", document["predictors"])]
    parts += [("common", document["common"]["predictors"])] if document["common"] else []
    return [
        {"predictor": one["name"], "rows": which}
        | {f"time_{key}": value for key, value in one["step_time"].items()}
        | {f"rank_{key}": value for key, value in one["rank"].items()}
        | {f"pick_{key}": value for key, value in one["pick"].items()}
        | {"memory_mape": one["memory"]["mape"], "memory_n": one["memory"]["n"]}
        | {"memory_unknown_kind_mape": one["memory"]["unknown_kind"]["mape"]}
        | one["oom"]
        | {f"missing_{key}": value for key, value in one["missing"].items()}
        for which, predictors in parts
        for one in predictors
    ]
