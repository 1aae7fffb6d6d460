"""Copies of saved tensors to the host and back, beside messages to other nodes over the same link."""

from __future__ import annotations

from collections.abc import Sequence

from planner.cost.case import Case
from planner.cost.memory.activation_offload import LayerPasses
from planner.cost.memory.weights import StageWeights
from planner.cost.traffic.data_parallel import replica_bytes, shard_bytes
from planner.cost.traffic.rounds import gatherings, reductions
from planner.cost.traffic.shard_groups import ShardGroup, groups
from planner.dataclasses import dataclass
from planner.formulas.activation_offload import copy_exposed_seconds, free_window, input_copy_exposed_seconds
from planner.formulas.collectives import ring_sent_bytes
from planner.numeric import Num, maximum, minimum, where
from planner.plan import Plan


@dataclass(frozen=True)
class LinkBytes:
    """What data parallelism sends of a group's weights over a rank's own link, whatever its micro-batches."""

    ahead: Num
    behind: Num
    """Gathered in a round for forward, and again for backward. [byte]"""
    reduced: Num
    """Of one reduction. [byte]"""


def link_bytes(case: Case, parts: Sequence[ShardGroup]) -> tuple[LinkBytes, ...]:
    """Return what each group of a stage's weights sends beside copies to the host."""
    found = []
    for group in parts:
        times, gathered = group.gathers, _crossing(case, group, group.gathered)
        reduced = _crossing(case, group, group.params * shard_bytes(case))
        if group.replicated:
            reduced = reduced + 2 * ring_sent_bytes(replica_bytes(case, group), group.replicas)
        ahead, behind = gathered * minimum(times, 1.0), gathered * maximum(times - 1.0, 0.0)
        found.append(LinkBytes(ahead, behind, reduced))
    return tuple(found)


def exposed_copies_seconds(case: Case, plan: Plan, layers: LayerPasses, held: StageWeights) -> Num:
    """Seconds of a step that the copies of each stage are not hidden, of weights by themselves. [s]"""
    return copies_beside_seconds(case, plan, layers, link_bytes(case, groups(case, plan, held)))


def copies_beside_seconds(case: Case, plan: Plan, layers: LayerPasses, links: Sequence[LinkBytes]) -> Num:
    """Seconds of a step that the copies of each stage are not hidden: down in forward, up in backward. [s]

    Copies alone have the rate that they reach; with messages that leave the fast links they share the link.
    """
    each = maximum(layers.count, 1.0)
    nbytes = layers.sent(case) / each
    exposed = input_copy_exposed_seconds if case.offload.modules else copy_exposed_seconds
    total: Num = 0.0
    for messages, seconds in zip(
        linked_bytes(case, plan, links), (layers.forward, layers.backward), strict=True
    ):
        window = seconds / each
        left = free_window(window, (messages + layers.routed) / each / case.host_link)
        alone = exposed(nbytes / case.host_copy, window, layers.count, case.offload.layers)
        beside = exposed(nbytes / case.host_link, left, layers.count, case.offload.layers)
        total = total + maximum(alone, beside)
    return plan.num_microbatches * total


def linked_bytes(case: Case, plan: Plan, links: Sequence[LinkBytes]) -> tuple[Num, Num]:
    """Bytes of data parallelism over a rank's own link, in forward and in backward of a micro-batch. [byte]

    What a step sends once counts as spread over its micro-batches.
    """
    forward: Num = 0.0
    backward: Num = 0.0
    for one in links:
        forward = forward + one.ahead * gatherings(case, plan)
        backward = backward + one.behind * gatherings(case, plan)
        backward = backward + one.reduced * reductions(case, plan)
    return forward / plan.num_microbatches, backward / plan.num_microbatches


def _crossing(case: Case, group: ShardGroup, nbytes: Num) -> Num:
    """Bytes of a ring pass that leave the fast links over a rank's own: its share of the domain's. [byte]"""
    domains = case.fast_tier.spread(group.stride, group.shards).domains
    return where(domains > 1, ring_sent_bytes(nbytes, group.shards) * domains / group.shards, 0.0)
