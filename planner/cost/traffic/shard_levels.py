"""Weights, gradients and optimizer states spread over three levels of links (arXiv:2501.04266).

Weights are gathered over the nearest links in every pass, gradients reduced inside a node; once in a step
gradients are reduced between nodes, and what the optimizer has stepped comes back to where weights rest.
"""

from __future__ import annotations

from planner.cost.case import Case
from planner.cost.memory.resting import near_ranks
from planner.cost.traffic import zeropp
from planner.cost.traffic.shard_groups import ShardGroup, pass_seconds
from planner.formulas.collectives import all_to_all_seconds, ring_sent_bytes
from planner.formulas.zeropp import QUANTISED_GRADIENT, second_hop_bytes
from planner.numeric import Num


def _near(case: Case, group: ShardGroup) -> Num:
    """Ranks of a group that share its weights. [-]"""
    return near_ranks(case, group.shards, group.stride)


def _gradient_bytes(case: Case) -> float:
    """Bytes of a gradient on its way. [byte]"""
    return QUANTISED_GRADIENT if zeropp.reduces_in_few_bits(case) else case.reduce_bytes


def gather_seconds(case: Case, group: ShardGroup, times: Num) -> Num:
    """Seconds to gather the weights of a group so many times where they rest. [s]"""
    return times * pass_seconds(case, group, group.gathered, _near(case, group), group.stride)


def reduce_seconds(case: Case, group: ShardGroup) -> Num:
    """Seconds to reduce the gradients of a group inside each node. [s]"""
    node = zeropp.ranks_in_node(case, group)
    if not zeropp.reduces_in_few_bits(case):
        return pass_seconds(case, group, group.params * case.reduce_bytes, node, group.stride)
    first = QUANTISED_GRADIENT * group.params / group.messages
    packed = group.params * zeropp.GRADIENT_TRAFFIC / case.kernels.memory_bandwidth
    each = all_to_all_seconds(first, node, group.stride, case.tiers)
    return group.messages * each / case.traits.data.rate_share + packed


def _once(case: Case, group: ShardGroup) -> tuple[tuple[Num, Num, Num], tuple[Num, Num, Num]]:
    """Bytes, ranks and stride of gradients between nodes, and of stepped weights, once in a step."""
    node, near = zeropp.ranks_in_node(case, group), _near(case, group)
    wire = group.gathered * zeropp.wire_share(case)
    return (
        (
            second_hop_bytes(_gradient_bytes(case) * group.params, node),
            group.shards / node,
            group.stride * node,
        ),
        (wire / near, group.shards / near, group.stride * near),
    )


def step_seconds(case: Case, group: ShardGroup) -> Num:
    """Seconds of what crosses nodes once in a step. [s]"""
    seconds: Num = 0.0
    for nbytes, ranks, stride in _once(case, group):
        seconds = seconds + pass_seconds(case, group, nbytes, ranks, stride)
    return seconds


def step_sent(case: Case, group: ShardGroup) -> Num:
    """Bytes that one rank sends in a step for that, as a ring. [byte]"""
    sent: Num = 0.0
    for nbytes, ranks, _ in _once(case, group):
        sent = sent + ring_sent_bytes(nbytes, ranks)
    return sent


def passing_sent(case: Case, group: ShardGroup, times: Num) -> tuple[Num, Num]:
    """Bytes that one rank sends in a pass: of gradients, and of weights so many times. [byte]"""
    reduced = ring_sent_bytes(_gradient_bytes(case) * group.params, zeropp.ranks_in_node(case, group))
    return reduced, times * ring_sent_bytes(group.gathered, _near(case, group))
