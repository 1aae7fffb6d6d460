"""The moments of a step that may need the most memory: the loss, a layer's backward, the optimizer."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from planner.cost.case import Case, piped
from planner.numeric import Num, either, least, most
from planner.plan import Plan
from planner.rules import Mask
from planner.runtimes._traits import Traits

GATHERED_BYTES = 2.0
"""Weights that learn are gathered in 16 bit. [byte]"""


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
    graphed : Num
        Of ``activations``, those in the memory of layers' CUDA graphs.
    chunk : Num
        Weights that learn in the largest chunk, where chunks stay gathered. [element]
    gathered_chunk : Num
        All weights of that chunk, gathered.
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
    graphed: Num = 0.0
    chunk: Num = 0.0
    gathered_chunk: Num = 0.0


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
    beside = passes.loss * case.traits.loss.beside_backward
    workspace = most(passes.rebuilt + beside, passes.loss) + waiting_bytes(case)
    return Peak(passes.activations, workspace, None, passes.loss > passes.rebuilt)


def waiting_bytes(case: Case) -> float:
    """Bytes of flat buckets that wait for gradients where weights are whole and optimizer states are not.

    References
    ----------
    .. [1] DeepSpeed, ``deepspeed/runtime/zero/stage_1_and_2.py``, ``setup_buckets``: two flat buffers of
       ``reduce_bucket_size`` gradients where communication overlaps.
    """
    buckets = case.traits.engine.flat_buckets * case.sharding.shards_optimizer
    return buckets * case.traits.engine.bucket_elements * case.reduce_bytes


def passing_peak(case: Case, plan: Plan, passes: PassBytes, gradients: Num, gathered: Num) -> Peak:
    """Return the peak where gradients come with the backward pass, and sharded weights layer by layer.

    Four moments compete: the loss, or the head's own gradient, with the head gathered; the backward of the
    last layers, with all activations, two gathered layers and one whole gradient to be reduced; that of the
    first, with the embedding gathered next and all gradients but its own there; and the embedding's. In the
    first micro-batch of a step the gradients of the step before are gone, but for the buckets that plain data
    parallelism keeps. Where weights stay gathered, those of all layers are there until the last one's
    backward; in a pipeline until the step's end.

    References
    ----------
    .. [1] PyTorch, ``torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py``: unshard, prefetch, reduce.
    """
    sharded = case.sharding.shards_parameters
    reduced = case.reduce_bytes * sharded * reduced_elements(case.traits, passes)
    buckets = not case.sharding.shards_optimizer
    earlier = gradients * either((plan.num_microbatches > 1) | (buckets & (plan.dp > 1)), 1.0, 0.0)
    latest = earlier if passes.grown is None else most(earlier, gradients * passes.grown)
    layer = sharded * passes.gathered_layer
    body = (gathered - passes.gathered_head) * case.sharding.keeps_gathered
    loss = passes.activations + head_peak(case, plan, passes) + earlier + body
    beside = (passes.loss + sharded * passes.gathered_head) * case.traits.loss.beside_backward
    live = live_bytes(case.traits, passes)
    waiting, made, inside = reduced, gradients, passes.rebuilt
    if case.traits.engine.sharded_at_rest:
        gone = passes.one_layer * (not case.recompute.whole_layer)
        head = case.reduce_bytes * sharded * passes.head * (not case.traits.loss.beside_backward)
        waiting = np.maximum(head, reduced - gone + passed_bytes(case, plan, passes) * (gradients > earlier))
        inside = most(inside, GATHERED_BYTES * passes.largest_layer - passes.one_layer)
        made = most(earlier, gradients - unmade_bytes(case, plan, passes))
    last = passes.activations + inside + beside + waiting + latest
    last = last + most(least(2 * layer, live), body)
    following = least(layer + most(sharded * passes.gathered_embedding, layer), live)
    following = either(piped(case, plan), most(following, gathered), following)
    first = passes.one_layer + inside + following + reduced + made
    table = sharded * passes.gathered_embedding / GATHERED_BYTES
    unmade = either(gradients > earlier, table * case.gradient_bytes / plan.zero_shards, 0.0)
    beside_table = most(table * case.reduce_bytes, GATHERED_BYTES * table + reduced - unmade)
    ending: Num = GATHERED_BYTES * table + whole_table_bytes(case, plan, table) + beside_table + gradients
    first = most(first, ending * case.traits.engine.sharded_at_rest)
    whole = most(most(loss, last), first)
    at_first = first >= whole
    before = earlier if passes.grown is None else either(last >= whole, latest, earlier)
    present = either(at_first, made, before)
    activations = either(at_first, passes.one_layer, passes.activations)
    return Peak(activations, whole - present - activations, present, loss >= whole)


def turning_peak(case: Case, plan: Plan, passes: PassBytes) -> Peak:
    """Return the peak where a chunk runs several passes in a row, its gradients whole until the last one.

    Two chunks are gathered at once, the next one ahead of its passes, where weights are sharded; two have
    their gradients whole, the last one while it is reduced. Four moments compete: the loss; the first chunk's
    backward, with all activations; the next one's, when one chunk's are gone; and that of the chunk that
    ends, with the embedding.

    References
    ----------
    .. [1] J. Lamy-Poirier, "Breadth-First Pipeline Parallelism," arXiv:2211.05953 (when a chunk's weights are
       gathered and its gradients reduced).
    """
    sharded = case.sharding.shards_parameters
    chunk, head = sharded * passes.gathered_chunk, sharded * passes.gathered_head
    whole_bytes = case.reduce_bytes
    unreduced, ends = whole_bytes * passes.chunk, whole_bytes * passes.head
    table = sharded * passes.gathered_embedding + whole_bytes * passes.gathered_embedding / GATHERED_BYTES
    beside = passes.loss * case.traits.loss.beside_backward
    loss = passes.activations + passes.loss + head + chunk + ends
    inside = passes.rebuilt + beside + 2 * chunk
    first = passes.activations + inside + head + ends + unreduced
    part = passes.activations / plan.vpp
    following = passes.activations - part + inside + ends + 2 * unreduced
    last = part + passes.rebuilt + chunk + table + 2 * unreduced
    whole = most(most(loss, first), most(either(plan.vpp > 2, following, 0.0), last))
    ending = last >= whole
    activations = either(ending, part, passes.activations)
    return Peak(activations, whole - activations, None, loss >= whole)


def passed_bytes(case: Case, plan: Plan, passes: PassBytes) -> Num:
    """Bytes of the rank's own gradients of the head and of the last layer, once they are reduced."""
    elements = passes.largest_layer + passes.head
    return elements * case.gradient_bytes / case.sharding.gradient_shards(plan.zero_shards)


def whole_table_bytes(case: Case, plan: Plan, table: Num) -> Num:
    """Bytes of an embedding's gradient at its whole size, which DTensor makes of a divided one.

    References
    ----------
    .. [1] PyTorch 2.13, ``torch/distributed/tensor/_ops/_embedding_ops.py``, the backward's strategy; counted
       by ``torch.distributed._tools``.
    """
    divided = either(plan.tp > 1, plan.tp, 0.0) * (not case.traits.tensor.sequence_regather)
    return GATHERED_BYTES * divided * table


def undivided_bytes(case: Case, plan: Plan, passes: PassBytes) -> Num:
    """Bytes by which that gradient stays larger than the rank's part where nothing reduces it."""
    if (
        case.traits.engine.persistent_gradients
        or case.traits.tensor.sequence_regather
        or case.sharding.shards_gradients
    ):
        return 0.0
    table = passes.gathered_embedding / GATHERED_BYTES
    return either(plan.dp * plan.cp > 1, 0.0, case.gradient_bytes * (plan.tp - 1.0) * table)


def unmade_bytes(case: Case, plan: Plan, passes: PassBytes) -> Num:
    """Bytes of the gradients that the first layer's backward is yet to make: its own, the embedding's."""
    elements = passes.largest_layer + passes.gathered_embedding / GATHERED_BYTES
    return elements * case.gradient_bytes / case.sharding.gradient_shards(plan.zero_shards)


def head_peak(case: Case, plan: Plan, passes: PassBytes) -> Num:
    """Bytes at the head beside activations: the loss or, where the head is sharded, its gradient if larger.

    That is there in 16 bit, once more to be reduced, and as the rank's own part. Where the loss comes in
    parts, the gradients of all are summed as they will be reduced, beside the logits of the last.
    """
    sharded = case.sharding.shards_parameters
    parts = GATHERED_BYTES + case.reduce_bytes + case.gradient_bytes / plan.zero_shards
    summed = (GATHERED_BYTES + case.reduce_bytes) * sharded * passes.head * (case.traits.loss.chunks > 1.0)
    return sharded * passes.gathered_head + most(passes.loss + summed, sharded * passes.head * parts)


def live_bytes(traits: Traits, passes: PassBytes) -> Num:
    """Bytes of sharded weights that are gathered at once at most; endless where whole layers are.

    References
    ----------
    .. [1] DeepSpeed, ``deepspeed/runtime/zero/partitioned_param_coordinator.py``: modules are fetched one by
       one and kept while they come again within ``stage3_max_reuse_distance`` weights, up to
       ``stage3_max_live_parameters``.
    """
    if not traits.engine.live_elements:
        return math.inf
    return GATHERED_BYTES * (passes.product + traits.engine.live_elements)


def reduced_elements(traits: Traits, passes: PassBytes) -> Num:
    """Gradients that wait to be reduced: a layer's, or a bucket of them. [element]"""
    if not traits.engine.bucket_elements:
        return passes.largest_layer
    return least(passes.largest_layer, most(passes.product, traits.engine.bucket_elements))


def stepping_peak(case: Case, peak: Peak, states: Num, gradients: Num) -> Peak:
    """Return the peak of passes, or the optimizer's step where its flat buffers take more than they did.

    The passes' slack counts: its freed blocks are too small for a flat buffer, and are given back before the
    device is full.

    References
    ----------
    .. [1] DeepSpeed, ``deepspeed/runtime/zero/stage_1_and_2.py``, ``step``: a rank's gradients are
       laid end to end in fp32; ``stage3.py``, ``_prepare_fp32_grad_for_sub_group``.
    """
    if not case.step_bytes:
        return peak
    flat = states * (case.step_bytes * (not case.offload.optimizer))
    present = gradients if peak.gradients is None else peak.gradients
    at_step = flat + gradients > passing_bytes(case, peak, present)
    return Peak(
        activations=either(at_step, 0.0, peak.activations),
        workspace=either(at_step, flat, peak.workspace),
        gradients=either(at_step, gradients, present),
        at_loss=np.logical_and(peak.at_loss, np.logical_not(at_step)),
        at_step=at_step,
    )


def passing_bytes(case: Case, peak: Peak, gradients: Num) -> Num:
    """Bytes of gradients and of all that passes take, the allocator's reserve included. [byte]"""
    return (1 + case.traits.allocator.reserve_share) * (peak.activations + peak.workspace) + gradients


def gathered_bytes(case: Case, trained: Num, stored: Num) -> Num:
    """Bytes of sharded weights once gathered: in 16 bit, or as they are stored where that is less. [byte]"""
    if case.method.trains_base:
        return GATHERED_BYTES * trained
    frozen = most(0.0, stored - case.weight_bytes * trained)
    return GATHERED_BYTES * trained + frozen * min(1.0, GATHERED_BYTES / case.frozen_linear_bytes)
