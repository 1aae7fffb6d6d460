"""An explanation for people: a waterfall, memory, what binds, neighbours, operators, and what it rests on."""

from __future__ import annotations

import re
from typing import Final

from planner.cost.estimate import Estimate
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
from planner.report.explain import (
    Explanation,
    arithmetic,
    as_defaults,
    binding,
    facts,
    groups,
    neighbour_row,
    operator_rows,
)
from planner.report.explain_ranks import leaving
from planner.report.layout import layout
from planner.report.longest import longest_line
from planner.report.moments import moments_line
from planner.report.page import Page, Table, listed, significant
from planner.report.settings_line import settings_line
from planner.search.request import SearchRequest
from planner.units import GIB, MIB, MICROSECOND, percent, show

BAR: Final = 16
"""Columns of the longest bar."""
SMALL: Final = 5e-4
"""Share of a step below which a part is left out of the waterfall for people."""

FAR: Final = "* a shape outside of those that the kernel curves were fitted to."

AXES: Final = {
    "micro_batch": "micro batch",
    "sequence_parallel": "sequence parallel",
    "cp_method": "cp method",
}


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
            groups_table(answer),
            *(f"Mind: {line}." for line in leaving(answer)),
        ]
    page += ["One change at a time (dp and micro-batches follow):", neighbours_table(told)]
    layer, rows = operator_rows(told)
    page += [f"One layer ({layer}), one micro-batch, one rank:", operators_table(rows)]
    page += [FAR] if any(row["extrapolated"] for row in rows) else []
    page += ["Inputs and their sources:", facts_table(answer), *trust(answer)]
    page.append(f"At their defaults: {listed(as_defaults(answer))}.")
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
    rows += [("parts below 0.05% each", rest)] if abs(rest) > 0 else []
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
    left = (answer.capacity - answer.peak) / GIB
    free = f"{left:.1f} GiB are left" if left >= 0 else f"{-left:.1f} GiB are missing"
    return (
        f"The peak stage, {told.fullest.stage}, uses {answer.peak / GIB:.1f} of "
        f"{answer.capacity / GIB:.1f} GiB; "
        f"{free}; probability of running out of memory {percent(answer.oom_probability)} with "
        "`expandable_segments:True`, which the launch files set."
    )


def groups_table(answer: Estimate) -> Table:
    """Return the groups of ranks and the slowest links that each uses."""
    return Table(
        tuple(
            {
                "axis": "dp · cp" if group.axis == "dp" and answer.plan.cp > 1 else group.axis,
                "ranks": str(group.ranks),
                "stride": str(group.stride),
                "slowest link": group.tier,
                "bandwidth": show(group.bandwidth, "byte/s"),
            }
            for group in groups(answer)
        )
    )


def neighbours_table(told: Explanation) -> Table:
    """Return what one change of each axis would do; a change that breaks a rule says which."""
    rows = []
    for neighbour in told.neighbours:
        row = neighbour_row(neighbour, told.answer)
        rule, colon, why = row["refused"].partition(":")
        broken = f"no: {rule.replace('-', ' ')}{colon}{why}" if rule else "no: memory"
        fits = runs_so(row["oom_probability"]) if row["feasible"] else broken
        rows.append(
            {
                "axis": AXES.get(neighbour.axis, neighbour.axis),
                "change": f"{neighbour.before} to {neighbour.after}",
                "s/step": significant(row["step_time_s"]),
                "time": _signed(row["change"]),
                "GiB": "-" if row["peak_gib"] is None else f"{row['peak_gib']:.1f}",
                "runs": fits,
            }
        )
    return Table(tuple(rows))


def runs_so(risk: float | None) -> str:
    """Return that a plan runs, or that a search would leave it out for its risk of running out of memory."""
    safe = risk is None or risk <= SearchRequest.oom_risk
    return "yes" if safe else f"risky: {percent(risk, 0)} out of memory"


def _signed(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:+.1f}%"


def operators_table(rows: tuple[dict[str, object], ...]) -> Table:
    """Return the operators of a layer; a star marks shapes outside what the curves were fitted to."""
    return Table(
        tuple(
            {
                "operator": f"{row['operator']}{'*' if row['extrapolated'] else ''}",
                "rows x in x out": _shape(row),
                "fwd us": f"{float(str(row['forward_s'])) / MICROSECOND:,.0f}",
                "bwd us": f"{float(str(row['backward_s'])) / MICROSECOND:,.0f}",
                "share": percent(float(str(row["share"]))),
                "of peak": percent(row["forward_peak_share"], 0),  # type: ignore[arg-type]
                "kept MiB": f"{float(str(row['saved_bytes'])) / MIB:,.0f}",
            }
            for row in rows
        )
    )


def _shape(row: dict[str, object]) -> str:
    sizes = [row["rows"], row["inputs"], row["outputs"]]
    return " x ".join(f"{size:.0f}" for size in sizes) if sizes[0] is not None else ""


def facts_table(answer: Estimate) -> Table:
    """Return the numbers of the profile with where they stand; a source is named by its site."""
    return Table(
        tuple(
            {
                "number": fact.name,
                "value": fact.value,
                "standing": fact.standing,
                "source": _site(fact.source),
            }
            for fact in facts(answer)
        )
    )


def _site(source: str) -> str:
    """Return the site of an address, or the first words of another source."""
    found = re.match(r"https?://([^/\s]+)", source)
    words = found[1] if found else source
    return words if len(words) <= 40 else f"{words[:37].rsplit(' ', 1)[0]}..."
