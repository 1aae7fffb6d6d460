"""The documents that scripts read: an estimate, and a search; keys and units fixed, the unknown null."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from planner.calibrate.releases import release_of
from planner.cost.estimate import Estimate
from planner.cost.money import quote_of
from planner.cost.price import Unpriced
from planner.cost.settings import settings_of
from planner.fields import AXES
from planner.plan import Plan
from planner.report.settings_line import left_out_settings
from planner.report.unequal import lengths_record
from planner.runtimes.family import Job
from planner.search.result import SearchResult
from planner.units import GIB, TFLOP

Document = dict[str, Any]

ESTIMATE: Final = "planner/estimate/1"
SEARCH: Final = "planner/search/1"

WORKLOAD: Final = ("seq_len", "global_batch", "precision", "optimizer", "method")
ADAPTERS: Final = ("lora_rank", "lora_targets")
"""What a job says beside, where it trains adapters."""

OPEN_PLAN_KEYS: Final = ("prediction_apart",)
"""Fields of a plan that its record has only where the plan says them."""

PLAN_KEYS: Final = tuple(axis.name for axis in AXES if axis.name not in OPEN_PLAN_KEYS)
"""Fields of a plan that its record always has."""

TIME_KEYS: Final = (
    "compute", "tp_comm", "cp_comm", "ep_comm", "pp_comm", "dp_comm",
    "bubble", "optimizer", "offload", "other",
)  # fmt: skip
STAGE_KEYS: Final = (
    "weights", "gradients", "optimizer", "activations", "workspace",
    "allocated", "reserve", "framework", "total",
)  # fmt: skip
PRICE_KEYS: Final = ("usd_per_hour", "basis", "seller", "kind", "day", "source")
LEFT_OUT_KEYS: Final = ("setting", "value", "reason")
SENT_KEYS: Final = ("tp", "cp", "ep", "pp", "dp")
OPTIMALITY_KEYS: Final = (
    "method", "proved", "bound_s", "gap", "over", "proof", "played_bound_s", "within_s",
    "refined", "solver",
)  # fmt: skip


def estimate_document(answer: Estimate | Unpriced, defaults: Mapping[str, Any]) -> Document:
    """Return the document of one estimate; every figure of a plan that cannot be priced is None.

    ``answer``: the plan and what is known of it; ``defaults``: what was taken because nothing was given.
    """
    job, pool = answer.job, answer.job.hardware.pool
    work = job.workload
    head = {
        "schema": ESTIMATE,
        "model": {
            "name": job.model.name,
            "params": job.model.params,
            "active_params": job.model.active_params,
        },
        "hardware": {
            "name": job.hardware.name,
            "gpus": job.gpus,
            "gpus_per_node": pool.gpus_per_node,
            "scaleup_domain": pool.scaleup_domain,
            "idle_gpus": job.idle,
        },
        "workload": {
            name: getattr(work, name) for name in (*WORKLOAD, *(ADAPTERS if work.method != "full" else ()))
        },
        "runtime": answer.runtime.name,
        "release": release_of(answer.runtime).name,
        "settings": dict(settings_of(job, answer.runtime)),
        "defaults": dict(defaults),
        "plan": plan_record(answer.plan) | _passes(answer.plan, job),
        "feasible": answer.feasible,
        "violations": [asdict(violation) for violation in answer.violations],
    }
    figures = (
        _no_figures(answer) if isinstance(answer, Unpriced) else _figures(answer) | lengths_record(answer)
    )
    left_out = left_out_settings(answer) if isinstance(answer, Estimate) else []
    told = [dict(zip(LEFT_OUT_KEYS, one, strict=True)) for one in left_out]
    document: Document = plain(head | figures | ({"not_run": told} if told else {}))
    return document


def _passes(plan: Plan, job: Job) -> Document:
    """Return that there is no whole number of micro-batches, where the batch does not divide."""
    whole = plan.micro_batch * plan.num_microbatches * plan.dp == job.workload.global_batch
    return {} if whole else {"num_microbatches": None}


def _figures(answer: Estimate) -> Document:
    bill = answer.bill
    return {
        "step_time_s": answer.step,
        "tokens_per_s_per_gpu": answer.tokens_per_second,
        "model_tflops_per_gpu": answer.model_rate / TFLOP,
        "mfu": answer.mfu,
        "hfu": answer.hfu,
        "error_band": answer.error_band,
        "error_band_basis": answer.band_basis or None,
        "oom_probability": answer.oom_probability,
        "memory_band": answer.memory_band,
        "extrapolated_share": answer.extrapolated_share,
        "time_s": {name: getattr(answer.time, name) for name in TIME_KEYS},
        "memory": {
            "capacity_gib": answer.capacity / GIB,
            "peak_gib": answer.peak / GIB,
            "stages": [
                {"stage": stage.stage, "moment": stage.moment}
                | {f"{name}_gib": getattr(stage, name) / GIB for name in STAGE_KEYS}
                for stage in answer.stages
            ],
        },
        "comm_bytes_per_gpu": {name: getattr(answer.sent, name) for name in SENT_KEYS},
        "price": price_record(answer.job),
        "cost_usd_per_step": bill.usd_per_step,
        "energy_j_per_step": bill.joules_per_step,
        "days_to_train": bill.days_to_train,
        "cost_usd_to_train": bill.usd_to_train,
    }


def price_record(job: Job) -> Document | None:
    """Return what an accelerator costs for an hour and whose price that is, None where none is known."""
    quote = quote_of(job.hardware.pool)
    return (
        None
        if quote is None
        else {name: value or None for name, value in asdict(quote).items()}
        | {"usd_per_hour": quote.usd_per_hour}
    )


def _no_figures(answer: Unpriced) -> Document:
    rates = ("step_time_s", "tokens_per_s_per_gpu", "model_tflops_per_gpu", "mfu", "hfu")
    trust = ("error_band", "error_band_basis", "oom_probability", "memory_band", "extrapolated_share")
    bills = ("cost_usd_per_step", "energy_j_per_step", "days_to_train", "cost_usd_to_train")
    return {
        **dict.fromkeys((*rates, *trust)),
        "time_s": dict.fromkeys(TIME_KEYS),
        "memory": {"capacity_gib": answer.capacity / GIB, "peak_gib": None, "stages": []},
        "comm_bytes_per_gpu": dict.fromkeys(SENT_KEYS),
        "price": price_record(answer.job),
        **dict.fromkeys(bills),
    }


def plan_record(plan: Plan) -> Document:
    """Return the plan with the keys of the contract."""
    record = plan.as_dict()
    return {name: record[name] for name in (*PLAN_KEYS, *OPEN_PLAN_KEYS) if name in record}


def search_document(result: SearchResult, defaults: Mapping[str, Any]) -> Document:
    """Return the document of a search."""
    reasons = result.left_out or (None,) * len(result.baselines)
    document: Document = plain(
        {
            "schema": SEARCH,
            "plans": [estimate_document(answer, defaults) for answer in result.plans],
            "baselines": [
                {"name": name} | estimate_document(answer, defaults) | {"left_out": reason}
                for (name, answer), reason in zip(result.baselines, reasons, strict=True)
            ],
            "space": {
                "enumerated": result.enumerated,
                "valid": result.valid,
                "fits": result.fits,
                "priced": result.priced,
                "removed": dict(result.removed),
            },
            "nearest": None if result.nearest is None else dict(result.nearest),
            "elapsed_s": result.elapsed,
            "scan_s": result.scan,
            "optimality": {name: result.optimality.get(name) for name in OPTIMALITY_KEYS},
            "fewer": result.fewer and {"gpus": result.fewer.gpus, "step_time_s": result.fewer.step},
            "variants": [
                {"rank": rank, "plan": plan_record(other.plan), "step_time_s": other.step}
                for rank, others in enumerate(result.variants, 1)
                for other in others
            ],
            "measured": result.measured and estimate_document(result.measured, defaults),
            "on_paper": [estimate_document(answer, defaults) for answer in result.on_paper],
            "planless": [asdict(one) for one in result.planless],
        }
    )
    return document


def plain(value: Any) -> Any:
    """Return ``value`` in the types of JSON; what is not finite is None.

    Examples
    --------
    >>> plain({"a": float("inf"), "b": (1, 2.5)})
    {'a': None, 'b': [1, 2.5]}
    """
    if isinstance(value, str | bool | int | None):  # most of a document, before types that take long to tell
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, Sequence):
        return [plain(item) for item in value]
    return plain(value.item()) if hasattr(value, "item") else value
