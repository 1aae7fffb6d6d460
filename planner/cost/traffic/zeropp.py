"""ZeRO++ beside sharded parameters: a second copy of weights in each node, and messages in fewer bits."""

from __future__ import annotations

from planner.cost.case import Case
from planner.cost.memory.secondary import has_secondary
from planner.cost.traffic.shard_groups import ShardGroup, pass_seconds
from planner.formulas.collectives import all_to_all_seconds, ring_sent_bytes
from planner.formulas.zeropp import QUANTISED_GRADIENT, QUANTISED_WEIGHT, regathered_bytes, second_hop_bytes
from planner.numeric import Num, maximum, minimum
from planner.techniques.engines.family import GATHERED_BYTES

WEIGHT_TRAFFIC = QUANTISED_WEIGHT + GATHERED_BYTES
"""Bytes of device memory that unpacking a gathered weight moves: in 8 bit in, in 16 out. [byte]"""

GRADIENT_TRAFFIC = 2.0 * (GATHERED_BYTES + QUANTISED_GRADIENT)
"""Bytes that packing a gradient for the first hop moves, and unpacking to sum; the next is a part. [byte]"""


def ranks_in_node(case: Case, group: ShardGroup) -> Num:
    """Ranks of a group that lie in one node. [-]"""
    return maximum(1.0, minimum(group.shards, case.node_ranks / group.stride))


def changes_gathers(case: Case) -> bool:
    """Whether weights are gathered otherwise than all alike, in 16 bit, over all shards."""
    return has_secondary(case) or (case.traits.engine.quantised_gathers and case.sharding.shards_parameters)


def wire_share(case: Case) -> float:
    """Share of 16 bit that a gathered weight has on its way. [-]"""
    return QUANTISED_WEIGHT / GATHERED_BYTES if case.traits.engine.quantised_gathers else 1.0


def gather_seconds(case: Case, group: ShardGroup, times: Num) -> Num:
    """Seconds to gather the weights of a group so many times, the first over all its shards. [s]"""
    whole = group.gathered * wire_share(case)
    once = pass_seconds(case, group, whole, group.shards, group.stride)
    again = once
    if has_secondary(case):
        again = pass_seconds(case, group, whole, ranks_in_node(case, group), group.stride)
    seconds = once + (times - 1.0) * again
    if case.traits.engine.quantised_gathers:
        unpacked = times * group.gathered / GATHERED_BYTES * WEIGHT_TRAFFIC
        seconds = seconds + unpacked / case.kernels.memory_bandwidth
    return seconds


def gathered_sent(case: Case, group: ShardGroup, times: Num) -> Num:
    """Bytes that one rank sends to gather the weights of a group so many times, as a ring. [byte]"""
    first = group.gathered * wire_share(case)
    again = regathered_bytes(first, times)
    ranks = ranks_in_node(case, group) if has_secondary(case) else group.shards
    return ring_sent_bytes(first, group.shards) + ring_sent_bytes(again, ranks)


def reduces_in_few_bits(case: Case) -> bool:
    """Whether gradients of sharded weights are reduced in 4 bit."""
    return case.traits.engine.quantised_reductions and case.sharding.shards_parameters


def two_hop_seconds(case: Case, group: ShardGroup) -> Num:
    """Seconds to reduce the gradients of a group in 4 bit: inside each node, and between nodes. [s]"""
    near = ranks_in_node(case, group)
    first = QUANTISED_GRADIENT * group.params
    second = second_hop_bytes(first, near)
    seconds: Num = 0.0
    for nbytes, ranks, stride in (
        (first, near, group.stride),
        (second, group.shards / near, group.stride * near),
    ):
        each = all_to_all_seconds(nbytes / group.messages, ranks, stride, case.tiers)
        seconds = seconds + group.messages * each / case.traits.data.rate_share
    return seconds + group.params * GRADIENT_TRAFFIC / case.kernels.memory_bandwidth


def two_hop_sent(case: Case, group: ShardGroup) -> Num:
    """Bytes that one rank sends to reduce the gradients of a group in 4 bit. [byte]"""
    near = ranks_in_node(case, group)
    first = QUANTISED_GRADIENT * group.params
    second = second_hop_bytes(first, near)
    return ring_sent_bytes(first, near) + ring_sent_bytes(second, group.shards / near)
