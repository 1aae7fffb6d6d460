"""What data parallelism sends in a step, for the weights of one stage."""

from __future__ import annotations

from collections.abc import Sequence

from planner.cost.case import Case, piped
from planner.cost.memory.resting import has_levels
from planner.cost.memory.weights import StageWeights
from planner.cost.traffic import shard_levels, zeropp
from planner.cost.traffic.rank_order import data_stride
from planner.cost.traffic.rounds import (
    BACKWARD_SHARE,
    copies_at_once,
    exposed_by_rounds,
    gatherings,
    reductions,
)
from planner.cost.traffic.shard_groups import ShardGroup, groups, pass_seconds
from planner.cost.traffic.whole_matrices import exchanged_share
from planner.dataclasses import dataclass, replace
from planner.formulas.collectives import ring_sent_bytes
from planner.formulas.overlap import exposed_seconds, wait_seconds
from planner.numeric import Num, maximum, where
from planner.plan import Plan
from planner.techniques.offload.family import fetch_seconds


def shard_bytes(case: Case) -> float:
    """Bytes of a gradient that a reduction over the ranks of its shards sends round. [byte]

    A reduce-scatter sends it once; an all-reduce, where the runtime takes that although each rank steps its
    own part alone, twice.
    """
    whole = case.traits.optimizer.all_reduced_bytes * case.sharding.shards_optimizer
    return 2.0 * whole if whole else case.reduce_bytes


def gradient_seconds(case: Case, group: ShardGroup) -> Num:
    """Seconds to reduce the gradients of a group once: over the shards, then over the replicas. [s]"""
    if has_levels(case):
        return shard_levels.reduce_seconds(case, group)
    if zeropp.reduces_in_few_bits(case):
        return zeropp.two_hop_seconds(case, group)
    inside = pass_seconds(case, group, group.params * shard_bytes(case), group.shards, group.stride)
    if not group.replicated:
        return inside
    part, stride = replica_bytes(case, group), group.stride * group.shards
    return inside + 2 * pass_seconds(case, group, part, group.replicas, stride)


def replica_bytes(case: Case, group: ShardGroup) -> Num:
    """Bytes of a rank's own gradients that it reduces among replicas; tables count as matrices. [byte]"""
    return group.params * case.reduce_bytes * exchanged_share(case) / group.shards


def gathered_seconds(case: Case, group: ShardGroup) -> Num:
    """Seconds to gather the weights of a group as often as it does. [s]"""
    if has_levels(case):
        return shard_levels.gather_seconds(case, group, group.gathers)
    if zeropp.changes_gathers(case):
        return zeropp.gather_seconds(case, group, group.gathers)
    return group.gathers * pass_seconds(case, group, group.gathered, group.shards, group.stride)


def fetched_seconds(case: Case, group: ShardGroup) -> Num:
    """Seconds in which a rank's own part of a group's weights comes to the device once. [s]"""
    whole = group.params * case.weight_bytes if case.method.trains_base else group.gathered
    part = whole / group.shards
    read = case.pool.node.nvme_read if case.offload.weights == "disk" else None
    return fetch_seconds(part, case.host_copy, case.node_ranks, read)


def exchange_seconds(case: Case, group: ShardGroup) -> Num:
    """Seconds to reduce the gradients of a group among the copies that a schedule holds of every stage. [s]

    They reduce what their own groups have left of them, as one ring over all holders of a stage would.
    """
    nbytes = exchanged_bytes(case, group)
    return 2 * pass_seconds(case, group, nbytes, case.schedule.weight_copies, group.apart)


def exchanged_bytes(case: Case, group: ShardGroup) -> Num:
    """Bytes of gradients that a rank reduces with its mirror image: its part of all it holds. [byte]"""
    held = case.schedule.weight_copies * group.params * case.reduce_bytes
    return held / (group.shards * group.replicas)


@dataclass(frozen=True)
class DataTraffic:
    """What data parallelism sends for the weights of one stage, hidden or not."""

    reduce: Num
    """Seconds to reduce the gradients once. [s]"""
    gather: Num
    """Seconds to gather the weights, in a round where they are sharded, else in a step. [s]"""
    reduced: Num
    gathered: Num
    """Bytes that one rank sends for either, as a ring. [byte]"""
    exchange: Num = 0.0
    exchanged: Num = 0.0
    """Seconds and bytes to reduce gradients among a schedule's copies, once in a step. [s, byte]"""
    fetch: Num = 0.0
    """Of ``gather``, seconds in which weights come up from the host or from its disks. [s]"""

    @property
    def fetched(self) -> DataTraffic:
        """The same where weights are on the device already."""
        return replace(self, gather=self.gather - self.fetch, fetch=0.0 * self.fetch)


def traffic_of(case: Case, parts: Sequence[ShardGroup]) -> DataTraffic:
    """Return what reducing and gathering the weights of groups cost; micro-batches do not matter."""
    reduce: Num = 0.0
    gather: Num = 0.0
    for group in parts:
        reduce = reduce + group.calls * gradient_seconds(case, group)
        if case.sharding.shards_optimizer:
            gather = gather + gathered_seconds(case, group)
    fetch: Num = 0.0
    if case.offload.fetches:
        for group in parts:
            fetch = fetch + group.gathers * fetched_seconds(case, group)
        gather = gather + fetch
    sent = _sent_once(case, parts) if case.traits.data.hidden_traffic else (0.0, 0.0)
    if has_levels(case):
        once: Num = sum(shard_levels.step_seconds(case, part) for part in parts)
        return DataTraffic(reduce, gather, *sent, once, _crossing(case, parts), fetch)
    if case.schedule.weight_copies == 1.0:
        return DataTraffic(reduce, gather, *sent, fetch=fetch)
    for_reduce, for_gather = copies_at_once(case)
    exchange: Num = 0.0
    for group in parts:
        exchange = exchange + exchange_seconds(case, group)
    return DataTraffic(for_reduce * reduce, for_gather * gather, *sent, exchange, _exchanged(case, parts))


def data_parallel_seconds(case: Case, plan: Plan, traffic: DataTraffic, micro: Num, slowest: Num) -> Num:
    """Seconds that data parallelism adds to the passes of a stage: exposed traffic, and waiting for others.

    Parameters
    ----------
    case, plan, traffic : Case, Plan, DataTraffic
        As for `exposed_traffic_seconds`.
    micro, slowest : Num
        Time of one micro-batch on the stage, and on the slowest one. [s]

    Returns
    -------
    Num
        Time beside the passes. [s]
    """
    share = case.traits.data.sharded_wait * case.sharding.shards_parameters
    exposed = exposed_traffic_seconds(case, plan, traffic, slowest)
    if not share:
        return exposed
    return exposed + wait_seconds(plan.num_microbatches * micro, sharding_domains(case, plan), share)


def sharding_domains(case: Case, plan: Plan) -> Num:
    """Fast domains that the ranks of a copy of the states, and their tensor-parallel ones, lie in. [-]"""
    return case.fast_tier.spread(1.0, plan.zero_shards * data_stride(plan, case.traits)).domains


def exposed_traffic_seconds(case: Case, plan: Plan, traffic: DataTraffic, slowest: Num) -> Num:
    """Exposed seconds of a step's data-parallel traffic on a stage. [s]

    Parameters
    ----------
    case : Case
        The techniques.
    plan : Plan
        The degrees.
    traffic : DataTraffic
        That of the weights on the rank.
    slowest : Num
        Time of one micro-batch on the slowest stage: a faster one works and waits as long, which hides its
        traffic. [s]

    Notes
    -----
    Sharded parameters travel in every pass and hide behind it. Else gradients hide behind a backward pass,
    the last one where they are reduced once, and stepped weights behind the next forward pass. Copies of a
    stage reduce with one another in the last one. What is hidden still takes memory bandwidth from the
    compute.

    References
    ----------
    .. [1] S. Li et al., arXiv:2006.15704, sec. 3.2.3 (buckets behind the last backward).
    .. [2] Y. Zhao et al., "PyTorch FSDP," arXiv:2304.11277, sec. 3.3 (prefetch of the next unit).
    """
    traits, sharding = case.traits, case.sharding
    each, last = passing_seconds(case, plan, traffic)
    share: Num = traits.data.exposed
    if sharding.shards_parameters:
        window = traits.data.window * slowest
        beyond = sharding_domains(case, plan) > 1
        share = where(beyond, maximum(share, traits.data.sharded_exposed), share)
        exposed = exposed_seconds(last, window, share)
    else:
        window = BACKWARD_SHARE * slowest
        gathered = 1.0 if case.engine.gathers_at_once else share
        exposed = exposed_seconds(traffic.reduce + traffic.exchange, window, share)
        after = last - traffic.reduce - traffic.exchange
        exposed = exposed + exposed_seconds(after, slowest - window, gathered)
    if case.keeps_chunks:
        exposed = exposed_by_rounds(case, plan, (traffic.reduce, traffic.gather), slowest, share)
    elif sharding.shards_gradients:
        exposed = (plan.num_microbatches - 1.0) * exposed_seconds(each, window, share) + exposed
    if not traits.data.hidden_traffic:
        return exposed
    hidden = _sent(case, plan, traffic.reduced, traffic.gathered) + traffic.exchanged
    return exposed + hidden * traits.data.hidden_traffic / case.kernels.memory_bandwidth


def passing_seconds(case: Case, plan: Plan, traffic: DataTraffic) -> tuple[Num, Num]:
    """Seconds of traffic in each pass, and in the last, with what travels once in a step beside. [s]"""
    sharding, reduce, gather = case.sharding, traffic.reduce, traffic.gather
    if not case.engine.at_rest:
        last = reduce + gather
        each = last if sharding.shards_parameters else reduce * sharding.shards_gradients
        return each, last + traffic.exchange
    passing = where(piped(case, plan), 0.0, 1.0)
    gathered: Num = sharding.shards_parameters * (passing if sharding.keeps_gathered else 1.0)
    reduced = sharding.shards_gradients * passing
    each = gather * gathered + reduce * reduced
    return each, each + gather * (1.0 - gathered) + reduce * (1.0 - reduced) + traffic.exchange


def data_parallel_sent(case: Case, plan: Plan, held: StageWeights) -> Num:
    """Bytes one rank sends in a step for data parallelism, as a ring. [byte]"""
    parts = groups(case, plan, held)
    sent = _sent(case, plan, *_sent_once(case, parts))
    if has_levels(case):
        return sent + _crossing(case, parts)
    return sent if case.schedule.weight_copies == 1.0 else sent + _exchanged(case, parts)


def _crossing(case: Case, parts: Sequence[ShardGroup]) -> Num:
    """Bytes one rank sends between nodes once in a step, where states lie on levels of links. [byte]"""
    sent: Num = sum(shard_levels.step_sent(case, part) for part in parts)
    return sent


def _exchanged(case: Case, parts: Sequence[ShardGroup]) -> Num:
    """Bytes one rank sends to reduce its gradients with the ranks that hold copies of its stages. [byte]"""
    sent: Num = 0.0
    for group in parts:
        sent = sent + 2 * ring_sent_bytes(exchanged_bytes(case, group), case.schedule.weight_copies)
    return sent


def _sent(case: Case, plan: Plan, reduced: Num, gathered: Num) -> Num:
    """Bytes that a step sends, from those of one reduction and of what is gathered together. [byte]"""
    return reduced * reductions(case, plan) + gathered * gatherings(case, plan)


def _sent_once(case: Case, parts: Sequence[ShardGroup]) -> tuple[Num, Num]:
    """Bytes one rank sends to reduce all gradients once, and to gather weights as often as it does. [byte]"""
    reduced: Num = 0.0
    gathered: Num = 0.0
    for group in parts:
        times = group.gathers
        if has_levels(case):
            near, whole = shard_levels.passing_sent(case, group, times)
            reduced, gathered = reduced + near, gathered + whole
            continue
        part = replica_bytes(case, group)
        once = ring_sent_bytes(group.params * shard_bytes(case), group.shards)
        if zeropp.reduces_in_few_bits(case):
            once = zeropp.two_hop_sent(case, group)
        reduced = reduced + group.calls * (once + 2 * ring_sent_bytes(part, group.replicas))
        if zeropp.changes_gathers(case):
            gathered = gathered + zeropp.gathered_sent(case, group, times)
        else:
            gathered = gathered + ring_sent_bytes(group.gathered, group.shards) * times
    for_reduce, for_gather = copies_at_once(case)
    return for_reduce * reduced, for_gather * gathered
