"""Bytes on one rank at the peak of a step, stage by stage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from planner.cost.case import Case, piped
from planner.cost.expert_shards import filled_expert_shards
from planner.cost.layer.layer_costs import LayerCost, stage_sum
from planner.cost.memory.activation_offload import chunks_on_device, layer_passes
from planner.cost.memory.graphs import graph_bytes
from planner.cost.memory.host_rules import spilled_bytes
from planner.cost.memory.matrices import first_moments, matrix_bytes, padded_weights, shared_matrices
from planner.cost.memory.message_buffers import message_buffer_bytes
from planner.cost.memory.padding import kept_padding
from planner.cost.memory.peaks import (
    copied_bytes,
    gathered_bytes,
    largest,
    moments_of,
    step_of,
    stepping_peak,
    undivided_bytes,
)
from planner.cost.memory.resting import cached_copies, has_levels, resting_shards, whole_scales
from planner.cost.memory.secondary import secondary_bytes
from planner.cost.memory.weights import StageWeights
from planner.cost.stages import ENCODER, ENDS, Piece, Stages, whole_ends
from planner.dataclasses import dataclass, replace
from planner.formulas.elementwise import BOUND_KEPT
from planner.numeric import Num, ceil, doublings, maximum, minimum, power, where
from planner.plan import Plan
from planner.rules import Mask
from planner.techniques.engines.family import Moment, Moments, PassBytes
from planner.techniques.engines.fetches import free_streamed_bytes
from planner.techniques.sharding.family import sharded_states


@dataclass(frozen=True)
class StageMemory:
    """Bytes of each stage at its peak moment; the first axis is the stage. [byte]"""

    weights: Num
    gradients: Num
    optimizer: Num
    """States at rest."""
    activations: Num
    """What forward leaves for backward, for all micro-batches in flight."""
    workspace: Num
    """What exists at the peak moment only."""
    at_step: Mask = np.False_
    """Whether that moment is the optimizer's step, whose flat buffers are the workspace then."""
    idle: Num = 0.0
    """Memory that serves nothing else: freed gradients of the step before, and during the optimizer's step
    what CUDA graphs hold, as far as the peak is not higher without it."""
    moments: Moments = ()
    """All that compete."""
    buffers: Num = 0.0
    """Of messages that have buffers of their own, which no allocator sees."""
    streamed: Num = 0.0
    """Free blocks of a stream of gathers, which serve no other, given back where the device is full."""

    @property
    def allocated(self) -> Num:
        """Live tensors at the peak. [byte]"""
        return self.weights + self.gradients + self.optimizer + self.activations + self.workspace

    def at(self, moment: Moment) -> Num:
        """Live tensors at one of the moments. [byte]"""
        whole = self.weights + self.optimizer + moment.size
        whole = whole if moment.spans else whole + moment.activations
        return whole if moment.gradients is not None else whole + self.gradients


def pass_bytes(case: Case, plan: Plan, costs: Mapping[Piece, LayerCost], stages: Stages) -> PassBytes:
    """Return what the passes of a step need on each stage."""
    if case.schedule.routes > 1:
        stages = whole_ends(stages)
    layers = [cost for piece, cost in costs.items() if piece[0] not in (*ENDS, ENCODER)]
    rebuilt, held = layers[0].rebuilt, layers[0].held
    largest: Num = 0.0
    product: Num = 0.0
    gathered: Num = 0.0
    for cost in layers:
        product = maximum(product, cost.product)
        rebuilt, held = maximum(rebuilt, cost.rebuilt), maximum(held, cost.held)
        trained = cost.trained + cost.expert_trained
        largest = maximum(largest, trained)
        gathered = maximum(gathered, gathered_bytes(case, trained, cost.stored + cost.expert_stored))
    tokens = case.rank_tokens(plan)
    embedding = _gathered_end(case, stages, costs, ("embedding",))
    tied = minimum(_end(stages, costs, ("tied_head",), None), 1.0)
    return PassBytes(
        activations=_activations(case, plan, costs, stages),
        rebuilt=rebuilt,
        loss=minimum(_end(stages, costs, ("head", "tied_head"), None), 1.0) * _logits(case, plan, tokens),
        largest_layer=largest,
        gathered_layer=gathered,
        gathered_head=_gathered_end(case, stages, costs, ("head",)) + tied * embedding,
        gathered_embedding=embedding,
        head=_end(stages, costs, ("head",), "trained")
        + tied * _end(stages, costs, ("embedding",), "trained"),
        one_layer=held,
        product=product,
        **(_chunk_bytes(case, plan, costs, stages) if case.keeps_chunks else {}),
        **(_encoder_bytes(costs, stages) if case.engine.gathers_encoder and case.model.encoder else {}),
        graphed=_graphed(case, plan, costs, stages),
    )


def _encoder_bytes(costs: Mapping[Piece, LayerCost], stages: Stages) -> dict[str, Num]:
    """Return the weights of an encoder that learn, and what it leaves for its backward and needs besides."""
    left = _end(stages, costs, (ENCODER,), "held") + _end(stages, costs, (ENCODER,), "rebuilt")
    return {"encoder": _end(stages, costs, (ENCODER,), "trained"), "encoder_left": left}


def _chunk_bytes(case: Case, plan: Plan, costs: Mapping[Piece, LayerCost], stages: Stages) -> dict[str, Num]:
    """Return the weights of a rank's largest chunk: those that learn, and all of them gathered."""
    layers: Num = 0.0
    for piece, count in stages.counts.items():
        layers = layers + count * (piece[0] not in ENDS)
    share = ceil(layers / plan.vpp) / maximum(layers, 1.0)
    trained = share * (
        stage_sum(costs, stages, "trained", False) + stage_sum(costs, stages, "expert_trained", False)
    )
    stored = share * (
        stage_sum(costs, stages, "stored", False) + stage_sum(costs, stages, "expert_stored", False)
    )
    return {"chunk": trained, "gathered_chunk": gathered_bytes(case, trained, stored)}


def _graphed(case: Case, plan: Plan, costs: Mapping[Piece, LayerCost], stages: Stages) -> Num:
    """Bytes of the micro-batches in flight that lie in the memory of layers' graphs. [byte]"""
    if not case.graphs.modules:
        return 0.0
    return stage_sum(costs, stages, "graphed", False) * (chunks_in_flight(case, plan, stages) / plan.vpp)


def stage_memory(
    case: Case, plan: Plan, passes: PassBytes, held: StageWeights, stages: Stages
) -> StageMemory:
    """Return the bytes of every stage at its peak."""
    sharding, schedule, dense = case.sharding, case.schedule, plan.zero_shards
    if schedule.weight_copies != 1.0:
        held = held.mapped(lambda column: column * schedule.weight_copies)
    padding, matrices = kept_padding(case, plan, held.counts), shared_matrices(case, plan, held)
    moments = first_moments(case, plan, held.counts) + matrix_bytes(matrices)
    moments = moments / sharding.optimizer_shards(dense)
    held = padded_weights(case, held, matrices)
    trained = held.trained + padding * case.method.trains_base
    whole = cached_copies(case, held.stored, held.trained)
    scales = whole_scales(case, plan, held)
    stored = held.stored - whole - scales + padding * case.weight_bytes
    weights, gradients, states = sharded_states(stored, trained, trained, dense, sharding)
    if has_levels(case):
        near, node = resting_shards(case, plan)
        weights, gradients = stored / near, trained / node
    if case.has_experts:
        cached = cached_copies(case, held.expert_stored, held.expert_trained)
        inside = (held.expert_stored - cached, held.expert_trained, held.expert_trained)
        whole = whole + cached
        parts = sharded_states(*inside, filled_expert_shards(case, plan), sharding)
        weights, gradients, states = weights + parts[0], gradients + parts[1], states + parts[2]
    weights = weights + whole
    if not schedule.flushes:
        weights = weights * schedule.weight_versions(plan.pp, plan.vpp, plan.num_microbatches, stages.rank)
    kept_bytes = case.gradient_bytes + case.traits.optimizer.gradient_copy_bytes
    gradients = gradients * (kept_bytes * (not case.hosts_gradients)) + undivided_bytes(case, plan, passes)
    rested = secondary_bytes(case, plan, trained) + spilled_bytes(case, plan) + scales
    weights = weights * (not case.offload.fetches) + rested
    trained = held.trained + held.expert_trained
    gathered = copied_bytes(case, passes, trained)
    if sharding.shards_parameters or (case.engine.at_rest and sharding.shards_gradients):
        gradients = where(piped(case, plan), trained * case.reduce_bytes, gradients)
        gathered = gathered_bytes(case, trained, held.stored + held.expert_stored)
    step = step_of(case, plan, passes, gradients, gathered, trained)
    peak = largest(moments_of(case, step))
    workspaces, beyond = product_workspace_bytes(case), graph_bytes(case, peak, passes, states, gradients)
    peak = stepping_peak(case, peak, step, states)
    present = gradients if peak.gradients is None else peak.gradients
    return StageMemory(
        weights=weights,
        gradients=present,
        optimizer=states * case.device_state_bytes + moments * (1.0 - case.offload.hosted),
        activations=peak.activations,
        workspace=peak.workspace + workspaces,
        at_step=peak.at_step,
        idle=(maximum(0.0, gradients - present) if case.engine.idles_gradients else 0.0) + beyond,
        moments=_with_workspaces(peak.moments, workspaces),
        buffers=message_buffer_bytes(case, plan),
        streamed=free_streamed_bytes(step, peak.at_step),
    )


def _with_workspaces(moments: Moments, nbytes: float) -> Moments:
    """Return moments with what products work in, which the optimizer's step has not."""
    if not nbytes:
        return moments
    return tuple(one if one.phase == "optimizer" else replace(one, size=one.size + nbytes) for one in moments)


PRODUCT_WORKSPACE: Final = 2.0**25
"""Size of a workspace of matrix products. [byte]

References
----------
.. [1] NVIDIA, Transformer Engine, ``pytorch/cpp_extensions/gemm.py``, ``get_cublas_workspace_size_bytes``.
.. [2] PyTorch, ``aten/src/ATen/cuda/CUDABlas.cpp`` and ``CublasHandlePool.cpp``: one for each
   thread's handle and stream, forward and backward.
"""

EXPERT_STREAMS: Final = 4.0
"""Streams of grouped products, each with a workspace. [-]

References
----------
.. [1] NVIDIA, Transformer Engine, ``pytorch/cpp_extensions/gemm.py``, ``get_cublas_workspace``.
"""


def product_workspace_bytes(case: Case) -> float:
    """Bytes of the workspaces of matrix products that live in the allocator's memory. [byte]"""
    workspaces = case.traits.allocator.product_workspaces
    return PRODUCT_WORKSPACE * (workspaces + EXPERT_STREAMS * (workspaces > 0) * case.has_experts)


def first_step_bytes(case: Case, memory: StageMemory) -> Num:
    r"""Live tensors of each stage at the peak of a job's first step, where gradients live through the step.

    .. math:: \max\left(A - m\,n,\; S + b\,n\right)

    Its passes, of :math:`A` in later steps, have no moments yet, :math:`m` bytes for each of the :math:`n`
    weights that the rank steps; its optimizer makes them, beside the states :math:`S` and :math:`b` bytes of
    each weight for the step.

    References
    ----------
    .. [1] PyTorch, ``torch/optim/adam.py``, ``_init_group``: moments are made in the first step.
    """
    if not case.optimizer_bytes:
        return memory.allocated
    stepped = memory.optimizer / case.optimizer_bytes
    states = memory.weights + memory.gradients + memory.optimizer
    passing = memory.allocated - stepped * case.moment_bytes
    return where(memory.at_step, memory.allocated, maximum(passing, states + stepped * case.step_bytes))


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
    if case.schedule.hosts:
        chunks = chunks_on_device(case, plan, layer_passes(costs, stages), stages.rank)
        return held * (chunks / plan.vpp) + stage_sum(costs, stages, "held", True)
    kept = held_in_flight(case, plan, costs, stages) + stage_sum(costs, stages, "held", True)
    if case.traits.pipeline.whole_in_flight and case.sequence_parallel:
        kept = kept + whole_in_flight(case, plan, stages)
    if not case.attention_kernel.keeps_scores or not case.schedule.splits_backward:
        return kept
    degrees = (plan.pp, plan.vpp, plan.num_microbatches)
    waiting = case.schedule.awaiting_weight_chunks(*degrees, stages.rank) / plan.vpp
    return kept - waiting * stage_sum(costs, stages, "scores", ends=False)


def whole_in_flight(case: Case, plan: Plan, stages: Stages) -> Num:
    """Bytes that micro-batches in flight keep undivided by tp, where a pipeline has sequence parallelism."""
    tokens = case.rank_tokens(plan)
    each = case.traits.pipeline.whole_in_flight * 2.0 * tokens * case.model.hidden
    flying = chunks_in_flight(case, plan, stages) / plan.vpp
    return where((plan.pp > 1.0) & (plan.tp > 1.0), each * flying, 0.0)


def held_in_flight(case: Case, plan: Plan, costs: Mapping[Piece, LayerCost], stages: Stages) -> Num:
    """Bytes that layers keep for all chunks in flight, those that run again by their own crest. [byte]"""
    crests = stages.crest, stages.crest_again
    flying = tuple(chunks_in_flight(case, plan, stages, one) / plan.vpp for one in crests)
    result: Num = 0.0
    for piece, count in stages.counts.items():
        if piece[0] not in ENDS:
            result = result + count * costs[piece].held * flying[piece[1]]
    return result


def chunks_in_flight(case: Case, plan: Plan, stages: Stages, crest: Num | None = None) -> Num:
    """Chunks whose activations a rank holds at its peak, in mean chunks where they are unlike. [-]

    ``crest``: that of some layers, where it is not that of all.
    """
    crest = stages.crest if crest is None else crest
    chunks = case.schedule.chunks_alive(plan.pp, plan.vpp, plan.num_microbatches, stages.rank)
    if case.traits.pipeline.slots:
        room = case.traits.pipeline.slots * plan.pp * plan.vpp
        chunks = where((stages.rank < plan.pp - 1) & (plan.num_microbatches > 1), room, chunks)
        return chunks * crest
    return minimum(chunks * crest, maximum(chunks, plan.num_microbatches * plan.vpp))


def _end(stages: Stages, costs: Mapping[Piece, LayerCost], names: tuple[str, ...], field: str | None) -> Num:
    """Sum of a field over the ends called ``names`` that each stage has, or their number."""
    result: Num = 0.0
    for name in names:
        count = stages.counts.get((name, False), 0.0)
        if (name, False) in costs:
            result = result + count * (getattr(costs[name, False], field) if field else 1.0)
    return result


def loss_parts(case: Case, tokens: Num) -> Num:
    """Return in how many parts a rank's tokens pass through head and loss. [-]

    References
    ----------
    .. [1] Liger-Kernel 00eba634, ``src/liger_kernel/ops/fused_linear_cross_entropy.py``: ``inc_factor`` and
       ``chunk_size``.
    """
    parts: Num = max(1.0, case.traits.loss.chunks)
    if not case.loss.by_width:
        return parts
    wanted = ceil(tokens / ceil(case.model.vocab / case.model.hidden))
    return maximum(parts, tokens / minimum(tokens, power(2.0, doublings(wanted))))


def _logits(case: Case, plan: Plan, tokens: Num) -> Num:
    """Bytes of the logits and of what the loss makes of them, of one part where it comes in parts. [byte]

    Then the gradient of the hidden state is gathered from all parts, in fp32 (torchtitan) or as the state is
    (DeepSpeed, Liger).

    References
    ----------
    .. [1] torchtitan b5bcd76c, ``torchtitan/components/loss.py``, ``ChunkedLossWrapper`` and
       ``GradAccumulator``.
    .. [2] DeepSpeed, ``deepspeed/runtime/sequence_parallel/ulysses_sp.py``, ``SequenceTiledCompute``.
    """
    if case.model.diffusion is not None:
        return 0.0
    traits, parts = case.traits.loss, loss_parts(case, tokens)
    gathered = where(parts > 1.0, case.loss.gradient_bytes * tokens * case.model.hidden, 0.0)
    there = float(case.model.vocab) if not traits.vocab_parallel else case.model.vocab / plan.tp
    return live_logit_bytes(case, plan) * (tokens / parts) * there + gathered


def live_logit_bytes(case: Case, plan: Plan) -> Num:
    """Bytes of one logit that a rank has at the loss, gradient included. [byte]

    Logits that are gathered for it come through a list of the ranks' parts and one flat buffer of all, whose
    blocks fixed segments keep: 2 bytes each where logits are in 16 bit.

    References
    ----------
    .. [1] Aleph Alpha, ``scaling``, ``core/nn/linear/utils.py``, ``_all_concat``; PyTorch,
       ``ProcessGroupNCCL.cpp``, ``allgather`` (``flatten_for_scatter_gather``).
    """
    traits = case.traits.loss
    further = case.loss.split_bytes if traits.vocab_parallel else case.loss.gathered_bytes
    alone = traits.logit_bytes + (0.0 if case.model.numerics.logit_softcap is None else BOUND_KEPT)
    return alone + further * where(plan.tp > 1, 1.0, 0.0) if further else alone
