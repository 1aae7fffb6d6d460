"""Who shares the weights of a stage: all that the end of a step needs of a plan's degrees."""

from __future__ import annotations

from planner.cost.case import Case
from planner.cost.expert_shards import filled_expert_shards
from planner.cost.memory.matrices import SharedMatrices, padded_weights, shared_matrices
from planner.cost.memory.weights import StageWeights
from planner.cost.traffic.shard_groups import ShardGroup, groups
from planner.dataclasses import dataclass
from planner.numeric import Num, minimum
from planner.plan import Plan


@dataclass(frozen=True)
class Sharing:
    """The weights of a stage by the ranks that share them; neither micro-batches nor passes matter."""

    stepped: Num
    """Weights whose states are on one rank. [element]"""
    node_ranks: Num
    """Ranks of the job in one node. [-]"""
    matrices: list[SharedMatrices]
    """Of an optimizer that steps whole ones."""
    groups: list[ShardGroup]
    """Ranks that reduce gradients and gather weights among one another."""
    padded: list[ShardGroup]
    """The same with what fills buffers up."""


def stepped_elements(case: Case, plan: Plan, held: StageWeights) -> Num:
    """Weights whose states are on one rank, copies of a stage that a schedule holds among them. [element]"""
    shard = held.trained / case.sharding.optimizer_shards(plan.zero_shards)
    if case.has_experts:
        shard = shard + held.expert_trained / case.sharding.optimizer_shards(filled_expert_shards(case, plan))
    return shard * case.schedule.weight_copies


def sharing(case: Case, plan: Plan, held: StageWeights) -> Sharing:
    """Return who shares the weights of a stage."""
    matrices = shared_matrices(case, plan, held)
    filled, alone = padded_weights(case, held, matrices), groups(case, plan, held)
    return Sharing(
        stepped=stepped_elements(case, plan, held),
        node_ranks=minimum(float(case.pool.gpus_per_node), plan.tp * plan.pp * plan.cp * plan.dp),
        matrices=matrices,
        groups=alone,
        padded=alone if filled is held else groups(case, plan, filled),
    )
