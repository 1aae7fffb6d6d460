"""A sweep for people: the best of each model and cluster, the front, answers, and what does not fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import Any, Final

from planner.plan import Plan
from planner.report.layout import layout
from planner.report.page import Page, Table, significant
from planner.sweep.front import OBJECTIVES, best_rows, dollars, grouped, hours, pareto_rows
from planner.sweep.questions.family import Reply, SweepQuestion
from planner.sweep.row import FAILED, NOTHING_FITS, REFUSED, Row, SweepOutcome, counts
from planner.sweep.run import Sweep
from planner.units import percent

HEADS: Final = {"models": "model", "hardware": "cluster", "seq_len": "seq len", "global_batch": "batch"}
HOURS: Final = "h/B tokens"

Asked = Mapping[SweepQuestion, float]
"""Questions with their limits."""


def sweep_page(sweep: Sweep, varying: Sequence[str], asked: Asked) -> Page:
    """Return the page of a sweep.

    ``varying``: axes with more than one value.
    """
    rows = sweep.rows
    page: Page = [_head(sweep)]
    for question, limit in asked.items():
        page += [question.title(limit), Table(_answers(question.replies(rows, varying, limit)))]
    if best := best_rows(rows):
        page += [_best_title(rows), _figures(best, varying)]
    front = pareto_rows(rows)
    if set(map(id, front)) != set(map(id, best)):
        title = "Pareto front of time and cost per token and of memory, for each model and method:"
        page += [title, _figures(front, varying)]
    page += _without(rows, NOTHING_FITS, "Nothing fits:", partial(_would_fit, varying))
    page += _without(rows, REFUSED, "Values that do not go together:", partial(_reasons, varying))
    page += _without(rows, FAILED, "Failed, and searched again by the next run:", partial(_reasons, varying))
    return page


def _head(sweep: Sweep) -> str:
    number = counts(sweep.rows)
    told = [f"{number['fits']:,} fit", f"{number[NOTHING_FITS]:,} do not"]
    told += [f"{number[status]:,} {status}" for status in (REFUSED, FAILED) if number[status]]
    skipped = f"; {sweep.skipped:,} were there and are skipped" if sweep.skipped else ""
    cases = "1 case" if len(sweep.rows) == 1 else f"{len(sweep.rows):,} cases"
    return f"{cases}: {', '.join(told)}{skipped}."


def _best_title(rows: Sequence[Row]) -> str:
    goals = {str(row.case.get("objective") or "time").lower() for row in rows}
    word = next(iter(OBJECTIVES.keys() & goals)) if len(goals) == 1 else "the objective"
    share = "" if word == "memory" else " per token"
    return f"Best of each model on each cluster, by {word}{share}:"


def _settings(row: Row, varying: Sequence[str]) -> dict[str, str]:
    names = dict.fromkeys(("models", "hardware", *varying))
    return {HEADS.get(name, name.replace("_", " ")): row.case.get(name) or "any" for name in names}


def _figures(rows: Sequence[Row], varying: Sequence[str]) -> Table:
    axes = [name for name in varying if name != "gpus"]
    whole = all(row.best["days_to_train"] is not None for row in rows)
    bill = _bill_to_train if whole else _bill_by_token
    return Table(
        tuple(
            _settings(row, axes)
            | {HEADS["hardware"]: f"{row.best['gpus']} {row.case['hardware']}"}
            | {"layout": layout(_plan(row.best)), "MFU": percent(row.best["mfu"])}
            | {"GiB": f"{row.best['peak_gib']:.1f}"}
            | bill(row.best)
            for row in rows
        )
    )


def _bill_to_train(best: Mapping[str, Any]) -> dict[str, str]:
    return {
        "days": significant(best["days_to_train"], 3),
        "$ to train": significant(best["cost_usd_to_train"], 3),
    }


def _bill_by_token(best: Mapping[str, Any]) -> dict[str, str]:
    return {
        HOURS: significant(hours(best), 3),
        "$/B tokens": significant(_known(dollars(best)), 3),
    }


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _plan(best: Mapping[str, Any]) -> Plan:
    """Return the plan of a row, but for the split of its layers."""
    apart = {"stage_layers", "prediction_apart", "num_microbatches"}
    return Plan(**{field.name: best[field.name] for field in fields(Plan) if field.name not in apart})


def _answers(replies: Sequence[Reply]) -> tuple[dict[str, str], ...]:
    heads = {
        "days_to_train": "days",
        "cost_usd_to_train": "$ to train",
        "peak_gib": "GiB",
        "hours_per_billion_tokens": HOURS,
    }
    noted = any(reply["note"] for reply in replies)
    return tuple(
        {
            (HEADS | heads).get(name, name.replace("_", " ")): _word(value)
            for name, value in reply.items()
            if noted or name != "note"
        }
        for reply in replies
    )


def _word(value: Any) -> str:
    if isinstance(value, float):
        return significant(value, 3)
    return "-" if value is None else str(value)


def _without(
    rows: Sequence[Row], status: str, title: str, told: Callable[[list[Row]], list[dict[str, str]]]
) -> Page:
    found = [row for row in rows if row.outcome.status == status]
    return [title, Table(tuple(told(found)))] if found else []


def _would_fit(varying: Sequence[str], rows: list[Row]) -> list[dict[str, str]]:
    return [_settings(row, varying) | _ways(row.outcome) for row in rows]


def _ways(outcome: SweepOutcome) -> dict[str, str]:
    nearest, space = outcome.nearest or {}, outcome.space or {}
    if space.get("valid") == 0:
        return {"GiB missing": "-", "would fit": f"no plan obeys all rules: {', '.join(space['removed'])}"}
    gpus, missing = nearest.get("gpus"), nearest.get("missing_gib")
    ways = [f"{gpus:,} accelerators"] if gpus else []
    return {
        "GiB missing": significant(missing, 3) if missing is None or missing > 0 else "too close",
        "would fit": "; or ".join([*ways, *(nearest.get("changes") or ())]) or "nothing that was tried",
    }


def _reasons(varying: Sequence[str], rows: list[Row]) -> list[dict[str, str]]:
    """Return one line for each reason, with the settings that all its cases share."""
    lines = []
    for reason, group in grouped(rows, lambda row: row.outcome.reason or "").items():
        shared = set(_settings(group[0], varying).items())
        for row in group[1:]:
            shared &= _settings(row, varying).items()
        words = [value for value in _settings(group[0], varying).items() if value in shared]
        told = ", ".join(f"{name} {value}" for name, value in words)
        lines.append({"cases": f"{len(group)}", "of": told or "the grid", "why": reason})
    return lines
