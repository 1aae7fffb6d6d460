"""Estimates as flat rows, for CSV."""

from __future__ import annotations

from typing import Any

from planner.cost.estimate import Estimate
from planner.cost.price import Unpriced
from planner.report.as_json import PLAN_KEYS, PRICE_KEYS, estimate_document
from planner.report.limits import limits

HEAD = (
    "schema",
    "model",
    "hardware",
    "workload",
    "plan",
    "defaults",
    "settings",
    "violations",
    "time_s",
    "memory",
    "comm_bytes_per_gpu",
    "price",
)
"""Parts of a document that are no single figure."""


def flat_row(answer: Estimate | Unpriced) -> dict[str, Any]:
    """Return the figures of an estimate under the keys of its document, one level deep."""
    document = estimate_document(answer, {})
    row: dict[str, Any] = {
        "model": document["model"]["name"],
        "hardware": document["hardware"]["name"],
        "gpus": document["hardware"]["gpus"],
        "idle_gpus": document["hardware"]["idle_gpus"],
        **document["workload"],
        **{name: document["plan"][name] for name in PLAN_KEYS},
        "stage_layers": answer.plan.split_text or None,
    }
    row["settings"] = " ".join(f"{name}={value}" for name, value in document["settings"].items())
    row |= {name: value for name, value in document.items() if name not in HEAD}
    row |= {f"{name}_s": value for name, value in document["time_s"].items()}
    row |= {name: document["memory"][name] for name in ("capacity_gib", "peak_gib")}
    row |= {f"{name}_sent_bytes": value for name, value in document["comm_bytes_per_gpu"].items()}
    price = document["price"] or {}
    row |= {f"price_{name}": price.get(name) for name in PRICE_KEYS}
    row["violations"] = "; ".join(broken["rule"] for broken in document["violations"])
    row["limited_by"] = ", ".join(limits(answer)) if isinstance(answer, Estimate) else None
    return row
