"""Bytes on one rank at the peak of a step, stage by stage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from planner.cost.block_cost import LayerCost
from planner.cost.case import Case
from planner.cost.stages import ENDS, Piece, Stages
from planner.numeric import Num
from planner.plan import Plan
from planner.rules import Mask


@dataclass(frozen=True)
class StageMemory:
    """Bytes of each stage at its peak moment; the first axis is the stage. [byte]

    Parameters
    ----------
    weights, gradients, optimizer : Num
        States at rest.
    activations : Num
        What forward leaves for backward, for all micro-batches in flight.
    workspace : Num
        What exists at the peak moment only.
    at_loss : Mask
        Whether that moment is the loss rather than the backward of a layer.
    """

    weights: Num
    gradients: Num
    optimizer: Num
    activations: Num
    workspace: Num
    at_loss: Mask

    @property
    def allocated(self) -> Num:
        """Live tensors at the peak. [byte]"""
        return self.weights + self.gradients + self.optimizer + self.activations + self.workspace


def stage_sum(costs: Mapping[Piece, LayerCost], stages: Stages, field: str) -> Num:
    """Sum of a field over the layers and ends of each stage."""
    result: Num = 0.0
    for piece, count in stages.counts.items():
        result = result + count * getattr(costs[piece], field)
    return result


@dataclass(frozen=True)
class StageWeights:
    """Weights of each stage on one rank; zero experts where the model has none.

    Parameters
    ----------
    stored, expert_stored : Num
        Bytes at rest before sharding. [byte]
    trained, expert_trained : Num
        Weights that learn. [element]
    """

    stored: Num
    expert_stored: Num
    trained: Num
    expert_trained: Num


def stage_weights(case: Case, costs: Mapping[Piece, LayerCost], stages: Stages) -> StageWeights:
    """Return the weights of each stage."""
    stored, trained = stage_sum(costs, stages, "stored"), stage_sum(costs, stages, "trained")
    if not case.has_experts:
        return StageWeights(stored, 0.0, trained, 0.0)
    expert_stored = stage_sum(costs, stages, "expert_stored")
    return StageWeights(stored, expert_stored, trained, stage_sum(costs, stages, "expert_trained"))


@dataclass(frozen=True)
class PassBytes:
    """Bytes that the passes of a step need on each stage, however the states are sharded. [byte]

    Parameters
    ----------
    activations : Num
        What forward leaves for backward, for all micro-batches in flight.
    rebuilt : Num
        What the backward of one layer needs besides.
    loss : Num
        What the loss needs besides, on the stage that has it.
    largest_layer : Num
        Weights that learn in the largest layer. [element]
    """

    activations: Num
    rebuilt: Num
    loss: Num
    largest_layer: Num


def pass_bytes(case: Case, plan: Plan, costs: Mapping[Piece, LayerCost], stages: Stages) -> PassBytes:
    """Return what the passes of a step need on each stage."""
    layers = [cost for piece, cost in costs.items() if piece[0] not in ENDS]
    rebuilt, largest = layers[0].rebuilt, layers[0].trained + layers[0].expert_trained
    for cost in layers[1:]:
        rebuilt = np.maximum(rebuilt, cost.rebuilt)
        largest = np.maximum(largest, cost.trained + cost.expert_trained)
    tokens = plan.micro_batch * case.workload.seq_len / plan.cp
    return PassBytes(
        activations=_activations(case, plan, costs, stages),
        rebuilt=rebuilt,
        loss=_has_head(stages) * _logits(case, plan, tokens),
        largest_layer=largest,
    )


def stage_memory(
    case: Case, plan: Plan, passes: PassBytes, held: StageWeights, stages: Stages
) -> StageMemory:
    """Return the bytes of every stage at its peak."""
    sharding = case.sharding
    dense, experts = plan.zero_shards, plan.expert_dp
    weights = held.stored / sharding.parameter_shards(dense)
    gradients = held.trained / sharding.gradient_shards(dense)
    states = held.trained / sharding.optimizer_shards(dense)
    if case.has_experts:
        weights = weights + held.expert_stored / sharding.parameter_shards(experts)
        gradients = gradients + held.expert_trained / sharding.gradient_shards(experts)
        states = states + held.expert_trained / sharding.optimizer_shards(experts)
    backward = passes.rebuilt + gathered_bytes(case) * passes.largest_layer
    schedule = case.schedule
    versions = schedule.weight_versions(plan.pp, plan.vpp, plan.num_microbatches, stages.rank)
    return StageMemory(
        weights=weights * (versions * schedule.weight_copies),
        gradients=gradients * (schedule.weight_copies * case.gradient_bytes),
        optimizer=states * (case.optimizer_bytes * (not case.offload.optimizer)),
        activations=passes.activations,
        workspace=np.maximum(backward + passes.loss * case.traits.loss_beside_backward, passes.loss),
        at_loss=passes.loss > backward,
    )


def gathered_bytes(case: Case) -> float:
    """Bytes for each weight of a layer while its backward runs: two gathered layers and a whole gradient."""
    return 2 * 2.0 + case.reduce_bytes if case.sharding.shards_parameters else 0.0


def _activations(case: Case, plan: Plan, costs: Mapping[Piece, LayerCost], stages: Stages) -> Num:
    """Bytes that the micro-batches in flight keep; the ends are passed by one at a time."""
    held: Num = 0.0
    ends: Num = 0.0
    for piece, count in stages.counts.items():
        if piece[0] in ENDS:
            ends = ends + count * costs[piece].held
        else:
            held = held + count * costs[piece].held
    chunks = case.schedule.in_flight_chunks(plan.pp, plan.vpp, plan.num_microbatches, stages.rank)
    return held * (chunks / plan.vpp) + ends


def _has_head(stages: Stages) -> Num:
    heads: Num = 0.0
    for name in ("head", "tied_head"):
        heads = heads + stages.counts.get((name, False), 0.0)
    return np.minimum(heads, 1.0)


def _logits(case: Case, plan: Plan, tokens: Num) -> Num:
    """Bytes of the logits and of what the loss makes of them. [byte]"""
    vocab = case.model.vocab / plan.tp if case.traits.vocab_parallel_loss else float(case.model.vocab)
    return case.traits.logit_bytes * tokens * vocab
