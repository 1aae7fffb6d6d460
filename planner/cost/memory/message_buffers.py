"""What messages with buffers of their own keep of a device, beside the framework's tensors."""

from __future__ import annotations

from planner.cost.case import Case
from planner.formulas.message_buffers import deep_buffer_bytes, hybrid_buffer_bytes, user_buffer_bytes
from planner.numeric import Num, maximum, where
from planner.plan import Plan
from planner.techniques.settings import SETTINGS
from planner.techniques.settings.expert_dispatcher import sends_by_hybrid_ep


def dispatch_buffer_bytes(case: Case, plan: Plan) -> Num:
    """Bytes of the buffers of a dispatcher's own kernels on a rank, none without any. [byte]"""
    kinds = case.model.expert_kinds
    if not kinds or not case.dispatcher.own_kernels:
        return 0.0
    ranks = plan.ep * plan.etp
    hidden = case.model.hidden
    if not sends_by_hybrid_ep(case.pool, case.traits.kernels.graphed):
        return deep_buffer_bytes(float(max(ffn.width(hidden) for ffn in kinds)), ranks)
    tokens = case.rank_tokens(plan)
    tokens = tokens / plan.tp if case.sequence_parallel else tokens
    most: Num = 0.0
    for ffn in kinds:
        width, domain = float(ffn.width(hidden)), float(case.fast_tier.domain)
        most = maximum(most, hybrid_buffer_bytes(tokens, width, float(ffn.experts), ranks, domain))
    return most


def overlap_buffer_bytes(case: Case, plan: Plan) -> Num:
    """Bytes of the user buffers of tensor-parallel messages that run beside products. [byte]"""
    setting = SETTINGS["tp_overlap"]
    if not case.sequence_parallel or setting.name not in case.runtime.searched:
        return 0.0
    if setting.value_of(case.traits) == setting.plain:
        return 0.0
    tokens = case.rank_tokens(plan)
    gathered = 1.0 if "fp8" in case.precision.linear else 2.0
    overlaps = (plan.tp > 1) & case.pool.joins(plan.tp)
    return where(overlaps, user_buffer_bytes(tokens, float(case.model.hidden), gathered), 0.0)


def message_buffer_bytes(case: Case, plan: Plan) -> Num:
    """Bytes of all buffers that messages have for themselves on a rank. [byte]"""
    return dispatch_buffer_bytes(case, plan) + overlap_buffer_bytes(case, plan)
