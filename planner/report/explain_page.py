"""An explanation for people: a waterfall, memory, what binds, neighbours, operators, and what it rests on."""

from __future__ import annotations

from typing import Final

from planner.report.beside_step import beside_page
from planner.report.communicators import communicators_line
from planner.report.estimate_page import (
    adapter_lines,
    job_line,
    left_out,
    memory_table,
    shown_stages,
    trust,
    verdict,
)
from planner.report.explain import Explanation, arithmetic, as_defaults, binding, groups
from planner.report.explain_columns import changes_view, facts_view, groups_view, operators_view
from planner.report.explain_ranks import leaving
from planner.report.layout import layout
from planner.report.longest import longest_line
from planner.report.moments import moments_line
from planner.report.page import Page, Table, listed, significant
from planner.report.settings_line import settings_line
from planner.techniques.allocators import ALLOCATORS
from planner.units import GIB, percent

NOISE: Final = 1e-9
"""Share of a step up to which a sum of small parts is what rounding left."""
BAR: Final = 16
"""Columns of the longest bar."""
SMALL: Final = 5e-4
"""Share of a step below which a part is left out of the waterfall for people."""


def explain_page(told: Explanation) -> Page:
    """Return the page of an explanation."""
    answer = told.answer
    page: Page = [
        job_line(answer.job, answer.runtime),
        f"Plan: {layout(answer.plan)}",
        *settings_line(answer),
    ]
    page += verdict(answer)
    page += ["\n".join(f"  {line}" for line in arithmetic(answer))]
    page += adapter_lines(answer.job.workload.method)
    page += [_where(told), waterfall_table(told), _hidden(told)]
    page += [
        "Bottlenecks:\n" + "\n".join(f"  {line}" for line in [*binding(told)] or ["nothing but arithmetic"])
    ]
    page += ["Memory at each stage's peak moment, GiB:", memory_table(shown_stages(answer, first=1))]
    page += [*left_out(answer), moments_line(answer), _memory_line(told)]
    page += [*beside_page(told.anatomy), communicators_line(answer), longest_line(answer)]
    if groups(answer):
        page += [
            "Communication groups:",
            groups_view(answer).table(),
            *(f"Mind: {line}." for line in leaving(answer)),
        ]
    page += ["One change at a time (dp and micro-batches follow):", changes_view(told).table()]
    layer, operators, stars = operators_view(told)
    page += [f"One layer ({layer}), one micro-batch, one rank:", operators.table(), *filter(None, [stars])]
    page += ["Inputs and their sources:", facts_view(answer).table(), *trust(answer)]
    page.append(f"Defaults used: {listed(as_defaults(answer))}.")
    return page


def _where(told: Explanation) -> str:
    answer = told.answer
    place = f", along stage {told.anatomy.parts.slowest}, the slowest" if answer.plan.pp > 1 else ""
    return f"A step takes {significant(answer.step)} s{place}:"


def waterfall_table(told: Explanation) -> Table:
    """Return the parts of the step with a bar each; small ones share a row, so that all add up."""
    step = told.answer.step
    kept = [part for part in told.parts if abs(part.seconds) >= SMALL * step]
    rest = sum(part.seconds for part in told.parts) - sum(part.seconds for part in kept)
    rows = [(part.meaning, part.seconds) for part in kept]
    rows += [("parts below 0.05% each", rest)] if abs(rest) > NOISE * step else []
    longest = max(seconds for _, seconds in rows)
    bars = [
        {
            "where the step goes": meaning,
            "s": significant(seconds),
            "share": percent(seconds / step),
            "": "#" * max(0, round(BAR * seconds / longest)),
        }
        for meaning, seconds in rows
    ]
    total = {"where the step goes": "step", "s": significant(step), "share": percent(1.0), "": ""}
    return Table((*bars, total))


def _hidden(told: Explanation) -> str:
    hidden = [(part.name.removesuffix("_comm"), part.hidden) for part in told.parts if part.hidden > 0]
    words = ", ".join(f"{name} {significant(seconds)} s" for name, seconds in hidden)
    return f"Hidden behind compute, and so not in the step: {words or 'no communication'}."


def _memory_line(told: Explanation) -> str:
    answer = told.answer
    allocator = ALLOCATORS[answer.runtime.traits.allocator.name]
    left = (answer.capacity - answer.peak) / GIB
    free = f"{left:.1f} GiB are left" if left >= 0 else f"{-left:.1f} GiB are missing"
    return (
        f"The peak stage, {told.fullest.stage}, uses {answer.peak / GIB:.1f} of "
        f"{answer.capacity / GIB:.1f} GiB; "
        f"{free}; probability of running out of memory {percent(answer.oom_probability)} "
        f"{allocator.told}."
    )
