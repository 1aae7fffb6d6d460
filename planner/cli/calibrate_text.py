"""What ``planner calibrate`` has found, as paragraphs and tables for people."""

from __future__ import annotations

from typing import Any

from planner.report.page import Page, Table, counted, significant
from planner.units import percent


def page_of(document: Any) -> Page:
    """Return a calibration as a page."""
    used, rows = document["used"], document["rows"]
    page: list[str | Table] = [f"{used} of {rows} runs used: {document['runs']} on {document['hardware']}"]
    page += [f"Warning: {text}." for text in document["warnings"]]
    if document["factors"]:
        page.append(Table(tuple(_factor(factor) for factor in document["factors"])))
    page += [f"not fitted, {entry['name']}: {entry['reason']}" for entry in document["not_fitted"]]
    page.append(Table(tuple(_errors(document["step_time"]))))
    if document["step_time"]["held_out"] is None:
        page.append("A single layout: nothing is left to hold out of the fit.")
    page.append(_band(document))
    if document["framework_memory"]:
        page.append(_memory(document["framework_memory"]))
    page.append(f"Use it with: --hardware {document['out']}")
    return page


def _factor(factor: Any) -> dict[str, str]:
    return {
        "factor": factor["name"],
        "before": significant(factor["start"]),
        "fitted": significant(factor["value"]),
        "± (std. error)": percent(factor["standard_error"]),
        "meaning": factor["meaning"].removesuffix(" [-]"),
    }


def _errors(scores: Any) -> list[dict[str, str]]:
    labels = {"before": "before", "fitted": "fitted", "held_out": "held out of the fit"}
    return [
        {
            "step time": label,
            "runs": str(scores[key]["n"]),
            "mean error": percent(scores[key]["mape"]),
            "p90": percent(scores[key]["p90_ape"]),
            "bias": f"{100 * scores[key]['bias']:+.1f}%",
        }
        for key, label in labels.items()
        if scores[key] is not None
    ]


def _band(document: Any) -> str:
    if document["error_band"] is None:
        return (
            "Error band of estimates with it: that of calibrated sites with this runtime and accelerator, "
            "where there are any; from 9 layouts on, these runs' own."
        )
    return (
        f"Error band of estimates with it: ± {percent(document['error_band'])}, which 90% of these "
        "runs stay below, each held out of the fit."
    )


def _memory(found: Any) -> str:
    return (
        f"Memory outside the allocator (context, communicators), from {counted(found['n'], 'run')}: "
        f"{significant(found['fitted_gib'], 3)} GiB instead of {significant(found['before_gib'], 3)} GiB; "
        f"error of memory {percent(found['mape_before'])} before, {percent(found['mape_fitted'])} fitted. "
        f"It belongs to the runtime: --set {found['set']}"
    )
