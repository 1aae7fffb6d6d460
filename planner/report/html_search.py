"""The report of a search, from the JSON that it printed: plans, Pareto front, terms, memory, the space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from planner.errors import InputError, Problem
from planner.report.as_json import SEARCH, Document
from planner.report.document import check_search
from planner.report.flat import flat_document
from planner.report.html import Cell, HtmlBlock, HtmlPage, footer, number, plot, table
from planner.report.html_figures import Point, memory_figure, pareto_figure, terms_figure
from planner.report.layout import layout_of
from planner.report.page import listed
from planner.report.plan_columns import (
    BAND,
    HFU,
    LAYOUT,
    LIMITED,
    MFU,
    PEAK,
    RANK,
    RISK,
    RUNTIME,
    SETTINGS,
    STEP,
    TOKENS,
    WHERE,
    dollars,
)
from planner.report.search_page import BASELINE, assignment_lines, baseline_verdict, peak_of, proof, shortfall
from planner.report.view import View
from planner.units import percent, rounded

Found = Mapping[str, Any]


def search_report(document: Document, where: str, version: str) -> HtmlPage:
    """Return the page of a search.

    Raises `InputError` if the document is not one that ``search`` printed; ``where`` names its file.
    """
    if document.get("schema") != SEARCH:
        found = f"schema {document['schema']!r}" if "schema" in document else "no schema"
        raise InputError(Problem(where, found, f"{SEARCH}, as `planner search` prints it"))
    check_search(document, where)
    try:
        return _page(document, version)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        told = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise InputError(Problem(where, told, "the whole document that `planner search` printed")) from None


def _page(document: Document, version: str) -> HtmlPage:
    plans, baselines = (
        document["plans"],
        [row for row in document["baselines"] if row["step_time_s"] is not None],
    )
    lead = (plans or baselines or [None])[0]
    blocks: list[HtmlBlock] = []
    title = "Nothing fits"
    if lead is not None:
        cluster = lead["hardware"]
        title = f"{lead['model']['name']} on {cluster['gpus']:,} accelerators of {cluster['name']}"
        blocks += [HtmlBlock("text", lines=(_job(lead), *([] if plans else _outcome(document))))]
    if plans:
        blocks += [HtmlBlock("tiles", rows=tuple(_tiles(plans[0]))), _ranked(plans)]
        blocks += [HtmlBlock("text", lines=tuple(_outcome(document)))]
    if lead is not None:
        named = [(f"{rank}. {layout_of(plan['plan'])}", plan) for rank, plan in enumerate(plans, 1)]
        named += [(row["name"].replace("-", " "), row) for row in baselines]
        terms = terms_figure([name for name, _ in named], [row["time_s"] for _, row in named])
        memory = memory_figure(lead["memory"]["stages"], lead["memory"]["capacity_gib"])
        blocks += [
            _pareto(plans, baselines, document.get("front") or []),
            plot("terms", "Where the steps go", terms),
            plot("memory", f"Memory of {layout_of(lead['plan'])}", memory),
            _baselines(baselines, plans),
        ]
    blocks += [_space(document), _trust(lead)]
    return HtmlPage(title, tuple(blocks), footer(version))


def words(row: Found) -> str:
    """Return the plan of a document in short words."""
    return layout_of(row["plan"])


def _job(row: Found) -> str:
    work, model = row["workload"], row["model"]
    return (
        f"{model['name']}, {model['params'] / 1e9:.4g} B parameters, {work['global_batch']:,} sequences of "
        f"{work['seq_len']:,} tokens, {work['precision']}, {work['optimizer']}, {work['method']}; "
        f"{row['runtime']}."
    )


def _outcome(document: Document) -> list[str]:
    told, nearest = document["optimality"], document["nearest"] or {}
    if not document["plans"]:
        changes = "; or ".join(map(str, nearest.get("changes") or []))
        more = f" With {nearest['gpus']:,} accelerators a plan fits." if nearest.get("gpus") else ""
        if changes:
            more += f" One change after which a plan fits: {changes}."
        if nearest.get("split"):
            more += f" However its layers are split, {shortfall(nearest['split'])}."
        return [f"No plan fits.{more}", *(assignment_lines(told) if told["solver"] else ())]
    without = [
        f"{one['runtime']} on {one['gpus']:,} of {one['cluster']} {one['why']}."
        for one in document.get("planless") or ()
    ]
    return [*without, proof(told), *assignment_lines(told)]


def _tiles(best: Found) -> list[tuple[str, str]]:
    figures = (STEP, TOKENS, MFU, PEAK, RISK, BAND)
    return [("best layout", words(best)), *(one.item(flat_document(best)) for one in figures)]


def _ranked(plans: list[Found]) -> HtmlBlock:
    """Return the ranked plans; settings that all of them share stand in the note."""
    rows = [{"rank": str(rank)} | flat_document(row) for rank, row in enumerate(plans, 1)]
    rows, shared = own_settings(rows)
    runtimes = {(row["runtime"], row.get("release")) for row in rows}
    columns = [RANK, LAYOUT, *[RUNTIME] * (len(runtimes) > 1), WHERE, STEP, TOKENS, MFU, HFU, peak_of(rows),
               RISK, *dollars(rows), LIMITED, *[SETTINGS] * any(row["settings"] for row in rows)]  # fmt: skip
    common = f" All plans: {', '.join(shared)}." if shared else ""
    return View(columns, rows).block("Plans", f"Click a heading to sort.{common}")


def own_settings(rows: Sequence[Found]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return plans with only the settings in which they differ, and the settings that all share."""
    each = [dict.fromkeys((row["settings"] or "").split()) for row in rows]
    shared = [setting for setting in each[0] if all(setting in own for own in each)] if len(each) > 1 else []
    left = [" ".join(setting for setting in own if setting not in shared) for own in each]
    return [{**row, "settings": own} for row, own in zip(rows, left, strict=True)], shared


def _pareto(plans: list[Found], baselines: list[Found], front: list[Found]) -> HtmlBlock:
    groups: dict[str, list[Point]] = {
        "plans": [(words(row), row["step_time_s"], row["memory"]["peak_gib"]) for row in plans],
        "fastest at a limit": [(words(row), row["step_time_s"], row["peak_gib"]) for row in front],
        "baselines that fit": [_point(row) for row in baselines if row["feasible"]],
        "baselines that do not": [_point(row) for row in baselines if not row["feasible"]],
    }
    capacity = (plans or baselines)[0]["memory"]["capacity_gib"]
    note = (
        "The front is that of the fastest plan at each of several limits of memory."
        if front
        else "Only the plans that the search returned; with --front 8 it finds the whole front."
    )
    return plot(
        "pareto", "Time and memory", pareto_figure({k: v for k, v in groups.items() if v}, capacity), note
    )


def _point(row: Found) -> Point:
    return f"{row['name']}: {layout_of(row['plan'])}", row["step_time_s"], row["memory"]["peak_gib"]


def _baselines(baselines: list[Found], plans: list[Found]) -> HtmlBlock:
    best = plans[0]["step_time_s"] if plans else None
    rows = [flat_document(row) | {"verdict": baseline_verdict(row, best)} for row in baselines]
    return View(BASELINE, rows).block("Baselines")


def _space(document: Document) -> HtmlBlock:
    space = document["space"]
    note = (
        f"Of {space['enumerated']:,} combinations, {space['valid']:,} obey all rules and "
        f"{space['fits']:,} fit; searched in {document['elapsed_s']:.2f} s."
    )
    rows = [(Cell(rule), number(count, f"{count:,}")) for rule, count in space["removed"].items()]
    return table("What the rules removed", ("rule", "combinations"), rows, note)


def _trust(lead: Found | None) -> HtmlBlock:
    lines = []
    if lead is not None:
        band = lead["error_band"]
        lines.append(
            "Error band: none, this runtime was never validated on this accelerator against measured runs."
            if band is None
            else f"Error band: ± {rounded(band)}, from {lead.get('error_band_basis') or 'measured runs'}."
        )
        if lead["extrapolated_share"] > 0:
            share = percent(lead["extrapolated_share"])
            lines.append(f"{share} of the step lies outside the range of the kernel curves.")
        lines.append(
            f"Defaults used: {listed(lead['defaults'])}." if lead["defaults"] else "Everything was given."
        )
    return HtmlBlock("list", "How far to trust this", lines=tuple(lines))
