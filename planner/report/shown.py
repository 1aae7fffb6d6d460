"""Answers in one line, and as tables of HTML for notebooks."""

from __future__ import annotations

from html import escape
from typing import Any, Final

from planner.cost.estimate import Estimate
from planner.inputs.hardware import HardwareProfile
from planner.inputs.model import ModelSpec
from planner.report.as_json import Document, search_document
from planner.report.estimate_page import TIME_WORDS
from planner.report.explain import Explanation, explain_document
from planner.report.layout import layout
from planner.report.moments import whole_document
from planner.report.page import counted, significant
from planner.runtimes.family import Job, Runtime
from planner.search.columns import PricedColumns
from planner.search.result import SearchResult
from planner.shown import show_with
from planner.simulate.record import StepRecord
from planner.units import GIB, percent

MOST_ROWS: Final = 20


def short(answer: Any) -> str:
    """Return an answer in one line."""
    if isinstance(answer, Estimate):
        return f"<Estimate {_where(answer)}: {layout(answer.plan)}, {_figures(answer)}>"
    if isinstance(answer, Explanation):
        return f"<Explanation of {short(answer.answer)[1:-1]}>"
    if not isinstance(answer, SearchResult):
        return _part(answer)
    if not answer.plans:
        return f"<SearchResult: none of {answer.valid:,} legal plans fits>"
    best = answer.plans[0]
    return (
        f"<SearchResult {_where(best)}: {answer.fits:,} of {answer.valid:,} legal plans fit, "
        f"best {layout(best.plan)}, {_figures(best)}>"
    )


def _part(part: Any) -> str:
    """Return what an answer is made of, or made into, in one line."""
    match part:
        case Job():
            work = part.workload
            told = (
                f"{part.model.name} on {part.gpus:,} {part.hardware.name}, {work.global_batch:,} sequences "
            )
            told += f"of {work.seq_len:,} tokens, {work.precision}, {work.optimizer}, {work.method}"
        case ModelSpec():
            told = f"{part.name}, {part.params / 1e9:.3g} B parameters, {part.num_layers} layers"
        case HardwareProfile():
            nodes = (f"{pool.gpus_per_node} {pool.accelerator.name} a node" for pool in part.pools)
            told = ", ".join((part.name, *nodes))
        case Runtime():
            told = " ".join(filter(None, (part.name, part.release)))
        case StepRecord():
            told = f"{significant(part.makespan)} s, bubble {significant(part.bubble)} s"
            told += f", {counted(len(part.stages), 'stage')}"
        case PricedColumns():
            told = f"{len(part.step):,} plans, {int(part.legal.sum()):,} legal, {int(part.fits.sum()):,} fit"
        case _:
            return object.__repr__(part)
    return f"<{type(part).__name__} {told}>"


def _where(answer: Estimate) -> str:
    return f"{answer.job.model.name} on {answer.job.gpus} {answer.job.hardware.name}, {answer.runtime.name}"


def _figures(answer: Estimate) -> str:
    fits = "fits" if answer.feasible else "breaks a rule" if answer.violations else "does not fit"
    gib = f"{answer.peak / GIB:.1f} of {answer.capacity / GIB:.1f} GiB"
    return f"{significant(answer.step)} s/step, MFU {percent(answer.mfu)}, {gib}, {fits}"


def html(answer: Any) -> str:
    """Return an answer as a table: an estimate's figures and terms, a search's plans."""
    if isinstance(answer, SearchResult):
        rows = [_row(str(rank), plan) for rank, plan in enumerate(answer.plans[:MOST_ROWS], 1)]
        rows += [_row(name, plan) for name, plan in answer.baselines]
        return _table(short(answer)[1:-1], rows)
    one = answer.answer if isinstance(answer, Explanation) else answer
    terms = {words: getattr(one.time, name) for name, words in TIME_WORDS.items()}
    rows = [
        {"where the step goes": words, "s": significant(value), "share": percent(value / one.step)}
        for words, value in terms.items()
        if value > 1e-6 * one.step
    ]
    return _table(short(one)[1:-1], rows)


def _row(rank: str, answer: Estimate) -> dict[str, str]:
    return {
        "#": rank,
        "layout": layout(answer.plan),
        "s/step": significant(answer.step),
        "MFU": percent(answer.mfu),
        "GiB": f"{answer.peak / GIB:.1f}",
        "$/step": significant(answer.bill.usd_per_step),
    }


def _table(caption: str, rows: list[dict[str, str]]) -> str:
    """Return rows with the same keys as a table."""
    head = "".join(f"<th>{escape(name)}</th>" for name in rows[0]) if rows else ""
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row.values())}</tr>" for row in rows)
    inner = f"<caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    return f"<table>{inner}</table>"


def record(answer: Estimate | SearchResult | Explanation) -> Document:
    """Return an answer as the JSON document that the command of its name prints."""
    if isinstance(answer, Estimate):
        return whole_document(answer, {})
    return search_document(answer, {}) if isinstance(answer, SearchResult) else explain_document(answer)


show_with(short, html, record)
