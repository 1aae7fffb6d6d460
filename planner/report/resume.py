"""Whether and how a job goes on under another plan, for people and programs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Final

from planner.cost.resume import Resume
from planner.cost.traffic.migration import Move
from planner.report.as_json import Document, estimate_document, plain
from planner.report.layout import layout
from planner.report.page import Page, Table, significant
from planner.units import GB, percent

RESUME: Final = "planner/resume/1"


def resume_page(told: Resume) -> Page:
    """Return whether and how a job goes on, for people."""
    said = told.verdict
    head = "The checkpoint loads" if said.loads else "The checkpoint does not load"
    sides = [f"{layout(one.plan)} on {one.job.gpus:,}" for one in (told.old, told.new)]
    head += f": {sides[0]} to {sides[1]}."
    lines = [
        f"{one.rule}: {one.found}; expected {one.expected}; nearest: {one.nearest}" for one in said.faults
    ]
    if said.loads:
        lines.append(
            f"First run {said.tool}." if said.tool else f"{told.new.runtime.title} loads it as it is."
        )
    page: Page = [head, "\n".join([*lines, *said.notes])]
    if told.move is not None:
        page.append(moves_table(told.move))
        page.append("\n".join(_times(told)))
    return page


def moves_table(move: Move) -> Table:
    """Return where the state of all ranks comes from."""
    names = (
        "already in place",
        "from the same node",
        "from other nodes",
        "from storage: no rank holds it",
    )
    sums = move.parts.sum(axis=0)
    rows = []
    for name, total, most in zip(names, sums, move.parts.max(axis=0), strict=True):
        if not total:
            continue
        rows.append(
            {
                "state of all ranks": name,
                "GB": significant(float(total) / GB, 4),
                "share": percent(float(total) / float(sums.sum())),
                "most on one rank, GB": significant(float(most) / GB, 3),
            }
        )
    return Table(tuple(rows))


def _times(told: Resume) -> list[str]:
    lines = []
    if told.direct_seconds is not None:
        lines.append(
            f"From rank to rank {significant(told.direct_seconds, 3)} s at the links' rates, nodes numbered "
            "so that most stays in place; no runtime here does this on its own."
        )
    if told.storage_seconds is not None:
        size, seconds = significant(told.state_bytes / GB, 4), significant(told.storage_seconds, 3)
        converted = ", converted before" if told.verdict.converts else ""
        lines.append(f"Through storage {seconds} s for {size} GB{converted}.")
    else:
        lines.append("Give --storage RATE for the time through storage.")
    return lines


def resume_document(told: Resume) -> Document:
    """Return whether and how a job goes on as JSON."""
    said, move = told.verdict, told.move
    sums = None if move is None else [float(total) for total in move.parts.sum(axis=0)]
    names = ("in_place_bytes", "same_node_bytes", "other_nodes_bytes", "storage_bytes")
    document: Document = plain(
        {
            "schema": RESUME,
            "loads": said.loads,
            "faults": [asdict(one) for one in said.faults],
            "tool": said.tool,
            "notes": list(said.notes),
            "checkpoint_bytes": told.state_bytes,
            "moves": None if sums is None else dict(zip(names, sums, strict=True)),
            "numbering": None if move is None else [int(seat) for seat in move.seats],
            "direct_s": told.direct_seconds,
            "through_storage_s": told.storage_seconds,
            "old": estimate_document(told.old, {}),
            "new": estimate_document(told.new, {}),
        }
    )
    return document
