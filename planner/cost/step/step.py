"""The price of a step: seconds and bytes, for one plan or for millions, by the same lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from planner import numeric
from planner.cost.case import Case
from planner.cost.layer.layer_costs import LayerCost, stage_sum
from planner.cost.memory.activation_offload import LayerPasses, bytes_beside_host, layer_passes
from planner.cost.memory.allocator import retried_seconds, stalled_seconds
from planner.cost.memory.host_checkpoints import (
    bytes_beside_checkpoints,
    checkpoint_seconds,
    hosts_checkpoints,
)
from planner.cost.memory.reserve import needed_share
from planner.cost.memory.stage_memory import StageMemory, pass_bytes, stage_memory
from planner.cost.memory.weights import StageWeights, stage_weights
from planner.cost.stages import Piece, Stages
from planner.cost.step.host_time import host_step_seconds
from planner.cost.step.step_end import StepEnd, least_seconds, step_end
from planner.cost.step.unequal import waiting_seconds
from planner.cost.traffic.data_parallel import data_parallel_seconds
from planner.cost.traffic.host_copies import copies_beside_seconds
from planner.cost.traffic.messages import are_unlike, hop_seconds
from planner.cost.traffic.sharing import sharing
from planner.dataclasses import dataclass
from planner.formulas.pipeline import Pipe
from planner.numeric import Num, Truth, maximum, where
from planner.plan import Plan
from planner.techniques.engines.family import PassBytes


@dataclass(frozen=True)
class PassPrice:
    """The forward and backward passes of a step; arrays over stages have the stage first."""

    busy: Num
    """Seconds of all passes, bubble included. [s]"""
    bound: Num
    """The same for the best assignment of layers to stages that there could be, by the closed form. [s]"""
    floor: Num
    """The same, however the step is played. [s]"""
    micro: Num
    """Seconds of a micro-batch on each stage, its messages included. [s]"""
    hop: Num
    """Exposed seconds of messages between stages in each micro-batch, on each stage. [s]"""
    unlike: Truth
    """Whether far and near messages make stages of equal layers unlike."""
    window: Num
    """Seconds of a micro-batch on the slowest stage that may hide traffic: all but what runs again. [s]"""
    weights: StageWeights
    """Weights of each stage."""
    mean: StageWeights
    """The mean over the stages."""
    nbytes: PassBytes
    """What the passes need in memory, where nothing is on the host."""
    layers: LayerPasses
    """What of all this is of layers."""
    bounded: bool = True
    """Whether bounds were asked for; without, they are 0, which no step beats either."""

    @property
    def one_stage(self) -> bool:
        """Whether there is one stage alone, which is the mean one."""
        return isinstance(self.micro, float) and self.weights == self.mean


@dataclass(frozen=True)
class StepPrice:
    """Time and memory of a step; arrays over stages have the stage first."""

    step: Num
    """Seconds of an optimizer step. [s]"""
    bound: Num
    """Seconds that no assignment of the layers to the stages can beat, by the closed form. [s]"""
    floor: Num
    """The same, however the step is played. [s]"""
    total_bytes: Num
    """Device memory in use on the peak rank. [byte]"""
    data_parallel: Num
    optimizer: Num
    offload: Num
    """Seconds at the end of the step on each stage, unhidden copies of activations among them. [s]"""
    host: Num
    """Seconds that the device then waits for its host. [s]"""
    memory: StageMemory
    """Bytes of each stage."""


def reserve_bytes(case: Case, memory: StageMemory) -> Num:
    """Allocator reserve: a share of what passes need, and idle gradients; states come once. [byte]"""
    passing = memory.activations + memory.workspace
    if case.step_bytes:
        passing = where(memory.at_step, 0.0, passing)
    return needed_share(case) * passing + memory.idle


def unseen_bytes(case: Case, memory: StageMemory) -> Num:
    """What no allocator sees: context, communicators and buffers of messages. [byte]"""
    return case.traits.allocator.framework_bytes + memory.buffers


def device_bytes(case: Case, memory: StageMemory) -> Num:
    """What the device reports in use: live tensors, allocator reserve, and what no allocator sees. [byte]"""
    return memory.allocated + reserve_bytes(case, memory) + unseen_bytes(case, memory)


def whole_model(costs: Mapping[Piece, LayerCost], totals: Mapping[Piece, Num], field: str) -> Num:
    """Sum of a field over all layers and ends of the model."""
    result: Num = 0.0
    for piece, count in totals.items():
        result = result + count * getattr(costs[piece], field)
    return result


def price_passes(
    case: Case,
    plan: Plan,
    costs: Mapping[Piece, LayerCost],
    stages: Stages,
    totals: Mapping[Piece, Num],
    known: tuple[StageWeights, StageWeights] | None = None,
    bounded: bool = True,
) -> PassPrice:
    r"""Price the passes of a step: all but data parallelism and the optimizer.

    .. math:: t = m\,t_{max} + t_{bubble}

    Parameters
    ----------
    case : Case
        The job and its techniques; sharding and offload do not matter here.
    plan : Plan
        The degrees, scalars or columns.
    costs : mapping
        Cost of each piece of the model, of the plan's shape.
    stages : Stages
        Pieces of each stage: all of them for a scalar plan, the deciding ones for a batch.
    totals : mapping
        Pieces of the whole model. [-]
    known : tuple of StageWeights, optional
        Weights of each stage and of the mean one, where they are known already.
    bounded : bool
        Whether what no assignment of the layers can beat is asked for, and the mean stage, which it needs.

    Notes
    -----
    The bubble of unlike stages is that of a pipeline whose other stages take their mean time: for 1F1B the
    sum of all stages less the slowest, which is exact where the slowest is the last. With no more
    micro-batches than stages, and under some schedules always, a played step whose early stages take longer
    hides up to half of the bubble, and so does a step some of whose messages come from farther away than
    others: in 1F1B stage :math:`i` takes :math:`\sum_{k<i} t_k + m t_i`, and the
    largest of these is never below :math:`m + (p-1)/2` mean stages.

    References
    ----------
    .. [1] D. Narayanan et al., arXiv:2104.04473, 2021, sec. 2.2 (bubble of 1F1B and interleaving).
    """
    hop = hop_seconds(case, plan, stages.messages)
    hops = hop_seconds(case, plan, stages.all_messages)
    micro = stage_sum(costs, stages, "seconds") + hop
    everything = whole_model(costs, totals, "seconds") + hops
    forward = (whole_model(costs, totals, "forward") + hops / 2) / everything
    weight = whole_model(costs, totals, "weight_gradient") / everything
    share = (forward, 1.0 - forward - weight, weight)
    bound: Num = 0.0
    floor: Num = 0.0
    unlike: Truth = False
    if bounded:
        even = everything / plan.pp
        work, fill = plan.num_microbatches * even, _bubble(case, plan, everything, even, share)
        hidden = 0.0 if case.pipeline_code.occupies else hops / everything
        floor = (work + LEAST_FILL * fill) * (1.0 - hidden)
        unlike = are_unlike(case, plan, stages.all_messages, even)
        steady = plan.num_microbatches > plan.pp
        bound = where(unlike | case.plays, floor, where(steady, work + fill, floor))
        held, mean = known or (stage_weights(case, costs, stages), mean_weights(case, plan, costs, totals))
    else:
        held = mean = stage_weights(case, costs, stages)
    return PassPrice(
        busy=_busy(case, plan, micro, everything, share),
        bound=bound,
        floor=floor,
        micro=micro,
        hop=hop,
        unlike=unlike,
        window=_window(costs, stages, micro),
        weights=held,
        mean=mean,
        nbytes=pass_bytes(case, plan, costs, stages),
        layers=layer_passes(costs, stages),
        bounded=bounded,
    )


def _window(costs: Mapping[Piece, LayerCost], stages: Stages, micro: Num) -> Num:
    """Seconds of a micro-batch on the slowest stage behind which traffic hides. [s]

    What runs again comes before the gradients of its layer are there to send, and keeps the device from what
    is: were it a window too, recompute would cost nothing wherever traffic takes longer than the passes.
    """
    if not any(numeric.any(costs[piece].again) for piece in stages.counts):
        return numeric.max(micro)
    return numeric.max(micro - stage_sum(costs, stages, "again"))


def _busy(case: Case, plan: Plan, micro: Num, everything: Num, share: tuple[Num, Num, Num]) -> Num:
    """Seconds of all passes of a step whose stages take ``micro`` each, bubble included. [s]"""
    slowest = numeric.max(micro)
    return plan.num_microbatches * slowest + _bubble(case, plan, everything, slowest, share)


@dataclass(frozen=True)
class StepBytes:
    """What a step needs in memory, whatever its seconds; arrays over stages have the stage first."""

    passing: PassBytes
    """Of the passes, without what waits on the host."""
    memory: StageMemory
    """Bytes of each stage."""
    total: Num
    """What the device of each stage reports in use. [byte]"""


def price_bytes(case: Case, plan: Plan, passes: PassPrice, stages: Stages) -> StepBytes:
    """Return what a step with these passes needs in memory."""
    nbytes = passes.nbytes
    if case.offload.layers:
        nbytes = bytes_beside_host(case, plan, nbytes, passes.layers, stages.rank)
    if hosts_checkpoints(case):
        nbytes = bytes_beside_checkpoints(nbytes, passes.layers)
    memory = stage_memory(case, plan, nbytes, passes.weights, stages)
    return StepBytes(nbytes, memory, device_bytes(case, memory))


def price_step(case: Case, plan: Plan, passes: PassPrice, end: StepEnd, held: StepBytes) -> StepPrice:
    r"""Price a whole step from its passes, its end and its memory.

    .. math:: t = t_{passes} + \max_i (t_{dp,i} + t_{opt,i})

    Parameters
    ----------
    case : Case
        The job and its techniques.
    plan : Plan
        The degrees, scalars or columns.
    passes : PassPrice
        The passes of the same plan.
    end : StepEnd
        What the end of the step takes.
    held : StepBytes
        What it needs in memory.

    References
    ----------
    .. [1] S. Rajbhandari et al., arXiv:1910.02054, 2020, sec. 7 (what a step reduces and gathers).
    """
    exchange = data_parallel_seconds(case, plan, end.traffic, passes.micro, passes.window)
    optimizer, offload = end.optimizer, end.offload
    if case.offload.fetches:
        bare = data_parallel_seconds(case, plan, end.traffic.fetched, passes.micro, passes.window)
        exchange, offload = bare, offload + exchange - bare
    if case.offload.layers:
        offload = offload + copies_beside_seconds(case, plan, passes.layers, end.links)
    if hosts_checkpoints(case):
        offload = offload + checkpoint_seconds(case, plan, passes.layers)
    if case.retry_seconds:
        optimizer = optimizer + retried_seconds(case, plan, held.passing, held.total)
    if case.traits.allocator.full_message_seconds:
        optimizer = optimizer + stalled_seconds(case, plan, held.total)
    step = passes.busy + numeric.max(exchange + optimizer + offload)
    if case.workload.seq_lens is not None:
        step = step + waiting_seconds(case, plan)
    host = host_step_seconds(case, plan)
    least = least_seconds(case, plan, end) if passes.bounded else 0.0
    return StepPrice(
        step=maximum(step, host),
        bound=maximum(passes.bound + least, host),
        floor=maximum(passes.floor + least, host),
        total_bytes=numeric.max(held.total),
        data_parallel=exchange,
        optimizer=optimizer,
        offload=offload,
        host=maximum(host - step, 0.0),
        memory=held.memory,
    )


def whole_step(
    case: Case, plan: Plan, passes: PassPrice, stages: Stages, end: StepEnd | None = None
) -> StepPrice:
    """Return the price of a step; ``end`` where what its end takes is known already."""
    if end is None:
        held = sharing(case, plan, passes.weights)
        if not passes.bounded:
            end = step_end(case, held, None)
        else:
            end = step_end(case, held, held if passes.one_stage else sharing(case, plan, passes.mean))
    return price_step(case, plan, passes, end, price_bytes(case, plan, passes, stages))


def mean_weights(
    case: Case, plan: Plan, costs: Mapping[Piece, LayerCost], totals: Mapping[Piece, Num]
) -> StageWeights:
    """Return the weights of a stage in the mean over the pipeline."""
    outside, inside = ["stored", "trained"], ["expert_stored", "expert_trained"]
    stored, trained = (whole_model(costs, totals, name) / plan.pp for name in outside)
    counts = {piece: count / plan.pp for piece, count in totals.items()}
    if not case.has_experts:
        return StageWeights(stored, 0.0, trained, 0.0, counts)
    expert_stored, expert_trained = (whole_model(costs, totals, name) / plan.pp for name in inside)
    return StageWeights(stored, expert_stored, trained, expert_trained, counts)


LEAST_FILL = 0.5
"""Share of the bubble that an assignment of the layers cannot hide: proved for 1F1B, else measured. [-]"""


def _bubble(case: Case, plan: Plan, everything: Num, slowest: Num, share: tuple[Num, Num, Num]) -> Num:
    """Seconds that the slowest stage waits in a step; a single stage stands for those that are not there."""
    others = where(plan.pp > 1, (everything - slowest) / maximum(plan.pp - 1, 1.0), slowest)
    schedule, apart = case.schedule, case.pipeline_code.ends_apart
    bubble = schedule.span_bubble_seconds if apart else schedule.bubble_seconds
    pipe = Pipe(plan.pp, plan.vpp, plan.num_microbatches, *(others * part for part in share))
    return maximum(bubble(pipe), 0.0)


def piece_totals(ranks: Sequence[Counter[Piece]]) -> dict[Piece, Num]:
    """Count the pieces of the whole model, in an order that all plans share, so that sums round alike."""
    totals: dict[Piece, float] = {}
    for rank in ranks:
        for piece, count in rank.items():
            totals[piece] = totals.get(piece, 0) + count
    return {piece: float(count) for piece, count in sorted(totals.items()) if count > 0}


def total_table(all_ranks: Sequence[Sequence[Counter[Piece]]]) -> dict[Piece, Num]:
    """Count the pieces of the whole model for many (pp, vpp): a column where they differ, else a number.

    A tied head is a copy of its own from two stages on, and ``full:N`` recomputes N layers of each stage.
    """
    known = [piece_totals(ranks) for ranks in all_ranks]
    pieces = sorted({piece for totals in known for piece in totals})
    columns = {piece: np.array([totals.get(piece, 0.0) for totals in known]) for piece in pieces}
    return {piece: column if np.ptp(column) else float(column[0]) for piece, column in columns.items()}
