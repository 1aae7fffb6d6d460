"""A validation as text of 80 columns, as Markdown, and as flat rows."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from planner.calibrate.runs.defaults import without_row
from planner.report.page import counted, scored
from planner.units import percent

Document = Mapping[str, Any]

WORST: Final = 5
"""Rows with the largest errors that a table lists. [-]"""
REASONS: Final = 12
"""Reasons for skipped rows that a table lists. [-]"""
NAMELESS: Final = "(not named)"
"""What stands for the source of rows that name none."""
_WIDTH: Final = 80


def as_text(document: Document, name: str) -> str:
    """Return the summary of a validation for people."""
    parts = [
        f"{counted(document['rows'], 'row')}, {document['priced']} priced, "
        f"{len(document['skipped'])} skipped: {name}",
        *_errors(document),
        *_memory(document),
        *_outcomes(document),
        *_sources(document),
        *_worst(document),
        *_skipped(document),
        *_defaults(document),
    ]
    return "\n".join(line[:_WIDTH].rstrip() for line in parts) + "\n"


def _errors(document: Document) -> list[str]:
    lines = ["", f"{'step time':<22}{'rows':>7}{'error':>9}{'median':>9}{'p90':>9}{'bias':>9}{'in 10%':>9}"]
    labels = {"step_time": "all rows", "unmarked": "unmarked rows", "naive": "rule of thumb"}
    for key, label in labels.items():
        scores = document.get(key)
        if scores and scores["n"]:
            values = (scores["mape"], scores["median_ape"], scores["p90_ape"])
            cells = "".join(f"{percent(value):>9}" for value in values)
            bias, within = percent(scores["bias"], signed=True), percent(scores["within_10pct"])
            lines.append(f"{label:<22}{scores['n']:>7}{cells}{bias:>9}{within:>9}")
    legend = "error: mean of |predicted - measured| / measured; bias: the same with its sign"
    return [*lines, legend] if len(lines) > 2 else ["", "step time: no row has one"]


def _memory(document: Document) -> list[str]:
    memory = document["memory"]
    kinds = dict(memory["by_kind"])
    if memory["unknown_kind"]["n"]:
        kinds["counter not stated"] = memory["unknown_kind"]
    if not kinds:
        return []
    return ["", f"{'memory':<22}{'rows':>7}{'error':>9}{'bias':>27}"] + [
        f"{kind:<22}{scores['n']:>7}{percent(scores['mape']):>9}{percent(scores['bias'], signed=True):>27}"
        for kind, scores in kinds.items()
    ]


def _outcomes(document: Document) -> list[str]:
    oom = document["oom"]
    total = sum(oom.values())
    if not total:
        return []
    right = oom["true_positive"] + oom["true_negative"]
    return [
        "",
        f"fit or out of memory: {right} of {total} right ({percent(right / total)}); "
        f"{oom['false_negative']} missed, {oom['false_positive']} false alarms",
    ]


def group_summary(groups: Sequence[Document]) -> dict[str, dict[str, float | int | None]]:
    """Return each source's mean rank and regret over its groups, and the picks that ran out of memory."""
    summary: dict[str, dict[str, float | int | None]] = {}
    for source in dict.fromkeys(group["source"] for group in groups):
        members = [group for group in groups if group["source"] == source]
        ranked = [group["spearman"] for group in members if group["spearman"] is not None]
        several = [group for group in members if group["n"] > 1]
        regrets = [group["top1_regret"] for group in several if group["top1_regret"] is not None]
        summary[source] = {
            "groups": len(several),
            "rank": sum(ranked) / len(ranked) if ranked else None,
            "regret": sum(regrets) / len(regrets) if regrets else None,
            "oom": sum(group["pick_oom"] is True for group in members),
        }
    return summary


def source_rows(document: Document) -> list[dict[str, str]]:
    """Return a line for each source: error and ranks, as text."""
    groups = group_summary(document["groups"])
    rows = []
    for source in document["sources"]:
        group = groups[source["source"]]
        rows.append(
            {
                "source": source["source"] or NAMELESS,
                "timed": str(source["n"]),
                "error": percent(source["mape"]),
                "rank": scored(source["spearman"]),
                "groups": str(group["groups"]),
                "rank in groups": scored(group["rank"]),
                "regret": percent(group["regret"]),
                "picks OOM": str(group["oom"]),
            }
        )
    return rows


def _sources(document: Document) -> list[str]:
    rows = source_rows(document)
    if not rows:
        return []
    widths = {"source": 32, "timed": 6, "error": 7, "rank": 6, "groups": 5, "rank in groups": 8, "regret": 8}
    names = [*widths, "picks OOM"]
    heads = [*names[:4], "jobs", "in job", "regret", "ran OOM"]
    sizes = [*widths.values(), 8]
    lines = [
        "",
        "".join(
            _cell(head, size, place) for place, (head, size) in enumerate(zip(heads, sizes, strict=True))
        ),
    ]
    for row in rows:
        cells = zip((row[name] for name in names), sizes, strict=True)
        lines.append("".join(_cell(text, size, place) for place, (text, size) in enumerate(cells)))
    legend = (
        "rank: Spearman's, over a source's rows by speed; in job: the mean of its jobs'",
        "regret: how much slower than a job's best its row that was predicted fastest is",
    )
    return [*lines, *legend]


def _cell(text: str, size: int, place: int) -> str:
    return f"{text[: size - 1]:<{size}}" if place == 0 else f"{text:>{size}}"


def _worst(document: Document) -> list[str]:
    timed = [row for row in document["per_row"] if row["measured_s"] and row["predicted_s"]]
    timed.sort(key=lambda row: -abs(row["predicted_s"] / row["measured_s"] - 1))
    if not timed:
        return []
    return ["", f"{'worst rows':<22}{'measured s':>12}{'predicted s':>13}{'error':>9}  era"] + [
        f"{row['id'][:21]:<22}{row['measured_s']:>12.4g}{row['predicted_s']:>13.4g}"
        f"{percent(row['predicted_s'] / row['measured_s'] - 1, signed=True):>9}  {row['era']}"
        for row in timed[:WORST]
    ]


def reasons(skipped: Sequence[Document]) -> Counter[str]:
    """Return how many rows were skipped for each reason, row numbers apart."""
    return Counter(without_row(skip["reason"]) for skip in skipped)


def _skipped(document: Document) -> list[str]:
    counted = reasons(document["skipped"]).most_common()
    if not counted:
        return []
    lines = ["", "skipped rows, by reason"]
    for reason, count in counted[:REASONS]:
        lines += textwrap.wrap(
            f"{count:>6}  {reason}", _WIDTH, subsequent_indent=" " * 8, drop_whitespace=True
        )
    rest = sum(count for _, count in counted[REASONS:])
    return [*lines, f"{rest:>6}  for other reasons: see --format json"] if rest else lines


def _defaults(document: Document) -> list[str]:
    taken = Counter(name for row in document["per_row"] for name in row["defaults"])
    if not taken:
        return []
    counts = ", ".join(f"{name} {count}" for name, count in taken.most_common())
    return ["", *textwrap.wrap(f"values taken for blanks (rows): {counts}", _WIDTH, subsequent_indent="  ")]


def as_markdown(document: Document) -> str:
    """Return the scores of each source as a Markdown table."""
    rows = source_rows(document)
    if not rows:
        return "no row could be priced\n"
    heads = list(rows[0])
    lines = [" | ".join(heads), " | ".join("---" for _ in heads), *(" | ".join(row.values()) for row in rows)]
    return "".join(f"| {line} |\n" for line in lines)


def as_rows(document: Document) -> list[dict[str, Any]]:
    """Return the priced rows, and the skipped ones with their reason, with the same keys."""
    priced = [
        row
        | {
            "defaults": "; ".join(f"{name}={value}" for name, value in row["defaults"].items()),
            "skipped": None,
        }
        for row in document["per_row"]
    ]
    names = list(priced[0]) if priced else ["id", "skipped"]
    blank = dict.fromkeys(names)
    return priced + [blank | {"id": skip["id"], "skipped": skip["reason"]} for skip in document["skipped"]]
