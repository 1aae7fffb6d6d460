"""Where sharded weights and gradients rest that are spread over fewer ranks than optimizer states."""

from __future__ import annotations

import numpy as np

from planner.cost.case import Case
from planner.cost.memory.matrices import table_elements
from planner.cost.memory.weights import StageWeights
from planner.numeric import Num, maximum, minimum
from planner.plan import Plan
from planner.rules import Rule


def has_levels(case: Case) -> bool:
    """Whether sharded weights, gradients and states are spread over levels of links of their own."""
    return case.traits.engine.shard_levels and case.sharding.shards_parameters


def near_ranks(case: Case, shards: Num, stride: Num) -> Num:
    """Ranks that share weights: those in a module of several dies, else those in a node. [-]"""
    joined = case.tiers[0].domain if case.pool.node.package is not None else float(case.node_ranks)
    return maximum(1.0, minimum(shards, joined / stride))


def resting_shards(case: Case, plan: Plan) -> tuple[Num, Num]:
    """Return the ranks that share weights, and those that share gradients. [-]"""
    node = maximum(1.0, minimum(plan.zero_shards, case.node_ranks / plan.tp))
    return near_ranks(case, plan.zero_shards, plan.tp), node


def cached_copies(case: Case, stored: Num, trained: Num) -> Num:
    """Bytes of low-bit copies that rest whole on each rank though the 16-bit weights are sharded. [byte]

    Transformer Engine makes them in the first micro-batch, and keeps them to its next step.

    References
    ----------
    .. [1] NVIDIA, Transformer Engine d0067d0d, ``transformer_engine/pytorch/module/linear.py``,
       ``Linear.forward``: ``_fp8_workspaces``, of PyTorch's FSDP2 alone none.
    .. [2] NVIDIA, Megatron-LM d98e8a64, ``megatron/core/extensions/transformer_engine.py``: passes
       ``is_first_microbatch``, unless ``disable_parameter_transpose_cache``.
    """
    low = case.traits.low_bit
    cached = low.weights == "beside" and low.cached_transposes and case.method.trains_base
    if not (cached and case.sharding.shards_parameters):
        return 0.0
    return maximum(stored - case.weight_bytes * trained, 0.0)


def whole_scales(case: Case, plan: Plan, held: StageWeights) -> Num:
    """Bytes of a quantised base's scales, which rest whole on each rank's device though weights are sharded.

    References
    ----------
    .. [1] bitsandbytes 95f9af30, ``bitsandbytes/nn/modules.py``, ``Params4bit``: ``quant_state`` is an
       attribute beside the parameter, and FSDP shards and offloads parameters.
    """
    method = case.method
    if not (method.scale_bytes and case.sharding.shards_parameters):
        return 0.0
    ends = case.plain_bytes * table_elements(case, plan, held.counts)
    return method.scale_bytes / method.frozen_weight_bytes * maximum(held.stored - ends, 0.0)


def level_rules(plan: Plan, case: Case) -> list[Rule]:
    """Return the rules of levels: whole layers that are all trained, on the device, and in no runtime.

    References
    ----------
    .. [1] arXiv:2501.04266: a DeepSpeed of its authors' own; edaa7221 has two levels at most.
    """
    if not has_levels(case):
        return []
    plain = np.equal(plan.tp, 1) & np.equal(plan.ep, 1) & np.equal(plan.pp, 1)
    return [
        Rule(
            "levels-alone",
            plain,
            lambda: (
                f"shard_levels with tp {plan.tp:g}, pp {plan.pp:g}, ep {plan.ep:g}", "tp, pp and ep 1", OFF
            ),
        ),
        Rule(
            "levels-on-device",
            (not case.offload.fetches) and case.method.trains_base,
            lambda: (
                f"shard_levels with offload {plan.offload}, {case.job.workload.method}",
                "full training with weights on the device",
                OFF,
            ),
        ),
        Rule(
            "levels-have-a-runner",
            False,
            lambda: ("shard_levels", "one level, or secondary_shards: no runtime here has three", OFF),
        ),
    ]  # fmt: skip


OFF = "--set shard_levels=one"
