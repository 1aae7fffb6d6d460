"""Ranks that share weights, and one pass of a collective over them."""

from __future__ import annotations

from planner import numeric
from planner.cost.case import Case, piped
from planner.cost.expert_shards import filled_expert_shards
from planner.cost.layer.context_parallel import kept_attention
from planner.cost.memory.padding import expert_padding, head_elements, pads_rows, stage_padding
from planner.cost.memory.peaks import gathered_bytes
from planner.cost.memory.weights import StageWeights
from planner.cost.traffic.rank_order import data_stride
from planner.dataclasses import dataclass
from planner.formulas.collectives import pieces_seconds, ring_sent_bytes
from planner.numeric import Num, maximum, minimum, where
from planner.plan import Plan
from planner.techniques.engines.family import GATHERED_BYTES


@dataclass(frozen=True)
class ShardGroup:
    """Ranks that hold the same weights."""

    params: Num
    """Weights that learn on each rank. [element]"""
    gathered: Num
    """Bytes of all weights on each rank, gathered. [byte]"""
    shards: Num
    """Ranks over which states are spread. [-]"""
    replicas: Num
    """Copies of that, reduced among one another. [-]"""
    stride: Num
    """Distance between neighbours of a shard group. [-]"""
    messages: Num
    """Pieces in which they travel. [-]"""
    gathers: Num
    """How often the weights are gathered: in a round where they are sharded, else in a step. [-]"""
    calls: Num
    """How often a pass reduces each gradient, or a part of it: once for each call of its sharded unit. [-]"""
    apart: Num
    """Distance between the copies of a stage that a schedule holds: ranks i and pp - 1 - i hold the same two
    stages; the pair that is farthest apart decides, and half the job's length between two ranks spans a tier
    exactly where some pair does. [-]"""

    @property
    def replicated(self) -> bool:
        """Whether some plan of the batch reduces among replicas."""
        return numeric.any(self.replicas > 1)


def groups(case: Case, plan: Plan, held: StageWeights) -> list[ShardGroup]:
    """Return the ranks that share the weights outside experts, dp · cp, and those that share experts."""
    whole_bytes = _gathered(case, held.trained, held.stored)
    units = messages(case, plan, whole_bytes)
    replicas = maximum(plan.dp * plan.cp / plan.zero_shards, 1.0)
    padding, kept = _padding(case, plan, held)
    whole = whole_bytes + GATHERED_BYTES * padding
    share = GATHERED_BYTES * kept / maximum(whole, 1.0)
    stride = data_stride(plan, case.traits)
    calls = sharded_calls(case, plan) if case.sharding.shards_parameters else 1.0
    apart = plan.pp * plan.tp * plan.cp * plan.dp / case.schedule.weight_copies
    dense = ShardGroup(
        held.trained + padding, whole, plan.zero_shards, replicas, stride, units,
        gathers(case, plan, whole, share), calls, apart,
    )  # fmt: skip
    if not case.has_experts:
        return [dense]
    sharded = case.sharding.stage > 0
    shards, replicas = (plan.expert_shards, replicas) if sharded else (1.0, plan.expert_dp)
    filled = plan.expert_shards / filled_expert_shards(case, plan) if sharded else 1.0
    if sharded and pads_rows(case) and not case.expert_code.stacked:
        filled = expert_padding(case, plan)
    trained = held.expert_trained * filled
    whole_bytes = filled * _gathered(case, held.expert_trained, held.expert_stored)
    again = gathers(case, plan, whole_bytes, 0.0)
    stride = plan.ep * plan.etp
    return [dense, ShardGroup(trained, whole_bytes, shards, replicas, stride, units, again, calls, apart)]


def gathers(case: Case, plan: Plan, gathered: Num, kept: Num) -> Num:
    """How often weights are gathered: in a round where they are sharded, else in a step. [-]

    A round is a pass, or all passes for which a schedule keeps a chunk gathered: once forward and once
    backward, whatever is recomputed. A weight is let go after it was used again, unless it comes back within
    ``reuse_elements`` weights; one that has x of its layer's elements behind it comes back after 2 x. Where
    recompute calls a layer's unit from outside, forward, recompute and backward each gather it. What stays
    gathered from forward to backward is gathered once, in a pipeline of FSDP's stages once in a step; what
    does not is kept there from one micro-batch's backward to the next one's forward.

    Parameters
    ----------
    case, plan : Case, Plan
        The techniques and degrees.
    gathered : Num
        Bytes of the group's weights. [byte]
    kept : Num
        Share of them that stays gathered from forward to backward, whatever the sharding keeps. [-]

    References
    ----------
    .. [1] DeepSpeed, ``deepspeed/runtime/zero/partitioned_param_coordinator.py``, ``release_sub_module``:
       ``stage3_max_reuse_distance``.
    .. [2] PyTorch, ``torch/distributed/pipelining/stage.py``, ``backward_maybe_with_nosync``:
       ``set_reshard_after_backward(False)`` and ``set_requires_gradient_sync(False)`` until the step's end.
    .. [3] PyTorch, ``torch/distributed/fsdp/_runtime_utils.py``, ``_pre_forward_unshard`` and
       ``_pre_backward_hook``: every call of a unit gathers its weights, and so does the backward of each.
    """
    if not case.sharding.shards_parameters:
        return float(case.sharding.shards_optimizer)
    traits, whole, keeps = case.traits, case.recompute.whole_layer, case.sharding.keeps_gathered
    calls, cut = sharded_calls(case, plan), kept_attention(case, plan)
    again = maximum(float(case.checkpointing.gathers and whole), cut) * (not case.keeps_chunks)
    times = 1.0 if keeps else 2.0 + again
    if case.engine.at_rest:
        return where(piped(case, plan), 1.0, times - kept) * calls
    reused = traits.engine.reuse_elements
    if not reused or not whole:
        return times * calls
    layer = gathered / GATHERED_BYTES * plan.pp / case.model.num_layers
    return 3.0 - minimum(1.0, reused / maximum(2.0 * layer, 1.0))


def sharded_calls(case: Case, plan: Plan) -> Num:
    """Calls of a layer's sharded unit in a pass: more where the context method's checkpoints cut it. [-]"""
    return 1.0 + kept_attention(case, plan) * (case.context.sharded_calls - 1.0)


def _padding(case: Case, plan: Plan, held: StageWeights) -> tuple[Num, Num]:
    """Elements that padding adds outside routed experts, and those that stay gathered. [element]"""
    if not pads_rows(case):
        return 0.0, 0.0
    padding = stage_padding(case, plan, held.counts)
    if not case.engine.keeps_head or case.sharding.keeps_gathered:
        return padding, 0.0
    return padding, where(plan.pp > 1, 0.0, head_elements(case, plan, held.counts))


def _gathered(case: Case, trained: Num, stored: Num) -> Num:
    """Bytes to gather: all weights where they are sharded, else those that the optimizer has stepped."""
    if case.sharding.shards_parameters:
        return gathered_bytes(case, trained, stored)
    return GATHERED_BYTES * trained


LAYER_PRODUCTS = 7.0
"""Weights of products in a layer: four of attention, three of the feed-forward. [-]"""

LAYER_PARAMETERS = 9.0
"""Parameters of a layer: those of its products, and two norms. [-]"""


def messages(case: Case, plan: Plan, gathered: Num) -> Num:
    """Pieces in which weights are gathered and gradients reduced: layers, buckets, owners' parts. [-]

    References
    ----------
    .. [1] InternEvo, ``internlm/solver/optimizer/hybrid_zero_optim.py``, ``_partition_param_list`` and
       ``broadcast_params``: whole parameters have owners, and each owner broadcasts its own.
    .. [2] DeepSpeed, ``deepspeed/runtime/zero/partitioned_param_coordinator.py``, ``fetch_sub_module``: whole
       parameters are prefetched until they fill a bucket, so that a large one is a piece of its own.
    .. [3] ``deepspeed/runtime/zero/stage_1_and_2.py``: ``reduce_bucket_size`` gradients are reduced together,
       and ``allgather_bucket_size`` stepped weights gathered.
    .. [4] nanotron 0e0a27ea, ``src/nanotron/optim/zero.py``, ``_all_gather_params``: the parts of every
       parameter in one list, which NCCL gathers as a group of calls.
    """
    layers, engine = case.model.num_layers / plan.pp, case.traits.engine
    if not case.sharding.shards_parameters:
        if case.sharding.shards_optimizer and engine.flat_buckets and engine.bucket_elements:
            return maximum(1.0, gathered / (GATHERED_BYTES * engine.bucket_elements))
        if not case.sharding.shards_optimizer or case.engine.states == "buffer":
            return 1.0
        every = LAYER_PARAMETERS * layers
        return minimum(plan.zero_shards, every) if case.engine.states == "owners" else every
    if case.traits.engine.prefetch_elements:
        buckets = gathered / (GATHERED_BYTES * engine.prefetch_elements)
        return maximum(1.0, minimum(buckets, LAYER_PRODUCTS * layers))
    return layers


def pass_seconds(case: Case, group: ShardGroup, nbytes: Num, ranks: Num, stride: Num) -> Num:
    """Seconds of one ring pass over a group, with the time that each byte takes beside the links. [s]

    References
    ----------
    .. [1] DeepSpeed before 0.5.5, ``deepspeed/runtime/zero/partition_parameters.py``, ``_allgather_param``:
       each parameter by itself, all work done, into a list of parts that torch.distributed copies
       (``dp_rate_share``).
    """
    seconds = pieces_seconds(nbytes, ranks, stride, case.tiers, group.messages) / case.traits.data.rate_share
    return seconds + case.traits.data.byte_seconds * ring_sent_bytes(nbytes, ranks)
