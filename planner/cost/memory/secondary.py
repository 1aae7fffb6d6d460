"""A second copy of sharded weights in each node (hpZ of ZeRO++)."""

from __future__ import annotations

from planner.cost.case import Case
from planner.numeric import Num, maximum, where
from planner.plan import Plan
from planner.techniques.engines.family import GATHERED_BYTES


def has_secondary(case: Case) -> bool:
    """Whether the ranks of a node share a second copy of weights, where these are sharded over several."""
    return case.traits.engine.secondary_shards and case.sharding.shards_parameters


def secondary_bytes(case: Case, plan: Plan, trained: Num) -> Num:
    """Bytes of a rank's part of the second copy of so many weights. [byte]

    References
    ----------
    .. [1] G. Wang et al., "ZeRO++," arXiv:2306.10209, 2023, sec. 3.2.
    """
    if not has_secondary(case):
        return 0.0
    ranks = maximum(1.0, case.node_ranks / plan.tp)
    return where(plan.zero_shards > ranks, GATHERED_BYTES * trained / ranks, 0.0)
