"""The tables of an explanation, declared once for text and HTML: groups, changes, operators, facts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from planner.cost.estimate import Estimate
from planner.report.as_json import Document
from planner.report.explain import Explanation, facts, groups, neighbour_row, operator_rows
from planner.report.plan_columns import PEAK, STEP
from planner.report.view import Column, View, figure
from planner.search.request import SearchRequest
from planner.units import MIB, MICROSECOND, percent, show

FAR: Final = "* a shape outside the range of the kernel curves."

AXES: Final = {
    "micro_batch": "micro batch",
    "sequence_parallel": "sequence parallel",
    "cp_method": "cp method",
}


def runs_so(risk: float | None) -> str:
    """Return that a plan runs, or that a search would leave it out for its risk of running out of memory."""
    safe = risk is None or risk <= SearchRequest.oom_risk
    return "yes" if safe else f"at {percent(risk, 0)} risk"


def _runs(row: Document) -> str:
    """Return whether a plan with one change runs; a change that breaks a rule says which."""
    rule = row["refused"].partition(":")[0]
    broken = f"no: {rule.replace('-', ' ')}" if rule else "no: memory"
    return runs_so(row["oom_probability"]) if row["feasible"] else broken


def _shape(row: Document) -> str:
    sizes = [row["rows"], row["inputs"], row["outputs"]]
    return " x ".join(f"{size:.0f}" for size in sizes) if sizes[0] is not None else ""


def _site(source: str) -> str:
    """Return the site of an address, how many runs a number was fitted to, or the first words of others."""
    runs = re.match(r"(\d+) measured runs", source)
    found = re.match(r"https?://([^/\s]+)", source)
    words = f"{runs[1]} runs" if runs else found[1] if found else source
    return words if len(words) <= 40 else f"{words[:37].rsplit(' ', 1)[0]}..."


def _word(name: str) -> Column:
    return Column(name, "", name, lambda record: record[name])


def _count(name: str) -> Column:
    return figure(name, name, "-", str)


def _time(key: str, name: str) -> Column:
    return figure(key, name, "s", lambda seconds: f"{seconds / MICROSECOND:,.0f}")


GROUPS: Final = (
    _word("axis"),
    _count("ranks"),
    _count("stride"),
    Column("slowest link", "", "tier", lambda group: group["tier"]),
    figure("bandwidth", "bandwidth", "byte/s", lambda rate: show(rate, "byte/s")),
)

CHANGES: Final = (
    Column("axis", "", "axis", lambda row: AXES.get(row["axis"], row["axis"])),
    Column("change", "", "from", lambda row: f"{row['from']} to {row['to']}"),
    STEP,
    figure("change", "time", "share", lambda share: "-" if share is None else f"{100 * share:+.1f}%"),
    PEAK,
    Column("runs", "", "feasible", _runs),
)

OPERATORS: Final = (
    Column("operator", "", "operator", lambda row: f"{row['operator']}{'*' if row['extrapolated'] else ''}"),
    Column("rows x in x out", "", "rows", _shape),
    _time("forward_s", "fwd us"),
    _time("backward_s", "bwd us"),
    figure("share", "share", "share", percent),
    figure("forward_peak_share", "of peak", "share", lambda share: percent(share, 0)),
    figure("saved_bytes", "kept MiB", "byte", lambda size: f"{size / MIB:,.0f}"),
)

FACTS: Final = (_word("number"), _word("value"), _word("standing"))


def groups_view(answer: Estimate) -> View:
    """Return the groups of ranks and the slowest links that each uses."""
    both = {"dp": "dp · cp"} if answer.plan.cp > 1 else {}
    records = [vars(group) | {"axis": both.get(group.axis, group.axis)} for group in groups(answer)]
    return View(GROUPS, records)


def changes_view(told: Explanation) -> View:
    """Return what one change of each axis would do."""
    return View(CHANGES, [neighbour_row(neighbour, told.answer) for neighbour in told.neighbours])


def operators_view(told: Explanation) -> tuple[str, View, str]:
    """Return the layer that is told, its operators, and what their stars mean where there are any."""
    layer, rows = operator_rows(told)
    return layer, View(OPERATORS, rows), FAR if any(row["extrapolated"] for row in rows) else ""


def facts_view(answer: Estimate, whole: bool = False) -> View:
    """Return the numbers of the profile with where they stand; a source by its site, or whole."""
    source = Column("source", "", "source", lambda fact: fact["source"] if whole else _site(fact["source"]))
    records: list[Mapping[str, Any]] = [vars(fact) | {"number": fact.name} for fact in facts(answer)]
    return View((*FACTS, source), records)
