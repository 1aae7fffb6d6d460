"""Shards of experts' states."""

from __future__ import annotations

import numpy as np

from planner.cost.case import Case
from planner.numeric import Num
from planner.plan import Plan


def filled_expert_shards(case: Case, plan: Plan) -> Num:
    """Shards of the experts' states that are not padding alone: experts on a rank over those of its shard.

    Accelerate cuts a layer's experts, one parameter in transformers 5, by whole experts (PyTorch FSDP2 chunks
    dimension 0 and pads the last shards).
    """
    if not (case.expert_code.stacked and case.engine.pads_rows and case.has_experts):
        return plan.expert_shards
    experts = case.experts / plan.ep
    return experts / np.ceil(experts / plan.expert_shards)
