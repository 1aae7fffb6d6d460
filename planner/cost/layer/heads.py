"""Which ranks share the heads of attention."""

from __future__ import annotations

from planner.cost.case import Case
from planner.inputs.model import Attention, LatentAttention
from planner.numeric import Num, maximum
from planner.plan import Plan


def head_ranks(case: Case, plan: Plan, mixer: Attention | LatentAttention) -> Num:
    """Ranks that share the heads of one part of the sequence, over context parallelism. [-]"""
    heads, kv_heads = mixer.heads / plan.tp, maximum(mixer.kv_heads / plan.tp, 1.0)
    return case.context.head_ranks(plan.cp, heads, kv_heads, case.pool.fast_ranks(case.job.gpus) / plan.tp)
