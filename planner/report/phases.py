"""Phases of one training, for people and programs."""

from __future__ import annotations

from typing import Any, Final

from planner.report.as_json import Document, estimate_document, plain
from planner.report.layout import layout
from planner.report.page import Page, Table, significant
from planner.report.plan_columns import money
from planner.search.phases import Course, Courses, PhaseSwitch
from planner.units import GIB, show

PHASES: Final = "planner/phases/1"


def phases_document(found: Courses, defaults: dict[str, Any]) -> Document:
    """Return the phases as a document; a part that has no plan is None."""
    document: Document = plain(
        {
            "schema": PHASES,
            "phases": _course(found.own, defaults),
            "single": _course(found.single, defaults),
            "single_over_phases": found.gain,
        }
    )
    return document


def _course(course: Course | None, defaults: dict[str, Any]) -> Document | None:
    if course is None:
        return None
    return {
        "days": course.days,
        "cost_usd": course.usd,
        "phases": [
            {
                "tokens": phase.tokens,
                "time_s": phase.seconds,
                "plan": estimate_document(phase.answer, defaults),
            }
            for phase in course.phases
        ],
        "switches": [
            {
                "loads": one.resume.verdict.loads,
                "why_not": [f"{fault.rule}: {fault.found}" for fault in one.resume.verdict.faults],
                "tool": one.resume.verdict.tool,
                "reshards": one.reshards,
                "moved_gib": None if one.resume.move is None else one.resume.move.moved / GIB,
                "time_s": one.seconds,
            }
            for one in course.switches
        ],
    }


def phases_rows(found: Courses) -> list[dict[str, Any]]:
    """Return a row for each phase of either course."""
    rows = []
    for name, course in (("phases", found.own), ("single", found.single)):
        for place, phase in enumerate(course.phases if course else ()):
            rows.append(
                {
                    "course": name,
                    "phase": place,
                    "seq_len": phase.answer.job.workload.seq_len,
                    "global_batch": phase.answer.job.workload.global_batch,
                    "tokens": phase.tokens,
                    "layout": layout(phase.answer.plan),
                    "step_time_s": phase.answer.step,
                    "time_s": phase.seconds,
                }
            )
    return rows


def phases_page(found: Courses) -> Page:
    """Return the phases for people, the answer first."""
    if found.own is None:
        lead = found.failed.nearest if found.failed is not None else None
        return [f"Some phase has no plan that fits{'' if lead is None else f'; nearest: {dict(lead)}'}."]
    own, single = found.own, found.single
    head = f"A plan for each phase: {_spent(own)}."
    beside = (
        "No plan that was tried fits in all phases."
        if single is None
        else f"One plan for all: {_spent(single)}, {found.gain:.3f} times as long."
    )
    page: Page = [head, _table(own), *(_switch(one) for one in own.switches), beside]
    return page if single is None else [*page, _table(single)]


def _spent(course: Course) -> str:
    usd = course.usd
    return f"{significant(course.days, 4)} days{'' if usd is None else f', {money(usd)}'}"


def _table(course: Course) -> Table:
    return Table(
        tuple(
            {
                "tokens of a sequence": f"{phase.answer.job.workload.seq_len:,}",
                "B tokens": significant(phase.tokens / 1e9, 4),
                "layout": layout(phase.answer.plan),
                "s/step": significant(phase.answer.step),
                "GiB": f"{phase.answer.peak / GIB:.1f}",
                "days": significant(phase.seconds / 86400.0, 4),
            }
            for phase in course.phases
        )
    )


def _switch(one: PhaseSwitch) -> str:
    """Return what a switch takes in a sentence."""
    if not one.reshards:
        return "Switch: every rank keeps what it has."
    verdict, move = one.resume.verdict, one.resume.move
    why = "; ".join(f"{fault.rule}: {fault.found}" for fault in verdict.faults)
    told = f"does not load ({why})" if why else f"loads{f' after {verdict.tool}' if verdict.tool else ''}"
    moved = "" if move is None else f", {show(move.moved, 'byte')} change ranks"
    return f"Switch: the checkpoint {told}{moved}; {significant(one.seconds)} s."
