"""The best plan after nodes are lost or come back, for people and programs."""

from __future__ import annotations

from typing import Final

from planner.report.as_json import Document, estimate_document, plain
from planner.report.layout import layout
from planner.report.page import Page, Table, significant
from planner.report.resume import moves_table, resume_document
from planner.search.nodes import Changed
from planner.units import percent

NODES: Final = "planner/goodput-nodes/1"


def nodes_page(told: Changed) -> Page:
    """Return the plan that goes on, what the change costs, and when waiting is better."""
    old, new = told.resume.old, told.new
    fewer = new.job.gpus < old.job.gpus
    among = f"of {old.job.gpus:,} accelerators" if fewer else f"accelerators, {old.job.gpus:,} before"
    head = f"{old.job.model.name} goes on with {layout(new.plan)} on {new.job.gpus:,} {among}"
    speed = old.step / new.step
    rows = tuple(
        {
            "": name,
            "layout": layout(one.plan),
            "gpus": f"{one.job.gpus:,}",
            "s/step": significant(one.step, 3),
        }
        for name, one in (("before", old), ("after", new))
    )
    minutes = significant(told.transition / 60, 3)
    lines = [f"{percent(speed)} of the speed before. The change takes about {minutes} min: a restart "
             "from the checkpoint in storage."]  # fmt: skip
    if fewer:
        lines.append(
            f"Waiting is better if the nodes are back within {significant(told.break_even / 60, 3)} min "
            f"(two changes against standing idle){_decided(told)}."
        )
        lines += in_place_lines(told)
    elif told.worthwhile is None:
        lines.append("It is no faster: stay as you are.")
    else:
        least = significant(told.worthwhile / 60, 3)
        lines.append(f"It pays where more than {least} min of training are left.")
    if told.resume.verdict.tool is not None:
        lines.append(f"First run {told.resume.verdict.tool}.")
    if told.best is not new and told.best.step < new.step:
        lines.append(
            f"{layout(told.best.plan)} takes {significant(told.best.step, 3)} s, but the checkpoint does not "
            "load under it; `planner resume` says why."
        )
    page: Page = [head + ".", Table(rows), "\n".join(lines)]
    return page if told.resume.move is None else [*page, moves_table(told.resume.move)]


def _decided(told: Changed) -> str:
    """Say what that means for the time that is known."""
    if told.waits is None or told.repair is None:
        return ""
    return f": wait {significant(told.repair / 60, 3)} min for them" if told.waits else ": go on"


def in_place_lines(told: Changed) -> list[str]:
    """Say what the old plan takes without the lost nodes, where a service keeps it going."""
    place = told.place
    if place is None:
        return []
    cut = "-".join(map(str, place.cut))
    moved = f", with layers cut again {cut} {significant(place.recut, 3)} s" if len(place.cut) > 1 else ""
    return [
        f"In place, without a restart: {significant(place.rerouted, 3)} s a step if other replicas take the "
        f"micro-batches{moved} (ElasWave, arXiv:2510.00606; no known runner has it)."
    ]


def nodes_document(told: Changed) -> Document:
    """Return the plan that goes on as JSON."""
    document: Document = plain(
        {
            "schema": NODES,
            "gpus_before": told.resume.old.job.gpus,
            "gpus": told.new.job.gpus,
            "speed": told.resume.old.step / told.new.step,
            "transition_s": told.transition,
            "waiting_better_below_s": told.break_even
            if told.new.job.gpus < told.resume.old.job.gpus
            else None,
            "pays_above_s": told.worthwhile if told.new.job.gpus >= told.resume.old.job.gpus else None,
            "waits": told.waits,
            "in_place": _place_record(told),
            "resume": resume_document(told.resume),
            "fastest": estimate_document(told.best, {}),
        }
    )
    return document


def _place_record(told: Changed) -> dict[str, object] | None:
    place = told.place
    if place is None:
        return None
    return {"rerouted_s": place.rerouted, "recut_s": place.recut, "layers": list(place.cut)}
