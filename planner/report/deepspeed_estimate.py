"""What DeepSpeed's own estimators would say of a plan."""

from __future__ import annotations

from planner.cost.case import Case
from planner.formulas.deepspeed_estimates import (
    STATE_BYTES,
    estimated_host_bytes,
    estimated_zero2_bytes,
    estimated_zero3_bytes,
)
from planner.plan import Plan

ENGINE = "deepspeed-zero"
"""The engine of which they are."""


def deepspeed_estimate(case: Case, plan: Plan) -> tuple[float, float] | None:
    """Return bytes of a rank and of a node by DeepSpeed's estimators; None where they say nothing.

    They know ZeRO-2 and ZeRO-3 alone, over all ranks, and neither tensor parallelism nor stages; the largest
    layer is the largest module with weights of its own, a model's table nearly always.
    """
    alone = plan.tp * plan.pp * plan.ep == 1
    if case.engine.name != ENGINE or plan.zero < 2 or not alone or case.offload.disk:
        return None
    if case.offload.name == "weights-alone" or 0.0 < case.offload.hosted < 1.0:
        return None
    params, largest = float(case.model.params), float(case.model.vocab * case.model.hidden)
    offload, ranks = case.offload, case.job.gpus
    nodes, sharded = ranks / case.node_ranks, plan.zero == 3
    kept = 18.0 if offload.fetches else 16.0 if offload.optimizer else 0.0
    built = 0.0 if sharded and kept else 4.0
    whole = largest if sharded and not kept else params
    host = estimated_host_bytes(whole, nodes, case.node_ranks, kept, built)
    shared = 0.0 if offload.fetches else 2.0 * sharded if offload.optimizer else STATE_BYTES
    if sharded:
        return float(estimated_zero3_bytes(params, largest, ranks, shared)), float(host)
    return float(estimated_zero2_bytes(params, ranks, shared)), float(host)
