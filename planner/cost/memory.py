"""Bytes on one rank at the peak of a step, stage by stage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from planner.cost.block_cost import LayerCost
from planner.cost.case import Case, filled_expert_shards, piped
from planner.cost.operators import SCORES_KEPT
from planner.cost.stages import ENDS, Piece, Stages
from planner.numeric import Num
from planner.plan import Plan
from planner.rules import Mask
from planner.runtimes._traits import Traits


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
    at_step : Mask
        Whether it is the optimizer's step, whose flat buffers are the workspace then.
    idle : Num
        Freed gradients of the step before, whose memory serves nothing else.
    """

    weights: Num
    gradients: Num
    optimizer: Num
    activations: Num
    workspace: Num
    at_loss: Mask
    at_step: Mask = np.False_
    idle: Num = 0.0

    @property
    def allocated(self) -> Num:
        """Live tensors at the peak. [byte]"""
        return self.weights + self.gradients + self.optimizer + self.activations + self.workspace


def stage_sum(costs: Mapping[Piece, LayerCost], stages: Stages, field: str, ends: bool | None = None) -> Num:
    """Sum of a field over the layers and ends of each stage, or over one of both alone."""
    result: Num = 0.0
    for piece, count in stages.counts.items():
        if ends is None or (piece[0] in ENDS) == ends:
            result = result + count * getattr(costs[piece], field)
    return result


@dataclass(frozen=True)
class StageWeights:
    """Weights of each stage, or of one, on one rank; zero experts where the model has none.

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

    def on(self, stage: int) -> StageWeights:
        """Return those of one stage."""
        columns = (self.stored, self.expert_stored, self.trained, self.expert_trained)
        return StageWeights(*(_on(column, stage) for column in columns))


def _on(column: Num, stage: int) -> float:
    values = np.atleast_1d(np.asarray(column, float))
    return float(values[stage if values.size > 1 else 0])


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
    product : Num
        Weights of the largest product, where `needs_product`. [element]
    gathered_layer, gathered_head, gathered_embedding : Num
        Weights of the largest layer, and of the ends that a stage has, gathered for use.
    head : Num
        Weights of the head that learn, on the stage that has it. [element]
    one_layer : Num
        What one layer leaves for backward.
    grown : Num, optional
        Share of a stage's gradients that are there while its activations are still at their peak, where
        those of some layers come back from the host. [-]
    """

    activations: Num
    rebuilt: Num
    loss: Num
    largest_layer: Num
    gathered_layer: Num
    gathered_head: Num
    gathered_embedding: Num
    head: Num
    one_layer: Num
    grown: Num | None = None
    product: Num = 0.0


def pass_bytes(case: Case, plan: Plan, costs: Mapping[Piece, LayerCost], stages: Stages) -> PassBytes:
    """Return what the passes of a step need on each stage."""
    layers = [cost for piece, cost in costs.items() if piece[0] not in ENDS]
    rebuilt, held = layers[0].rebuilt, layers[0].held
    largest: Num = 0.0
    product: Num = 0.0
    gathered: Num = 0.0
    for cost in layers:
        product = np.maximum(product, cost.product)
        rebuilt, held = np.maximum(rebuilt, cost.rebuilt), np.maximum(held, cost.held)
        trained = cost.trained + cost.expert_trained
        largest = np.maximum(largest, trained)
        gathered = np.maximum(gathered, gathered_bytes(case, trained, cost.stored + cost.expert_stored))
    tokens = plan.micro_batch * case.workload.seq_len / plan.cp
    embedding = _gathered_end(case, stages, costs, ("embedding",))
    tied = np.minimum(_end(stages, costs, ("tied_head",), None), 1.0)
    return PassBytes(
        activations=_activations(case, plan, costs, stages),
        rebuilt=rebuilt,
        loss=np.minimum(_end(stages, costs, ("head", "tied_head"), None), 1.0) * _logits(case, plan, tokens),
        largest_layer=largest,
        gathered_layer=gathered,
        gathered_head=_gathered_end(case, stages, costs, ("head",)) + tied * embedding,
        gathered_embedding=embedding,
        head=_end(stages, costs, ("head",), "trained")
        + tied * _end(stages, costs, ("embedding",), "trained"),
        one_layer=held,
        product=product,
    )


def stage_memory(
    case: Case, plan: Plan, passes: PassBytes, held: StageWeights, stages: Stages
) -> StageMemory:
    """Return the bytes of every stage at its peak."""
    sharding = case.sharding
    dense, experts = plan.zero_shards, filled_expert_shards(case, plan)
    weights = held.stored / sharding.parameter_shards(dense)
    gradients = held.trained / sharding.gradient_shards(dense)
    states = held.trained / sharding.optimizer_shards(dense)
    if case.has_experts:
        weights = weights + held.expert_stored / sharding.parameter_shards(experts)
        gradients = gradients + held.expert_trained / sharding.gradient_shards(experts)
        states = states + held.expert_trained / sharding.optimizer_shards(experts)
    schedule = case.schedule
    copies: Num = schedule.weight_copies
    if not schedule.flushes:
        copies = copies * schedule.weight_versions(plan.pp, plan.vpp, plan.num_microbatches, stages.rank)
    kept_bytes = case.gradient_bytes + case.traits.gradient_copy_bytes
    gradients = gradients * (schedule.weight_copies * kept_bytes)
    trained = held.trained + held.expert_trained
    gathered: Num = 0.0
    if case.traits.sharded_at_rest and sharding.shards_gradients:
        gradients = np.where(piped(case, plan), trained * case.reduce_bytes, gradients)
        gathered = gathered_bytes(case, trained, held.stored + held.expert_stored)
    lasting = case.traits.persistent_gradients and not sharding.shards_parameters
    peak = lasting_peak(case, passes) if lasting else passing_peak(case, plan, passes, gradients, gathered)
    peak = stepping_peak(case, peak, states, gradients)
    present = gradients if peak.gradients is None else peak.gradients
    return StageMemory(
        weights=weights * copies,
        gradients=present,
        optimizer=states * (case.optimizer_bytes * (not case.offload.optimizer)),
        activations=peak.activations,
        workspace=peak.workspace,
        at_loss=peak.at_loss,
        at_step=peak.at_step,
        idle=gradients - present if case.traits.gradient_blocks_idle else 0.0,
    )


@dataclass(frozen=True)
class Peak:
    """What comes and goes in a step, at its peak moment. [byte]

    Parameters
    ----------
    activations, workspace : Num
        As in `StageMemory`.
    gradients : Num, optional
        Gradients at that moment, where they do not live through the whole step.
    at_loss, at_step : Mask
        Whether the moment is the loss, or the optimizer's step.
    """

    activations: Num
    workspace: Num
    gradients: Num | None
    at_loss: Mask
    at_step: Mask = np.False_


def lasting_peak(case: Case, passes: PassBytes) -> Peak:
    """Return the peak where weights and gradients live through the whole step."""
    beside = passes.loss * case.traits.loss_beside_backward
    workspace = np.maximum(passes.rebuilt + beside, passes.loss) + waiting_bytes(case)
    return Peak(passes.activations, workspace, None, passes.loss > passes.rebuilt)


def waiting_bytes(case: Case) -> float:
    """Bytes of flat buckets that wait for gradients where weights are whole and optimizer states are not.

    References
    ----------
    .. [1] DeepSpeed, ``deepspeed/runtime/zero/stage_1_and_2.py``, ``setup_buckets``: two flat buffers of
       ``reduce_bucket_size`` gradients where communication overlaps.
    """
    buckets = case.traits.flat_buckets * case.sharding.shards_optimizer
    return buckets * case.traits.bucket_elements * case.reduce_bytes


def passing_peak(case: Case, plan: Plan, passes: PassBytes, gradients: Num, gathered: Num) -> Peak:
    """Return the peak where gradients come with the backward pass, and sharded weights layer by layer.

    Three moments compete: the loss, or the head's own gradient, with the head gathered; the backward of the
    last layer, with all activations, two gathered layers and one whole gradient to be reduced; and that of
    the first, with the embedding gathered next and all gradients there. In the first micro-batch of a step
    the gradients of the step before are gone, but for the buckets that plain data parallelism keeps. Where
    weights stay gathered, those of all layers are there until the last one's backward; in a pipeline until
    the step's end.

    References
    ----------
    .. [1] PyTorch, ``torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py``: unshard, prefetch, reduce.
    """
    sharded = case.sharding.shards_parameters
    reduced = case.reduce_bytes * sharded * reduced_elements(case.traits, passes)
    buckets = not case.sharding.shards_optimizer
    earlier = gradients * np.where((plan.num_microbatches > 1) | (buckets & (plan.dp > 1)), 1.0, 0.0)
    latest = earlier if passes.grown is None else np.maximum(earlier, gradients * passes.grown)
    layer = sharded * passes.gathered_layer
    body = (gathered - passes.gathered_head) * case.sharding.keeps_gathered
    loss = passes.activations + head_peak(case, plan, passes) + earlier + body
    beside = (passes.loss + sharded * passes.gathered_head) * case.traits.loss_beside_backward
    live = live_bytes(case.traits, passes)
    last = passes.activations + passes.rebuilt + beside + reduced + latest
    last = last + np.maximum(np.minimum(2 * layer, live), body)
    following = np.minimum(layer + np.maximum(sharded * passes.gathered_embedding, layer), live)
    following = np.where(piped(case, plan), np.maximum(following, gathered), following)
    first = passes.one_layer + passes.rebuilt + following + reduced + gradients
    whole = np.maximum(np.maximum(loss, last), first)
    at_first = first >= whole
    before = earlier if passes.grown is None else np.where(last >= whole, latest, earlier)
    present = np.where(at_first, gradients, before)
    activations = np.where(at_first, passes.one_layer, passes.activations)
    return Peak(activations, whole - present - activations, present, loss >= whole)


def head_peak(case: Case, plan: Plan, passes: PassBytes) -> Num:
    """Bytes at the head beside activations: the loss or, where the head is sharded, its gradient if larger.

    That is there in 16 bit, once more to be reduced, and as the rank's own part.
    """
    sharded = case.sharding.shards_parameters
    parts = GATHERED_BYTES + case.reduce_bytes + case.gradient_bytes / plan.zero_shards
    return sharded * passes.gathered_head + np.maximum(passes.loss, sharded * passes.head * parts)


def live_bytes(traits: Traits, passes: PassBytes) -> Num:
    """Bytes of sharded weights that are gathered at once at most; endless where whole layers are.

    References
    ----------
    .. [1] DeepSpeed, ``deepspeed/runtime/zero/partitioned_param_coordinator.py``: modules are fetched one by
       one and kept while they come again within ``stage3_max_reuse_distance`` weights, up to
       ``stage3_max_live_parameters``.
    """
    if not traits.live_elements:
        return np.inf
    return GATHERED_BYTES * (passes.product + traits.live_elements)


def reduced_elements(traits: Traits, passes: PassBytes) -> Num:
    """Gradients that wait to be reduced: a layer's, or a bucket of them. [element]"""
    if not traits.bucket_elements:
        return passes.largest_layer
    return np.minimum(passes.largest_layer, np.maximum(passes.product, traits.bucket_elements))


def stepping_peak(case: Case, peak: Peak, states: Num, gradients: Num) -> Peak:
    """Return the peak of passes, or the optimizer's step where its flat buffers take more than they did.

    The passes' slack counts: its freed blocks are too small for a flat buffer, and are given back before the
    device is full.

    References
    ----------
    .. [1] DeepSpeed, ``deepspeed/runtime/zero/stage_1_and_2.py``, ``step``: a rank's gradients are
       laid end to end in fp32; ``stage3.py``, ``_prepare_fp32_grad_for_sub_group``.
    """
    if not case.traits.step_bytes:
        return peak
    flat = states * (case.traits.step_bytes * (not case.offload.optimizer))
    present = gradients if peak.gradients is None else peak.gradients
    passing = (1 + case.traits.reserve_share) * (peak.activations + peak.workspace) + present
    at_step = flat + gradients > passing
    return Peak(
        activations=np.where(at_step, 0.0, peak.activations),
        workspace=np.where(at_step, flat, peak.workspace),
        gradients=np.where(at_step, gradients, present),
        at_loss=np.logical_and(peak.at_loss, np.logical_not(at_step)),
        at_step=at_step,
    )


GATHERED_BYTES = 2.0
"""Weights that learn are gathered in 16 bit. [byte]"""


def gathered_bytes(case: Case, trained: Num, stored: Num) -> Num:
    """Bytes of sharded weights once gathered: in 16 bit, or as they are stored where that is less. [byte]"""
    if case.method.trains_base:
        return GATHERED_BYTES * trained
    frozen = np.maximum(0.0, stored - case.weight_bytes * trained)
    return GATHERED_BYTES * trained + frozen * min(1.0, GATHERED_BYTES / case.frozen_linear_bytes)


def _gathered_end(
    case: Case, stages: Stages, costs: Mapping[Piece, LayerCost], names: tuple[str, ...]
) -> Num:
    trained = _end(stages, costs, names, "trained")
    return gathered_bytes(case, trained, _end(stages, costs, names, "stored"))


def _activations(case: Case, plan: Plan, costs: Mapping[Piece, LayerCost], stages: Stages) -> Num:
    """Bytes that the micro-batches in flight keep; the ends are passed by one at a time.

    Those that wait for their weight gradient alone have no scores left (arXiv:2401.10241, Table 1).
    """
    held = stage_sum(costs, stages, "held", ends=False)
    kept = held * (chunks_in_flight(case, plan, stages) / plan.vpp) + stage_sum(costs, stages, "held", True)
    if case.traits.attention not in SCORES_KEPT or not case.schedule.splits_backward:
        return kept
    degrees = (plan.pp, plan.vpp, plan.num_microbatches)
    waiting = case.schedule.awaiting_weight_chunks(*degrees, stages.rank) / plan.vpp
    return kept - waiting * stage_sum(costs, stages, "scores", ends=False)


def chunks_in_flight(case: Case, plan: Plan, stages: Stages) -> Num:
    """Chunks whose activations a rank holds at its peak, in mean chunks where they are unlike. [-]"""
    chunks = case.schedule.in_flight_chunks(plan.pp, plan.vpp, plan.num_microbatches, stages.rank)
    return np.minimum(chunks * stages.crest, np.maximum(chunks, plan.num_microbatches * plan.vpp))


def _end(stages: Stages, costs: Mapping[Piece, LayerCost], names: tuple[str, ...], field: str | None) -> Num:
    """Sum of a field over the ends called ``names`` that each stage has, or their number."""
    result: Num = 0.0
    for name in names:
        count = stages.counts.get((name, False), 0.0)
        if (name, False) in costs:
            result = result + count * (getattr(costs[name, False], field) if field else 1.0)
    return result


def _logits(case: Case, plan: Plan, tokens: Num) -> Num:
    """Bytes of the logits and of what the loss makes of them. [byte]"""
    traits = case.traits
    if not traits.vocab_parallel_loss:
        return traits.logit_bytes * tokens * float(case.model.vocab)
    split = traits.logit_bytes + traits.split_logit_bytes * np.where(plan.tp > 1, 1.0, 0.0)
    return split * tokens * (case.model.vocab / plan.tp)
