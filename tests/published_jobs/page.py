"""The document of published jobs: sums by table, what the search claims, what is refused, and samples."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from tests.helpers import ROOT
from tests.published_jobs.trial import Trial

DOCUMENT: Final = ROOT / "docs" / "published-jobs.md"
START, END = "<!-- tables: python -m tests.published_jobs -->", "<!-- end of tables -->"
SAMPLE: Final = 6
"""Trials of a table that the document shows; the file of trials has all. [-]"""
CLAIM, SLOWER = 0.10, -0.01
"""What counts as a large gain over a published layout, and as a loss against it. [-]"""

Test = Callable[[Trial], bool]

SUMS: Final[dict[str, tuple[Test, Test]]] = {
    "legal": (lambda one: True, lambda one: not one.refused),
    "called out of memory": (lambda one: not one.ran_out and one.priced_s > 0, lambda one: one.out_of_memory),
    "within its band": (lambda one: one.error != 0 and one.band > 0, lambda one: abs(one.error) <= one.band),
    "search over 1% slower": (lambda one: one.stands and one.best_s > 0, lambda one: one.gain < SLOWER),
    "search over 10% faster": (lambda one: one.stands and one.best_s > 0, lambda one: one.gain > CLAIM),
    "of these, of a kind without runs": (
        lambda one: one.stands and one.gain > CLAIM,
        lambda one: bool(one.unproven),
    ),
}
"""Figures of a table: of which trials a share is taken, and which of them count."""


def share(trials: Iterable[Trial], among: Test, counts: Test) -> str:
    """Return a share with its count, or a dash where there is nothing to count."""
    asked = [one for one in trials if among(one)]
    found = sum(counts(one) for one in asked)
    return f"{found} of {len(asked)} ({found / len(asked):.0%})" if asked else "-"


def mean_error(trials: Iterable[Trial]) -> str:
    """Return the mean error of the published layouts' prices."""
    errors = [abs(one.error) for one in trials if one.error]
    return f"{sum(errors) / len(errors):.1%}" if errors else "-"


def table(heads: Sequence[str], rows: Iterable[Sequence[object]], right: int) -> list[str]:
    """Return a table whose columns from ``right`` on are figures."""
    rule = ["---" if place < right else "---:" for place in range(len(heads))]
    return [f"| {' | '.join(map(str, row))} |" for row in (heads, rule, *rows)]


def summary(trials: Sequence[Trial]) -> list[str]:
    """Return the figures of each table and of all."""
    names = list(dict.fromkeys(one.table for one in trials))
    groups = {name: [one for one in trials if one.table == name] for name in names} | {"all": list(trials)}
    rows = [
        (name, len(group), mean_error(group), *(share(group, *tests) for tests in SUMS.values()))
        for name, group in groups.items()
    ]
    return table(("table", "recipes", "mean error", *SUMS), rows, 1)


def job(one: Trial) -> str:
    """Return what is trained, and where."""
    return f"{one.model} on {one.gpus:,} {one.gpu}, {one.global_batch:,} of {one.seq_len:,}, {one.precision}"


HEADS: Final = (
    "row", "job", "published", "search", "what changes",
    "measured s", "priced s", "search s", "place", "GiB",
)  # fmt: skip


def line(one: Trial) -> tuple[object, ...]:
    """Return a trial as a row of a table."""
    return (
        one.id, job(one), f"`{one.layout}`", f"`{one.best_layout}`" if one.best_layout else "none",
        one.terms or "-", f"{one.measured_s:.3g}", f"{one.priced_s:.3g}",
        f"{one.best_s:.3g}" if one.best_s else "-", one.place or "-", f"{one.gib:.0f}",
    )  # fmt: skip


def once(trials: Iterable[Trial]) -> list[Trial]:
    """Return the first trial of each job, layout and answer, whatever the release."""
    first: dict[tuple[object, ...], Trial] = {}
    for one in trials:
        first.setdefault((job(one), one.layout, one.best_layout), one)
    return list(first.values())


def claims(trials: Sequence[Trial]) -> list[str]:
    """Return the large gains, by what no measured run has, and how many a run of the same job reached."""
    fastest: dict[str, float] = {}
    for one in trials:
        if one.measured_s and not one.ran_out:
            fastest[job(one)] = min(one.measured_s, fastest.get(job(one), one.measured_s))
    found = once(one for one in trials if one.stands and one.gain > CLAIM)
    groups: dict[str, list[Trial]] = {}
    for one in sorted(found, key=lambda one: -one.gain):
        groups.setdefault(one.unproven or "of kinds that runs have", []).append(one)
    rows = [
        (
            name, f"{job(group[0])}: `{group[0].layout}` -> `{group[0].best_layout}` ({group[0].terms})",
            len(group), f"{group[0].gain:.0%}",
            sum(fastest.get(job(one), one.best_s * 2) <= one.best_s * (1 + CLAIM) for one in group),
        )
        for name, group in sorted(groups.items(), key=lambda item: -len(item[1]))
    ]  # fmt: skip
    heads = ("without a measured run", "the largest", "jobs", "gain", "reached within 10%")
    return table(heads, rows, 2)


def reasons(trials: Iterable[Trial]) -> list[str]:
    """Return the runners' reasons, and how many recipes each refuses."""
    counted = Counter((one.table, one.refused.partition(",")[0]) for one in trials if one.refused)
    rows = [(name, reason, count) for (name, reason), count in counted.most_common()]
    return table(("table", "reason", "recipes"), rows, 2)


def evenly(trials: Sequence[Trial]) -> list[Trial]:
    """Return a few trials, evenly spread."""
    most = min(SAMPLE, len(trials))
    return [trials[place * len(trials) // most] for place in range(most)]


def tables_of(trials: Sequence[Trial]) -> str:
    """Return all that is generated of the document."""
    lost = once(one for one in trials if one.stands and one.gain < SLOWER)
    full = once(one for one in trials if one.out_of_memory and not one.ran_out)
    lines = [
        "## In sum",
        "",
        *summary(trials),
        "",
        "## What the search claims over the authors by more than 10%",
    ]
    lines += ["", *claims(trials), "", "## Published layouts faster than the search by more than 1%", ""]
    lines += table(HEADS, map(line, lost), 5) if lost else ["None."]
    lines += ["", "## Published layouts called out of memory", ""]
    lines += table(HEADS, map(line, full), 5) if full else ["None."]
    lines += ["", "## Published layouts that the runner's files refuse", "", *reasons(trials)]
    for name in dict.fromkeys(one.table for one in trials):
        own = once(one for one in trials if one.table == name)
        lines += ["", f"## {name}: {len(evenly(own))} of {len(own)} jobs, evenly spread", ""]
        lines += table(HEADS, map(line, evenly(own)), 5)
    return "\n".join(lines)


def write_page(trials: Sequence[Trial]) -> None:
    """Write the tables of the document again."""
    text = DOCUMENT.read_text(encoding="utf-8")
    pattern = f"{re.escape(START)}.*{re.escape(END)}"
    fresh = re.sub(pattern, lambda _: f"{START}\n\n{tables_of(trials)}\n\n{END}", text, flags=re.DOTALL)
    DOCUMENT.write_text(fresh, encoding="utf-8")
