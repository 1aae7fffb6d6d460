"""Slow ranks for people and programs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Final

from planner.cost.stragglers import Straggling
from planner.report.as_json import Document, estimate_document, plain
from planner.report.layout import layout
from planner.report.page import Page, Table, significant
from planner.units import percent

STRAGGLERS: Final = "planner/stragglers/1"

SHOWN: Final = 4
"""Remedies of the table. [-]"""


def stragglers_page(told: Straggling) -> Page:
    """Return what slow ranks cost and whether redundancy pays."""
    answer, best = told.answer, told.best
    slower = percent(told.step / answer.step - 1)
    pays = (
        "No redundancy pays: waiting for all is best."
        if best is None
        else f"Redundancy that pays: {best.name}, {best.left} not waited for."
    )
    whole = significant(told.step, 4)
    head = (
        f"{layout(answer.plan)} on {answer.job.gpus:,}: {whole} s a step, {slower} more than with ranks all "
        f"alike, of {told.said}. {pays}"
    )
    rows = [("wait for all", 0, told.step, "yes")]
    rows += [(one.name, one.left, one.time, "yes" if one.exact else "no") for one in told.remedies[:SHOWN]]
    heads = ("way", "not waited for", "s of a whole batch", "same result")
    cells = [(name, str(left), significant(time, 4), same) for name, left, time, same in rows]
    table = Table(tuple(dict(zip(heads, row, strict=True)) for row in cells))
    lines = (
        "Times of ranks are drawn anew at each step, independently: a node that stays slow costs more, and "
        "no redundancy of this kind helps against it. Backup workers drop samples, so that results change; "
        "a gradient code computes the batch several times over; a sequential one (arXiv:2211.13802) less "
        "often, for several trainings at once whose ranks are slow in one of four steps at most. A "
        "distribution that was fitted to whole steps holds this waiting already."
    )
    return [head, table, lines]


def stragglers_document(told: Straggling) -> Document:
    """Return what slow ranks cost as JSON."""
    best = told.best
    document: Document = plain(
        {
            "schema": STRAGGLERS,
            "distribution": told.said,
            "replicas": told.replicas,
            "ranks_per_replica": told.parts,
            "step_time_s": told.answer.step,
            "expected_step_time_s": told.step,
            "remedy": None if best is None else asdict(best),
            "remedies": [asdict(one) for one in told.remedies],
            "estimate": estimate_document(told.answer, {}),
        }
    )
    return document
