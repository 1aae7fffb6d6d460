"""The report of one plan: summary, waterfall, memory, timeline, scaling, neighbours, assumptions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from planner.cost.estimate import Estimate
from planner.cost.step.played import chunk_pieces, chunk_pipeline, mean_times, message_seconds
from planner.dataclasses import dataclass
from planner.report.as_json import estimate_document
from planner.report.estimate_page import job_line, trust
from planner.report.explain import Explanation, arithmetic, as_defaults, binding
from planner.report.explain_columns import changes_view, facts_view, groups_view, operators_view
from planner.report.html import HtmlBlock, HtmlPage, footer, plot
from planner.report.html_figures import (
    Bar,
    Point,
    memory_figure,
    pareto_figure,
    scaling_figure,
    timeline_figure,
    waterfall_figure,
)
from planner.report.layout import layout
from planner.report.page import listed, significant
from planner.report.plan_columns import (
    BAND,
    DAYS,
    HFU,
    LAYOUT,
    MFU,
    PEAK,
    PER_STEP,
    RISK,
    STEP,
    TO_TRAIN,
    TOKENS,
    plan_record,
    ranked,
)  # fmt: skip
from planner.report.settings_line import settings_line
from planner.report.view import View
from planner.techniques.schedules.engine import play
from planner.units import GIB, TFLOP

MOST_BARS: Final = 1200
"""Passes of a timeline that are drawn; of a longer step the first micro-batches are."""


@dataclass(frozen=True)
class Around:
    """What stands around a plan."""

    scaling: Sequence[Estimate] = ()
    """The plan on other numbers of accelerators."""
    best: Sequence[Estimate] = ()
    """The fastest plan of each number, the plan's own among them; empty where nothing was searched."""
    front: Sequence[Estimate] = ()
    """The fastest plan at each of several limits of memory; empty where nothing was searched."""
    left_out: Sequence[str] = ()
    """What there was no time to search."""


def plan_report(told: Explanation, around: Around, version: str, notes: Sequence[str] = ()) -> HtmlPage:
    """Return the page of a plan, with ``notes`` on its file below what it is."""
    answer = told.answer
    marked = tuple(f"Note: {note}." for note in notes)
    said = (f"Plan: {layout(answer.plan)}", *settings_line(answer))
    head = (job_line(answer.job, answer.runtime), *said, *marked, *verdict(answer))
    parts = [(part.meaning, part.seconds) for part in told.parts]
    layer, operators, stars = operators_view(told)
    peak = f"Dense peak {answer.peak_rate / TFLOP:,.0f} TFLOP/s."
    blocks = [
        HtmlBlock("text", lines=head),
        HtmlBlock("tiles", rows=tuple(tiles(answer))),
        HtmlBlock("list", "Bottlenecks", lines=tuple(binding(told)) or ("nothing but arithmetic",)),
        plot("waterfall", "Where the step goes", waterfall_figure(parts, answer.step), _stage_note(told)),
        _memory(answer),
        *_timeline(told),
        *_scaling(answer, around),
        *_front(answer, around.front),
        *_left_out(around.left_out),
        *_neighbours(told),
        operators.block(f"One layer ({layer}), one micro-batch, one rank", stars),
        groups_view(answer).block("Communication groups"),
        HtmlBlock("list", "How the numbers follow", lines=arithmetic(answer)),
        facts_view(answer, whole=True).block("Inputs and their sources", peak),
        _trust(answer),
    ]
    title = f"{answer.job.model.name} on {answer.job.gpus:,} accelerators of {answer.job.hardware.name}"
    return HtmlPage(title, tuple(blocks), footer(version))


def _trust(answer: Estimate) -> HtmlBlock:
    told = [line for line in trust(answer) if isinstance(line, str)]
    told.append(f"Defaults used: {listed(as_defaults(answer))}.")
    return HtmlBlock("list", "How far to trust this", lines=tuple(told))


def verdict(answer: Estimate) -> tuple[str, ...]:
    """Return what is wrong with a plan."""
    broken = tuple(
        f"Breaks {fault.rule}: {fault.found}; expected {fault.expected}." for fault in answer.violations
    )
    if answer.peak > answer.capacity:
        broken += (f"Does not fit: {(answer.peak - answer.capacity) / GIB:.1f} GiB over.",)
    return broken


def tiles(answer: Estimate) -> list[tuple[str, str]]:
    """Return the figures that stand on top."""
    record = plan_record(answer)
    columns = [STEP, BAND, TOKENS, MFU, HFU, PEAK, RISK, PER_STEP]
    columns += [DAYS, TO_TRAIN] if record["days_to_train"] is not None else []
    return [one.item(record) for one in columns]


def _stage_note(told: Explanation) -> str:
    hidden = [
        f"{part.name.removesuffix('_comm')} {significant(part.hidden)} s"
        for part in told.parts
        if part.hidden > 0
    ]
    place = f"Along stage {told.anatomy.parts.slowest}, the slowest. " if told.answer.plan.pp > 1 else ""
    words = ", ".join(hidden) or "no communication"
    return f"{place}The parts add up to the step. Hidden behind compute: {words}."


def _memory(answer: Estimate) -> HtmlBlock:
    memory = estimate_document(answer, {})["memory"]
    return plot("memory", "Memory of each stage", memory_figure(memory["stages"], memory["capacity_gib"]))


def timeline_bars(told: Explanation) -> tuple[int, list[Bar]]:
    """Return the micro-batches that are played, and every pass of them; none for a single stage."""
    plan, anatomy = told.answer.plan, told.anatomy
    pp, vpp, schedule = int(plan.pp), int(plan.vpp), anatomy.case.schedule
    if pp == 1:
        return 0, []
    wanted = int(plan.num_microbatches)
    while 3 * pp * vpp * wanted > MOST_BARS and wanted > 2 * pp and not wanted % 2:
        wanted //= 2
    if schedule.supports(pp, vpp, wanted) or 3 * pp * vpp * wanted > 10 * MOST_BARS:
        return 0, []
    chunks = chunk_pieces(plan, anatomy.case)
    pipeline = chunk_pipeline(
        plan, anatomy.case, chunks, anatomy.parts.costs, message_seconds(plan, anatomy.case)
    )
    timeline = play(schedule.order(pp, vpp, wanted, mean_times(pipeline)), pipeline)
    bars: list[Bar] = [
        (item.kind, rank, start, end, item.microbatch)
        for rank in range(pp)
        for item, start, end in timeline.rank_events(rank)
    ]
    return wanted, bars


def _timeline(told: Explanation) -> list[HtmlBlock]:
    played, bars = timeline_bars(told)
    if not bars:
        return []
    plan = told.answer.plan
    whole = played == int(plan.num_microbatches)
    rest = "" if whole else f", drawn for {played} of them"
    note = f"{plan.schedule}, {plan.num_microbatches:.0f} micro-batches{rest}"
    return [plot("timeline", "The pipeline", timeline_figure(bars, int(plan.pp)), f"{note}.")]


def _scaling(answer: Estimate, around: Around) -> list[HtmlBlock]:
    rows, best = _growth((answer, *around.scaling)), _growth(around.best)
    if len({gpus for gpus, _ in (*rows, *best)}) < 2:
        return []
    note = "The same batch and layout, at other data parallel degrees"
    note += "; the others are searched" if best else " (--search finds the fastest plan for each count)"
    figure = scaling_figure(rows, answer.job.gpus, best)
    return [
        plot("scaling", "More or fewer accelerators", figure, f"{note}; plans that do not fit are left out.")
    ]


def _left_out(words: Sequence[str]) -> list[HtmlBlock]:
    title = "Not searched: the time was over (--time-limit)"
    return [HtmlBlock("list", title, lines=tuple(words))] if words else []


def _growth(answers: Sequence[Estimate]) -> list[tuple[int, float]]:
    return sorted((other.job.gpus, other.tokens_per_second * other.job.gpus) for other in answers)


def _front(answer: Estimate, front: Sequence[Estimate]) -> list[HtmlBlock]:
    if not front:
        return []
    points = [(layout(plan.plan), plan.step, plan.peak / GIB) for plan in front]
    here = (f"this plan: {layout(answer.plan)}", answer.step, answer.peak / GIB)
    shown = pareto_figure({"this plan": [here], "fastest at a limit": points}, answer.capacity / GIB)
    note = "The fastest plan of the same job at each of several limits of memory, whatever its axes."
    shown_plans = View((LAYOUT, STEP, PEAK), ranked(front))
    return [
        plot("front", "Time and memory", shown, note),
        shown_plans.block("The fastest plan at each limit of memory"),
    ]


def _neighbours(told: Explanation) -> list[HtmlBlock]:
    answer, changes = told.answer, changes_view(told)
    points = {"fits": list[Point](), "does not fit": list[Point]()}
    for row in changes.records:
        if row["step_time_s"] is not None and not row["refused"]:
            change = f"{row['axis']} {row['from']} to {row['to']}"
            points["fits" if row["feasible"] else "does not fit"].append(
                (change, row["step_time_s"], row["peak_gib"])
            )
    here = {"this plan": [("this plan", answer.step, answer.peak / GIB)]}
    shown = pareto_figure(
        here | {name: found for name, found in points.items() if found}, answer.capacity / GIB
    )
    note = "Each point changes one axis; dp and the number of micro-batches follow."
    return [
        plot("neighbours", "One change at a time", shown, note),
        changes.block("The changes in numbers"),
    ]
