"""The moment of a step that needs the most memory: of those of its engine, and the optimizer's step."""

from __future__ import annotations

from functools import reduce
from itertools import groupby

import numpy as np

from planner.cost.case import Case
from planner.cost.memory.reserve import needed_share
from planner.dataclasses import dataclass
from planner.inputs.workload import DTYPE_BYTES
from planner.numeric import Num, maximum, minimum, where
from planner.plan import Plan
from planner.rules import Mask
from planner.techniques.engines.family import GATHERED_BYTES, Moment, Moments, PassBytes, Step
from planner.techniques.engines.rounds import round_moments
from planner.techniques.engines.zero_gradients import (
    NORM_BYTES,
    largest_part,
    staged_bytes,
    stepped_gradients,
)


@dataclass(frozen=True)
class Peak:
    """What comes and goes in a step, at its peak moment. [byte]"""

    activations: Num
    workspace: Num
    """As in `StageMemory`."""
    gradients: Num | None
    """Gradients at that moment, where they do not live through the whole step."""
    moments: Moments
    """All that compete."""
    at_step: Mask = np.False_
    """Whether the moment is the optimizer's step."""


def step_of(
    case: Case, plan: Plan, passes: PassBytes, gradients: Num, gathered: Num, trained: Num = 0.0
) -> Step:
    """Return what decides which moments a step has; ``gradients`` and ``gathered`` as in `Step`."""
    engine = case.traits.engine
    return Step(
        passes,
        plan,
        case.sharding,
        gradients,
        gathered,
        case.gradient_bytes * (not case.hosts_gradients),
        case.reduce_bytes,
        waiting=waiting_bytes(case),
        whole_layers=case.recompute.whole_layer,
        loss_beside=case.loss.beside_backward,
        loss_in_parts=case.traits.loss.chunks > 1.0 or case.loss.by_width,
        whole_tables=not case.tensor_library.regathers,
        after_others=case.traits.optimizer.after_others,
        live_elements=engine.live_elements,
        bucket_elements=engine.bucket_elements,
        hosted=case.offload.optimizer,
        biased=all(one.bias for one in case.model.ffns),
        trained=trained,
        tied=case.model.tied_embeddings,
        small_between=case.method.adapts,
    )


def moments_of(case: Case, step: Step) -> Moments:
    """Return the moments of the passes that compete for the most memory."""
    turning = case.keeps_chunks and case.sharding.shards_gradients
    return round_moments(step) if turning else case.engine.moments(step)


def largest(moments: Moments) -> Peak:
    """Return the peak: the first of the moments that are as large as any."""
    whole = reduce(maximum, (one.size for one in moments))
    alike = [list(group) for _, group in groupby(moments, _parts)]
    last = alike.pop()[0]
    activations, gradients = last.activations, last.gradients
    for group in reversed(alike):
        here = reduce(maximum, (one.size for one in group)) >= whole
        activations = where(here, group[0].activations, activations)
        if gradients is not None and group[0].gradients is not None:
            gradients = where(here, group[0].gradients, gradients)
    workspace = whole if gradients is None else whole - gradients
    return Peak(activations, workspace - activations if last.spans else workspace, gradients, moments)


def _parts(moment: Moment) -> tuple[int, int]:
    """Tell moments apart that have other activations or gradients."""
    return id(moment.activations), id(moment.gradients)


def waiting_bytes(case: Case) -> float:
    """Bytes of flat buckets that wait for gradients where weights are whole and optimizer states are not.

    References
    ----------
    .. [1] DeepSpeed, ``deepspeed/runtime/zero/stage_1_and_2.py``, ``setup_buckets``: two flat buffers of
       ``reduce_bucket_size`` gradients where communication overlaps.
    """
    buckets = case.traits.engine.flat_buckets * case.sharding.shards_optimizer
    return buckets * case.traits.engine.bucket_elements * case.reduce_bytes


def undivided_bytes(case: Case, plan: Plan, passes: PassBytes) -> Num:
    """Bytes by which the gradient of a divided embedding stays whole where nothing reduces it (DTensor)."""
    if case.engine.lasting or case.tensor_library.regathers or case.sharding.shards_gradients:
        return 0.0
    return where(plan.dp * plan.cp > 1, 0.0, case.gradient_bytes * (plan.tp - 1.0) * passes.table)


def stepping_peak(case: Case, peak: Peak, step: Step, states: Num) -> Peak:
    """Return the peak of passes, or the optimizer's step where its flat buffers take more than they did.

    The passes' slack counts: its freed blocks are too small for a flat buffer, and are given back before the
    device is full. ``states`` are the weights that the rank steps.
    """
    if not case.step_bytes:
        return peak
    gradients, flat = step.gradients, flat_bytes(case, step, states)
    present = gradients if peak.gradients is None else peak.gradients
    if case.engine.lays_gradients and not case.sharding.shards_parameters:
        gradients = stepped_gradients(step)
    at_step = flat + gradients > passing_bytes(case, peak, present)
    return Peak(
        activations=where(at_step, 0.0, peak.activations),
        workspace=where(at_step, flat, peak.workspace),
        gradients=where(at_step, gradients, present),
        moments=(
            *peak.moments,
            Moment("the optimizer's step", "optimizer", flat + gradients, 0.0, gradients),
        ),
        at_step=at_step,
    )


def flat_bytes(case: Case, step: Step, states: Num) -> Num:
    """Bytes of the flat buffers in which a rank's gradients are cast for the optimizer's step. [byte]

    Where parameters are sharded a rank steps its weights in groups. Some engines lay the gradients end to end
    before they cast them, or, where ranks share no states, after it; the norm of each is taken in fp64.

    References
    ----------
    .. [1] DeepSpeed 0.19.8, ``deepspeed/runtime/zero/stage_1_and_2.py``, ``step``: ``flatten``, then
       ``to``; ``get_grad_norm_direct``; ``stage3.py``, ``_prepare_fp32_grad_for_sub_group`` and
       ``_create_fp16_sub_groups``; ``deepspeed/runtime/fp16/fused_optimizer.py``, ``step``: ``flatten`` of a
       list of casts.
    """
    sharded, engine = case.sharding.shards_parameters, case.engine
    resting = step.reduce_bytes * step.bucket_elements * (engine.keeps_bucket and sharded)
    if case.offload.optimizer:
        staged = staged_bytes(step) if engine.lays_gradients and not sharded else 0.0
        return resting + staged + 0.0 * states
    cast, group = case.gradient_bytes < DTYPE_BYTES["fp32"], sharded and engine.step_group
    laid = case.gradient_bytes if case.sharding.shards_optimizer else case.step_bytes
    each = case.step_bytes + laid * cast * bool(group or engine.lays_gradients)
    flat = (minimum(states, engine.step_group) if group else states) * each
    if engine.lays_gradients and not (cast or sharded) and case.sharding.shards_gradients:
        flat = 0.0 * states
    if engine.lays_gradients and case.sharding.shards_optimizer:
        flat = maximum(flat, NORM_BYTES * largest_part(step, states))
    return resting + flat


def passing_bytes(case: Case, peak: Peak, gradients: Num) -> Num:
    """Bytes of gradients and of all that passes take, the allocator's reserve included. [byte]"""
    return (1 + needed_share(case)) * (peak.activations + peak.workspace) + gradients


def copied_bytes(case: Case, passes: PassBytes, trained: Num) -> Num:
    """Bytes of the 16-bit copies that autocast makes: of all but an embedding that is no head too. [byte]"""
    whole = case.engine.autocasts and not case.sharding.shards_parameters
    if not whole or case.weight_bytes <= GATHERED_BYTES or not case.method.trains_base:
        return 0.0
    return GATHERED_BYTES * trained - passes.gathered_embedding * (not case.model.tied_embeddings)


def gathered_bytes(case: Case, trained: Num, stored: Num) -> Num:
    """Bytes of sharded weights once gathered: in 16 bit, or as they are stored where that is less. [byte]"""
    if case.method.trains_base:
        return GATHERED_BYTES * trained
    frozen = maximum(0.0, stored - case.weight_bytes * trained)
    return GATHERED_BYTES * trained + frozen * min(1.0, GATHERED_BYTES / case.frozen_linear_bytes)
