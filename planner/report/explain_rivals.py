"""The rivals of a plan: what a search of the same job finds, why each is slower or faster, and a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from planner.cost.estimate import Estimate
from planner.report.as_json import Document, plain, plan_record
from planner.report.compare import NamedPlan, difference, differences
from planner.report.html_figures import front
from planner.report.layout import layout
from planner.report.page import Page, Table, significant
from planner.units import GIB, percent

WIDTH: Final = 64
HEIGHT: Final = 12
SHOWN: Final = 5
"""Rivals in the table for people; the picture has all of them."""


def rivals_of(answer: Estimate, found: Sequence[Estimate]) -> tuple[Estimate, ...]:
    """Return the plans of a search without the plan itself."""
    return tuple(other for other in found if other.plan != answer.plan)


def rivals_page(answer: Estimate, found: Sequence[Estimate]) -> Page:
    """Return the rivals for people: who is ahead and why, a table, and time against memory as a picture."""
    rivals = rivals_of(answer, found)
    if not rivals:
        return ["A search of the same job finds no other plan that fits."]
    first = rivals[0]
    ahead = first.step < answer.step
    head = "The best plan of the same job" if ahead else "The runner-up of the same job"
    name = "the best" if ahead else "the runner-up"
    rows = [("this plan", answer), *((str(rank), rival) for rank, rival in enumerate(rivals[:SHOWN], 1))]
    apart = difference(NamedPlan("this plan", answer), NamedPlan(name, first))
    return [
        f"{head} is {layout(first.plan)}: {apart}",
        Table(tuple(_row(rank, other, answer) for rank, other in rows)),
        "Time against memory (* this plan, o others, on the Pareto front @):",
        scatter(answer, rivals),
    ]


def _row(rank: str, other: Estimate, answer: Estimate) -> dict[str, str]:
    return {
        "#": rank,
        "layout": layout(other.plan),
        "s/step": significant(other.step),
        "time": f"{100 * (other.step / answer.step - 1):+.1f}%",
        "GiB": f"{other.peak / GIB:.1f}",
        "out of memory": percent(other.oom_probability),
    }


def scatter(answer: Estimate, rivals: Sequence[Estimate]) -> str:
    """Draw plans by time (across) and memory (up) in characters; indented as code is in Markdown."""
    points = [(plan.step, plan.peak / GIB) for plan in (*rivals, answer)]
    best = set(front(point for point in points if point[1] <= answer.capacity / GIB))
    left, right = min(x for x, _ in points), max(x for x, _ in points)
    low, high = min(y for _, y in points), max(y for _, y in points)
    grid = [[" "] * WIDTH for _ in range(HEIGHT)]
    for number, (x, y) in enumerate(points):
        column = round((x - left) / ((right - left) or 1.0) * (WIDTH - 1))
        row = round((high - y) / ((high - low) or 1.0) * (HEIGHT - 1))
        mark = "*" if number == len(rivals) else "@" if (x, y) in best else "o"
        taken = grid[row][column]
        grid[row][column] = mark if mark == "*" or taken == " " or (taken == "o" and mark == "@") else taken
    labels = [f"{high:.1f} GiB"] + [""] * (HEIGHT - 2) + [f"{low:.1f} GiB"]
    lines = [f"    {label:>9} |{''.join(cells).rstrip()}" for label, cells in zip(labels, grid, strict=True)]
    ends = f"{significant(left)} s", f"{significant(right)} s"
    rule = f"    {'':9} +{'-' * WIDTH}"
    return "\n".join([*lines, rule, f"    {'':10} {ends[0]}{ends[1]:>{WIDTH - len(ends[0])}}"])


def rivals_document(answer: Estimate, found: Sequence[Estimate]) -> list[Document]:
    """Return the rivals as JSON, each with what its terms add over the plan."""
    rows: list[Document] = plain(
        [
            {
                "layout": layout(rival.plan),
                "plan": plan_record(rival.plan),
                "step_time_s": rival.step,
                "change": rival.step / answer.step - 1,
                "peak_gib": rival.peak / GIB,
                "oom_probability": rival.oom_probability,
                "time_s": differences(answer, rival),
            }
            for rival in rivals_of(answer, found)
        ]
    )
    return rows
