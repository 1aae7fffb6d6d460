"""A search for people: ranked plans, baselines, what was removed and why, and how good the best is proved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from planner.calibrate.releases import label_of
from planner.cost.money import quote_of
from planner.report.estimate_page import adapter_lines, job_line, trust
from planner.report.layout import layout
from planner.report.page import Page, Table, counted, listed, significant, split_words
from planner.report.plan_columns import (
    LAYOUT,
    LIMITED,
    MFU,
    PEAK,
    RANK,
    STEP,
    TOKENS,
    dollars,
    named_layout,
    plan_record,
    ranked,
)
from planner.report.settings_line import settings_line
from planner.report.tied import ties
from planner.report.view import Column, View, figure
from planner.runtimes.offered import runtimes_with
from planner.search.earned import doubt_of
from planner.search.idle import AS_WELL
from planner.search.proof import proof_clause
from planner.search.request import SearchRequest
from planner.search.result import SearchResult
from planner.units import percent, rounded


def search_page(result: SearchResult, request: SearchRequest, defaults: Mapping[str, Any]) -> Page:
    """Return the page of a search."""
    lead = result.plans[0] if result.plans else None
    job, runtime = (lead.job, lead.runtime) if lead else next(request.jobs())
    page: Page = [job_line(job, runtime)]
    if lead is None:
        page += other_runtimes(request) or nothing_fits(result, request)
    else:
        page += [*idle_lines(result), *within_line(result, request), _plans(result, request)]
        tied = ties(result, request.objective, range(1, len(result.plans) + 1))
        told = [*(line.replace("Settings:", "Settings of plan 1:") for line in settings_line(lead)), *tied]
        page += [" ".join(told)] if told else []
        page += planless_lines(result, request)
        page += [*price_line(result), *_uneven(result), *adapter_lines(job.workload.method)]
    if result.baselines:
        page += ["Baselines:", _baselines(result)]
    page += [space_line(result, request), *optimality(result), *assignment(result)]
    page += [*trust(lead), *best_measured(result), *held_back(result)] if lead else []
    if defaults:
        page.append(f"Defaults used: {listed(defaults)}.")
    return page


def idle_lines(result: SearchResult) -> Page:
    """Return how many accelerators are left over, or that fewer would do."""
    lead, fewer = result.plans[0], result.fewer
    lines = []
    if lead.job.idle:
        asked, idle = lead.job.gpus + lead.job.idle, counted(lead.job.idle, "accelerator")
        stand = "sits" if lead.job.idle == 1 else "sit"
        lines = [f"{idle} {stand} idle: no plan that obeys all rules uses {asked:,}."]
    if fewer is not None:
        how = "are faster" if fewer.step < lead.step / AS_WELL else "do as well"
        lines.append(
            f"{fewer.gpus:,} of the {lead.job.gpus:,} accelerators {how}: "
            f"{significant(fewer.step)} s a step (--gpus {fewer.gpus})."
        )
    return [" ".join(lines)] if lines else []


def within_line(result: SearchResult, request: SearchRequest) -> Page:
    """Say how slow a plan of least memory may be."""
    seconds = result.optimality.get("within_s")
    if seconds is None:
        return []
    return [
        f"Least memory within {request.slowdown:g} times the fastest step, "
        f"{significant(float(str(seconds)))} s (change with --slowdown):"
    ]


def planless_lines(result: SearchResult, request: SearchRequest, most: int | None = None) -> list[str]:
    """Say which runtimes, clusters and counts that were asked for have no plan here, and why.

    With ``most``: at most so many, and none whose plans are only slower.
    """
    found = [one for one in result.planless if most is None or not one.fits]
    several_counts = len(request.gpu_counts) > 1
    told = []
    for one in found[:most]:
        where = [
            *([one.runtime] if len(request.runtimes) > 1 else []),
            *([f"{one.gpus:,}"] if several_counts else []),
            *([one.cluster] if len(request.clusters) > 1 or several_counts else []),
        ]
        told.append(f"{' '.join(where)} {one.why}")
    more = len(found) - len(told)
    return [f"{'; '.join(told)}{f'; {more} more with -v' if more else ''}."] if told else []


def best_measured(result: SearchResult) -> list[str]:
    """Return the best plan of measured kinds, where the first is of another, and runs like it have a band."""
    if (other := result.measured) is None or other.error_band is None:
        return []
    seconds, times = significant(other.step, 3), other.step / result.plans[0].step
    return [f"Best plan backed by measured runs: {layout(other.plan)}, {seconds} s ({times:.2f}x)."]


def held_back(result: SearchResult) -> list[str]:
    """Return which plan is better on paper than the first, by less than the doubt about its kind."""
    for other in result.on_paper[:1]:
        doubt, kinds = doubt_of(other)
        gain = rounded(1.0 - other.step / result.plans[0].step)
        return [
            f"Faster on paper by {gain}: {layout(other.plan)}, {significant(other.step, 3)} s; no measured "
            f"run there has {' or '.join(kinds)}, which adds {rounded(doubt)} of doubt."
        ]
    return []


def several(request: SearchRequest) -> bool:
    """Return whether plans of several clusters or counts are ranked together."""
    return len(request.clusters) * len(request.gpu_counts) > 1


def peak_of(records: Sequence[Any]) -> Column:
    """Return the column of memory, with that of the device in its heading where all have the same."""
    sizes = {f"{row['capacity_gib']:.1f}" for row in records}
    return PEAK.called(f"GiB of {sizes.pop()}") if len(sizes) == 1 else PEAK


def _plans(result: SearchResult, request: SearchRequest) -> Table:
    rows = ranked(result.plans)
    many = several(request)
    layouts, peak = named_layout(many, len(request.runtimes) > 1), PEAK if many else peak_of(rows)
    return View([RANK, layouts, STEP, TOKENS, MFU, peak, *dollars(rows), LIMITED], rows).table()


def price_line(result: SearchResult) -> Page:
    """Return the rates that dollars are counted by; a star marks those that are not the cluster's own."""
    clusters = {answer.job.hardware.name: answer.job.hardware.pool for answer in result.plans}
    quotes = {name: quote for name, pool in clusters.items() if (quote := quote_of(pool)) is not None}
    if not quotes:
        return []
    told = "; ".join(
        f"{'* ' if quote.lent else ''}{name + ' ' if len(clusters) > 1 else ''}{quote.text}"
        for name, quote in quotes.items()
    )
    return [f"Dollars for an accelerator: {told}."]


def _uneven(result: SearchResult) -> Page:
    lines = [
        f"Layers of plan {rank}: {split_words(answer.plan.split_text)}"
        for rank, answer in enumerate(result.plans, 1)
        if answer.plan.stage_layers is not None and len(set(answer.plan.stage_layers)) > 1
    ]
    return ["\n".join(lines)] if lines else []


BASELINE: Final = (
    Column("baseline", "", "name", lambda row: row["name"].replace("-", " ")),
    LAYOUT, STEP, PEAK, figure("verdict", "verdict", "", str),
)  # fmt: skip
"""What one would do without a search, beside the best plan."""


def baseline_verdict(row: Mapping[str, Any], best: float | None) -> str:
    """Return what stands against a baseline, or how much slower than the best it is."""
    if row.get("left_out") or not row["feasible"]:
        return str(row.get("left_out") or "does not fit")
    return "fits" if best is None else f"{row['step_time_s'] / best:.2f} times the best"


def _baselines(result: SearchResult) -> Table:
    best = result.plans[0].step if result.plans else None
    reasons = result.left_out or (None,) * len(result.baselines)
    rows = [
        {"name": name} | plan_record(answer) | {"left_out": reason}
        for (name, answer), reason in zip(result.baselines, reasons, strict=True)
    ]
    return View(BASELINE, [row | {"verdict": baseline_verdict(row, best)} for row in rows]).table()


def nothing_fits(result: SearchResult, request: SearchRequest | None = None) -> Page:
    """Return what would fit, in words; of which runtime and cluster, where the request has several."""
    nearest = result.nearest or {}
    of_runtime = f" of {nearest.get('runtime')}" if request and len(request.runtimes) > 1 else ""
    on_cluster = f" on {nearest.get('cluster')}" if request and len(request.clusters) > 1 else ""
    if not result.valid:
        lines = untrainable(nearest.get("breaks")) or [
            "No plan is legal.",
            *least_broken(nearest.get("breaks")),
        ]
    else:
        lines = ["No plan fits."]
    if nearest.get("peak_gib") is not None:
        lines.append(
            f"The smallest{of_runtime}{on_cluster} needs {nearest['peak_gib']:.1f} GiB per accelerator, "
            f"{_missing(nearest['missing_gib'])}."
        )
    remedies: Any = nearest.get("remedies") or ()
    as_row = any(str(one["change"]).startswith("--gpus ") for one in remedies)
    if nearest.get("gpus") and not as_row:
        lines.append(f"With {counted(int(str(nearest['gpus'])), 'accelerator')}{on_cluster} a plan fits.")
    changes = nearest.get("changes") or []
    table = remedy_table(remedies, "fit" if result.valid else "run")
    if isinstance(changes, list) and changes and not table:
        lines.append(f"One change after which a plan fits: {'; or '.join(map(str, changes))}.")
    if isinstance(nearest.get("split"), Mapping):
        lines.append(f"However its layers are split, {shortfall(nearest['split'])}.")
    return [" ".join(lines), *table]


def remedy_table(remedies: Any, want: str = "fit") -> Page:
    """Return the single changes after which a plan fits, each with its memory and price."""
    rows = tuple(
        {
            "change": str(one["change"]),
            "saves GiB": significant(one.get("saves_gib"), 3),
            "needs GiB": significant(one.get("peak_gib"), 3),
            "s/step, at most": significant(one.get("step_time_s"), 3),
            "$/step": significant(one.get("usd_per_step"), 3),
        }
        for one in remedies or ()
    )
    return [f"Any one of these changes makes it {want}:", Table(rows)] if rows else []


def untrainable(breaks: Any) -> list[str]:
    """Return what keeps a runtime from training the model in any layout, and which ones do, in words."""
    if not breaks or not breaks.get("model"):
        return []
    able = [f"--runtime {name}" for name in breaks["able"]]
    others = f"Ask for {' or '.join(able)}." if able else "No other runtime here can either."
    if alone := [f"--runtime {name}" for name in breaks.get("able_alone", ())]:
        others += f" Without its encoder (planner models import --text-only) {' or '.join(alone)} can."
    return [f"{breaks['title']} cannot train this model: {breaks['model']}.", others]


def least_broken(breaks: Any) -> list[str]:
    """Return what the plan that breaks the fewest rules breaks, in words."""
    if not breaks or not breaks["rules"]:
        return []
    faults = "; ".join(
        f"{fault['rule']}: {fault['found']}, expected {fault['expected']}"
        + (f" (nearest: {fault['nearest']})" if fault["nearest"] else "")
        for fault in breaks["rules"]
    )
    return [f"The one that breaks the fewest rules, {breaks['plan']}, breaks {faults}."]


def other_runtimes(request: SearchRequest) -> Page:
    """Return which runtimes train as is asked, where none of those searched does."""
    method = request.workload.method
    if any(method in runtime.methods for runtime in request.runtimes):
        return []
    names = ", ".join(label_of(runtime) for runtime in request.runtimes)
    return [
        f"No plan of {names} has method {method}; nearest: {' or '.join(runtimes_with('method', method))}."
    ]


def shortfall(missing: Any) -> str:
    """Return on which stage a plan does not fit, and what it would need there."""
    return (
        f"{missing['plan']} needs at least {missing['needs_gib']:.1f} GiB on stage {missing['stage']}, "
        f"where {missing['has_gib']:.1f} may be used"
    )


def _missing(gib: object) -> str:
    amount = float(str(gib))
    return f"{amount:.1f} more than it has" if amount > 0 else "too close to what it has"


def space_line(result: SearchResult, request: SearchRequest) -> str:
    """Return how many plans there were, how many are left, and which rules removed the others."""
    risk, slow = percent(request.oom_risk, 0), result.valid - result.priced
    ruled = f". A bound rules out {slow:,} of these as too slow; of the rest" if slow else " and"
    close = f"; {result.close:,} of those are left out: their risk of running out of memory exceeds {risk}"
    removed = ", ".join(f"{rule} {count:,}" for rule, count in result.removed.items())
    return (
        f"Of {result.enumerated:,} combinations, {result.valid:,} obey all rules{ruled} {result.fits:,} fit"
        f"{close if result.close else ''}. Removed by rule: {removed or 'none'}."
    )


def assignment(result: SearchResult) -> Page:
    """Return how much was refined and solved, what it gained over the uniform plan, and what was dropped."""
    if not result.plans and not isinstance(result.optimality.get("solver"), Mapping):
        return []
    return ["\n".join(assignment_lines(result.optimality))]


def assignment_lines(optimality: Mapping[str, Any]) -> list[str]:
    """Return how many candidates were refined, and on a line of its own what assignment gained."""
    told = optimality.get("solver")
    lines = [f"Candidates refined: {optimality.get('refined')}."]
    if isinstance(told, Mapping):
        came = [_gain(told)] if told["gain"] else []
        came += [f"{told['note']}."] if told["note"] else []
        lines += [" ".join(came)] if came else []
    return lines


def _gain(told: Mapping[str, Any]) -> str:
    saved, uniform = percent(told["gain"], 2), significant(told["uniform_step_s"])
    line = f"Assigning layers and recompute saves {saved} of the best uniform plan's {uniform} s"
    if told["gain_is_within_error"]:
        line += "; that is smaller than what the model can tell"
    return f"{line}."


def optimality(result: SearchResult) -> Page:
    """Return how good the best plan is proved to be."""
    return [proof(result.optimality)] if result.plans else []


def proof(told: Mapping[str, Any]) -> str:
    """Say how good the best plan is proved to be, and over which space."""
    clause = told.get("proof") or proof_clause("", told["gap"])
    return f"By this model, {clause}. The space: {told['over']}.{played_floor(told)}"


def played_floor(told: Mapping[str, Any]) -> str:
    """Say what steps take at least when played, where that is less than the model's bound."""
    least = told.get("played_bound_s")
    if least is None or least >= told["bound_s"]:
        return ""
    return f" Played event by event, every refined plan takes at least {significant(least)} s."
