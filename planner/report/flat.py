"""Estimates as flat rows, for CSV."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.cost.estimate import Estimate
from planner.cost.price import Unpriced
from planner.report.as_json import PLAN_KEYS, PRICE_KEYS, estimate_document
from planner.report.limits import limits_of

HEAD = (
    "schema", "model", "hardware", "workload", "plan", "defaults", "settings", "violations", "time_s",
    "memory", "comm_bytes_per_gpu", "price", "lengths",
)  # fmt: skip
"""Parts of a document that are no single figure."""


def flat_row(answer: Estimate | Unpriced) -> dict[str, Any]:
    """Return the figures of an estimate under the keys of its document, one level deep."""
    return flat_document(estimate_document(answer, {}))


def flat_document(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same of an estimate's document, which may be one that somebody printed long ago."""
    plan, memory, price = document["plan"], document["memory"], document.get("price") or {}
    row: dict[str, Any] = {
        "model": document["model"]["name"],
        "hardware": document["hardware"]["name"],
        "gpus": document["hardware"]["gpus"],
        "idle_gpus": document["hardware"].get("idle_gpus"),
        **document["workload"],
        **{name: plan[name] for name in PLAN_KEYS},
        "stage_layers": "-".join(map(str, plan["stage_layers"] or ())) or None,
    }
    row["settings"] = " ".join(f"{name}={value}" for name, value in document.get("settings", {}).items())
    row |= {name: value for name, value in document.items() if name not in HEAD}
    row |= {f"{name}_s": value for name, value in document["time_s"].items()}
    row |= {name: memory[name] for name in ("capacity_gib", "peak_gib")}
    row |= {f"{name}_sent_bytes": value for name, value in document.get("comm_bytes_per_gpu", {}).items()}
    row |= {f"price_{name}": price.get(name) for name in PRICE_KEYS}
    row["violations"] = "; ".join(broken["rule"] for broken in document.get("violations", ()))
    row["limited_by"] = _limited(document)
    return row


def _limited(document: Mapping[str, Any]) -> str | None:
    """Return what limits a priced plan, the dearest first."""
    step, memory = document["step_time_s"], document["memory"]
    if not step or memory["peak_gib"] is None:
        return None
    full, lengths = memory["peak_gib"] / memory["capacity_gib"], "lengths" in document
    return ", ".join(limits_of(document["time_s"], step, full, lengths and document["plan"]["pp"] == 1))
