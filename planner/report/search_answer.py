"""A search on one screen: the best layouts, what limits the first, baselines, proof, band and defaults."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from textwrap import wrap
from typing import Any, Final

from planner.calibrate.releases import title_of
from planner.cost.estimate import Estimate
from planner.cost.money import quote_of
from planner.report.estimate_page import short_trust
from planner.report.layout import layout
from planner.report.limits import limits_said
from planner.report.page import Page, Table, counted, short_defaults, significant, split_words
from planner.report.plan_columns import MFU, PEAK, RANK, STEP_BANDED, dollars, named_layout, ranked
from planner.report.search_page import (
    best_measured,
    held_back,
    idle_lines,
    nothing_fits,
    other_runtimes,
    planless_lines,
    several,
    within_line,
)
from planner.report.settings_line import settings_line
from planner.report.tied import ties
from planner.report.unproven import unproven
from planner.report.view import View
from planner.search.meshes import choice_of
from planner.search.request import SearchRequest
from planner.search.result import SearchResult

LINES: Final = 24
"""Lines of a screen. [-]"""

AIM: Final = 20
"""Lines of a page that leaves room for notes and the prompt. [-]"""

WIDTH: Final = 80
"""Letters of its lines. [-]"""

FEWEST: Final = 2
"""Plans that are shown at least. [-]"""

FEW: Final = 3
"""Plans for which a page may be longer than ``AIM``. [-]"""

GAP: Final = 2
"""Letters between two columns. [-]"""


def search_answer(
    result: SearchResult, request: SearchRequest, defaults: Mapping[str, Any], rows: int | None = None
) -> Page:
    """Return a search as a page of about 20 lines of 80 columns, at most 24.

    ``defaults``: what was taken because nothing was given; neither they nor hints are told where it is empty;
    ``rows``: plans to show; as many as leave the page on one screen if not given.
    """
    if not result.plans:
        told = other_runtimes(request) or nothing_fits(result, request)
        return [_head(result, request), *told, *short_defaults(defaults)]
    lead = result.plans[0]
    table, above = _table(result, request), [*idle_lines(result), *within_line(result, request)]
    method = lead.job.workload.method
    frozen = ["MFU counts frozen weights at two thirds."] if method != "full" else []
    lines = [
        _lead(result, request, range(1, len(result.plans) + 1)),
        *planless_lines(result, request, FEWEST),
        *_baselines(result, several_runtimes=len(request.runtimes) > 1),
        _proof(result),
        *short_trust(lead),
        _doubts(result),
        " ".join([*short_prices(result.plans), *frozen]),
        *short_defaults(defaults),
    ]
    lines = [line for line in lines if line]
    head, hint = _head(result, request), [_next(lead)] if defaults else []
    beside = sum(1 + screen_lines(part) for part in (head, *above)) + 2
    taken = beside + sum(map(screen_lines, [*lines, *hint]))
    first = {
        (choice_of(plan), plan.runtime.name): place for place, plan in reversed([*enumerate(result.plans)])
    }
    order = sorted(range(len(result.plans)), key=lambda place: (place not in first.values(), place))
    table = Table(tuple(table.rows[place] for place in order))
    fewest, most = max(FEWEST, len(first)), on_one_screen(table, LINES - taken)
    beyond = on_one_screen(table, LINES - taken, fewest) > most
    if beyond:
        lines = [line for line in lines if not line.startswith("Baselines")]
        fewest = on_one_screen(table, LINES - beside - sum(map(screen_lines, [*lines, *hint])))
    count = rows or max(on_one_screen(table, AIM - taken, fewest), min(FEW, most))
    kept = sorted(table.rows[:count], key=lambda row: int(row["#"]))
    lines[0] = _lead(result, request, [int(row["#"]) for row in kept])
    table = Table(tuple({**row, "#": str(place)} for place, row in enumerate(kept, 1)))
    return [head, *above, table, "\n".join([*lines, *hint])]


def _lead(result: SearchResult, request: SearchRequest, shown: Iterable[int]) -> str:
    """Return what limits the first plan, its settings, and which rows, of so many ranks, tie with it."""
    tied = ties(result, request.objective, shown)
    return " ".join([*_first(result), *settings_line(result.plans[0]), *tied])


def screen_lines(part: str | Table) -> int:
    """Lines that a part of a page takes on a screen."""
    if isinstance(part, Table):
        return 1 + len(part.rows)
    return sum(max(1, len(wrap(line, WIDTH))) for line in part.splitlines())


def on_one_screen(table: Table, room: int, fewest: int = FEWEST) -> int:
    """Return how many plans fit into so many lines, ``fewest`` at least; one of many words takes two."""
    rows = table.rows
    others = [name for name in (rows[0] if rows else ()) if name != "layout"]
    lines = int(any(" " in name for name in others))
    short = WIDTH - sum(GAP + max(len(name), *(len(row[name]) for row in rows)) for name in others)
    for shown, row in enumerate(table.rows):
        lines += 1 + (len(row["layout"]) > short)
        if lines > room and shown >= fewest:
            return shown
    return len(table.rows)


def _head(result: SearchResult, request: SearchRequest) -> str:
    """Return model, accelerators and workload in one line."""
    job, runtime = (result.plans[0].job, result.plans[0].runtime) if result.plans else next(request.jobs())
    work, pool = job.workload, job.hardware.pool
    where = "" if several(request) else f" on {job.gpus:,} {pool.accelerator.name} ({job.hardware.name})"
    who = f", {title_of(runtime)}" if len(request.runtimes) == 1 else ""
    how = [work.precision, *([work.method] if work.method != "full" else [])]
    return (
        f"{job.model.name} ({job.model.params / 1e9:.3g} B){where}{who}; "
        f"{counted(work.global_batch, 'sequence')} of {work.seq_len:,} tokens, {' '.join(how)}"
    )


def _table(result: SearchResult, request: SearchRequest) -> Table:
    rows, many = ranked(result.plans), several(request)
    peak = PEAK if many else PEAK.called(f"GiB/{rows[0]['capacity_gib']:.0f}")
    layouts = named_layout(many, len(request.runtimes) > 1)
    return View([RANK, layouts, STEP_BANDED, MFU, peak, *dollars(rows, 3)], rows).table()


def _first(result: SearchResult) -> list[str]:
    """Return the layers of the best plan's stages, and what limits it."""
    lead = result.plans[0]
    split = lead.plan.stage_layers
    uneven = split is not None and len(set(split)) > 1
    layers = f" has layers {split_words(lead.plan.split_text)} and" if uneven else ""
    return [f"Plan 1{layers} is limited by {limits_said(lead)}."]


def _baselines(result: SearchResult, several_runtimes: bool) -> list[str]:
    """Return what one would do without a search."""
    best = result.plans[0].step
    reasons = result.left_out or (None,) * len(result.baselines)
    told = [
        f"{name.replace('-', ' ')} "
        + (reason or f"{significant(answer.step, 3)} s ({answer.step / best:.2f}x)")
        for (name, answer), reason in zip(result.baselines, reasons, strict=True)
    ]
    who = f" ({result.baselines[0][1].runtime.name})" if told and several_runtimes else ""
    return [f"Baselines{who}: {', '.join(told)}."] if told else []


def _proof(result: SearchResult) -> str:
    """Return of how many plans the best is, and how good it is proved to be."""
    proof = str(result.optimality["proof"]).replace("no plan in this space that fits", "none that fits")
    return f"Of {result.valid:,} legal plans, {proof} by this model."


def _doubts(result: SearchResult) -> str:
    """Return what no measured run stands behind, and the best plan that runs do."""
    return " ".join([*unproven(result.plans[0]), *best_measured(result), *held_back(result)])


def short_prices(answers: Iterable[Estimate]) -> list[str]:
    """Return whose prices dollars are counted by, if they are not the cluster's own."""
    quotes = {quote_of(answer.job.hardware.pool) for answer in answers}
    lent = sorted(
        {f"{one.seller} {one.usd_per_hour:g} USD ({one.day})" for one in quotes if one and one.lent}
    )
    return [f"* another seller's price per accelerator-hour: {', '.join(lent)}."] if lent else []


def _next(lead: Estimate) -> str:
    """Return what says more, what writes files, by known libraries too, and what explains words."""
    model, word = lead.job.model, layout(lead.plan).split()[0].rstrip("0123456789")
    if lead.job.workload.method != "full" or lead.runtime.unwritten(model):
        return "Next: -v for all of it; --target trl --emit DIR for files."
    unwritten = model.diffusion is not None and lead.runtime.command is None
    files = "" if unwritten else " --emit DIR for files;"
    return f"Next: -v for all of it;{files} `planner glossary {word}` for a word."
