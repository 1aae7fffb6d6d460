"""Collectives over a hierarchy of links: hand arithmetic, counted rings, and figures that were printed."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product
from math import inf

import numpy as np
import pytest

from planner.formulas.collectives import (
    Tier,
    all_to_all_seconds,
    group_bandwidth,
    ring_seconds,
    ring_sent_bytes,
    switch_pass_seconds,
)
from planner.formulas.dispatch import dispatch_seconds, distinct_domains
from planner.formulas.messages import point_to_point_seconds, shift_seconds
from planner.formulas.ring_start import all_reduce_seconds, started_ring_seconds
from planner.inputs.load_hardware import load_hardware
from tests.cases import every

NVLINK = Tier("nvlink", 8, 400e9, 3e-6, 400e9)
NETWORK = Tier("infiniband", inf, 50e9, 10e-6, 50e9)
MESH = Tier("xgmi", 8, 448e9, 3e-6, 64e9)
BOTH = [NVLINK, NETWORK]


def members(ranks: int, stride: int) -> list[int]:
    return [place * stride for place in range(ranks)]


@every(("ranks", "stride"), [(2, 1), (8, 1), (4, 2), (8, 4), (2, 8), (16, 1), (4, 16), (3, 1)])
def test_members_of_a_domain_are_those_that_one_counts(ranks: int, stride: int) -> None:
    counted = sum(rank < 8 for rank in members(ranks, stride))
    assert NVLINK.spread(stride, ranks).fewest == counted


@every(("ranks", "stride"), [(8, 1), (16, 1), (64, 1), (32, 2), (16, 4), (16, 8), (2, 4), (4, 8)])
def test_the_hops_of_a_ring_are_those_that_one_counts(ranks: int, stride: int) -> None:
    """One byte is sent, so that latency is all there is; a ring pass has a hop from every member but one."""
    group = members(ranks, stride)
    inside = sum(first // 8 == second // 8 for first, second in pairwise(group))
    between = ranks - 1 - inside
    seconds = ring_seconds(0.0, ranks, stride, BOTH)
    assert seconds == pytest.approx(inside * 3e-6 + between * 10e-6)


def test_a_ring_in_a_node_by_hand() -> None:
    # 8 GB over 8 ranks: seven eighths of it at 400 GB/s is 17.5 ms; seven hops of 3 us.
    assert ring_seconds(8e9, 8, 1, BOTH) == pytest.approx(0.0175 + 21e-6)


def test_the_network_ports_of_a_node_carry_its_ring_together() -> None:
    # Two nodes: 15/16 of 8 GB leave the node through eight ports of 50 GB/s: 18.75 ms, as NVLink takes.
    hops = 14 * 3e-6 + 10e-6
    assert ring_seconds(8e9, 16, 1, BOTH) == pytest.approx(8e9 * 15 / 16 / 400e9 + hops)
    # Every eighth rank: one port each, 7/8 of 8 GB at 50 GB/s.
    assert ring_seconds(8e9, 8, 8, BOTH) == pytest.approx(0.14 + 7 * 10e-6)
    # Every fourth rank: two ports for each node.
    assert ring_seconds(8e9, 8, 4, BOTH) == pytest.approx(0.07 + 4 * 3e-6 + 3 * 10e-6)


def test_an_all_reduce_is_two_passes() -> None:
    assert all_reduce_seconds(8e9, 16, 1, BOTH) == 2 * ring_seconds(8e9, 16, 1, BOTH)


IN_SWITCH = Tier("nvlink", 8, 337.5e9, 3.4e-6, 247.5e9, reduced=450e9)
"""Eight H100, as their profile has them."""


@every(("mebibytes", "microseconds"), [(64, 324.5), (128, 578.8), (256, 1092.2)])
def test_a_switch_that_adds_up_takes_what_nccl_tests_take(mebibytes: int, microseconds: float) -> None:
    """An all-reduce of eight H100 (aiconfigurator 095f58a, h100_sxm, NCCL 2.29.2); a ring's is longer."""
    nbytes = mebibytes * 2.0**20
    assert 2e6 * switch_pass_seconds(nbytes, 8.0, 1.0, [IN_SWITCH]) == pytest.approx(microseconds, rel=0.09)
    assert 2e6 * ring_seconds(nbytes, 8.0, 1.0, [IN_SWITCH]) > 1.19 * microseconds


def test_a_switch_adds_up_for_all_its_ranks_alone() -> None:
    tiers = [IN_SWITCH, NETWORK]
    for ranks, stride in ((2.0, 1.0), (4.0, 1.0), (8.0, 2.0), (16.0, 1.0)):
        assert switch_pass_seconds(1e9, ranks, stride, tiers) == ring_seconds(1e9, ranks, stride, tiers)
    assert switch_pass_seconds(1e9, 8.0, 1.0, BOTH) == ring_seconds(1e9, 8.0, 1.0, BOTH)
    many = switch_pass_seconds(1e9, np.array([4.0, 8.0]), 1.0, tiers)
    assert list(np.asarray(many)) == [switch_pass_seconds(1e9, ranks, 1.0, tiers) for ranks in (4.0, 8.0)]


def test_pieces_that_follow_one_another_pay_latency_each() -> None:
    once, often = ring_seconds(8e9, 8, 1, BOTH), ring_seconds(8e9, 8, 1, BOTH, 10.0)
    assert often - once == pytest.approx(9 * 7 * 3e-6)


@every(("ranks", "share"), [(2, 1), (4, 3), (8, 7)])
def test_a_part_of_a_mesh_has_only_its_own_links(ranks: int, share: int) -> None:
    """MI300X: a group of n has n - 1 of the seven links of 64 GB/s (arXiv:2511.17127)."""
    assert group_bandwidth(MESH, ranks) == share * 64e9


def test_rates_through_the_host_fall_with_the_square_of_the_ranks() -> None:
    host = Tier("pcie", 8, 20e9, 0.0, 20e9, host_staged=True)
    rates = [float(group_bandwidth(host, ranks)) for ranks in (2, 4, 8)]
    # nccl-tests on 2, 4 and 8 L40S: 19, 5 and 1.5 GB/s, to a fifth.
    assert rates == pytest.approx([19e9, 5e9, 1.5e9], rel=0.2)


def test_an_all_to_all_by_hand() -> None:
    # 16 ranks in two nodes, 8 GB each: 7/16 stay in the node, 8/16 cross one's own port.
    expected = max(8e9 * 7 / 16 / 400e9, 8e9 * 8 / 16 / 50e9)
    assert all_to_all_seconds(8e9, 16, 1, BOTH) == pytest.approx(expected + 7 * 3e-6 + 10e-6)


@every(("domains", "copies"), [(1, 3), (2, 1), (2, 3), (4, 4), (8, 2)])
def test_the_domains_that_a_token_reaches_are_those_that_one_counts(domains: int, copies: int) -> None:
    routes = list(product(range(domains), repeat=copies))
    mean = sum(len(set(route)) for route in routes) / len(routes)
    assert distinct_domains(float(domains), copies) == pytest.approx(mean)


def test_eight_experts_on_eight_nodes_reach_five_nodes_and_a_quarter() -> None:
    """DeepSeek-V3 limits a token to four nodes, since eight random ones are 8 (1 - (7/8)^8) = 5.25."""
    assert distinct_domains(8.0, 8) == pytest.approx(5.251, abs=1e-3)


def test_dispatch_sends_a_token_once_to_each_node() -> None:
    # 32 ranks in four nodes, 8 experts, 1 GB of tokens: 4 (1 - (3/4)^8) = 3.6 nodes are reached, three
    # quarters of them elsewhere, at 50 GB/s.
    outside = 4 * (1 - 0.75**8) * 0.75 * 1e9 / 50e9
    seconds = float(dispatch_seconds(1e9, 8, 32.0, 1.0, BOTH))
    assert seconds == pytest.approx(outside + 7 * 3e-6 + 3 * 10e-6)
    assert seconds < all_to_all_seconds(8e9, 32.0, 1.0, BOTH)


def test_dispatch_of_one_copy_is_an_all_to_all_inside_one_domain() -> None:
    assert dispatch_seconds(1e9, 1, 8.0, 1.0, BOTH) == all_to_all_seconds(1e9, 8.0, 1.0, BOTH)


def test_a_message_takes_the_innermost_link_that_joins_its_ends() -> None:
    near, far = (float(point_to_point_seconds(4e9, stride, BOTH)) for stride in (4.0, 8.0))
    assert near == pytest.approx(0.01 + 3e-6)
    assert far == pytest.approx(0.08 + 10e-6)
    assert point_to_point_seconds(64e9, 1.0, [MESH]) == pytest.approx(1 + 3e-6)


def test_chunks_passed_on_wait_for_the_one_port_that_leaves_the_node() -> None:
    """Played: 15 rounds of 1 GB chunks around two nodes; every round, some rank sends over its own port."""
    rounds = sum(max(1e9 / 50e9 + 10e-6, 1e9 / 400e9 + 3e-6) for _ in range(15))
    assert shift_seconds(16e9, 16.0, 1.0, BOTH) == pytest.approx(rounds)
    assert shift_seconds(8e9, 8.0, 1.0, BOTH) == pytest.approx(ring_seconds(8e9, 8.0, 1.0, BOTH))
    assert shift_seconds(8e9, 8.0, 8.0, BOTH) == pytest.approx(7 * (1e9 / 50e9 + 10e-6))
    assert shift_seconds(4e9, 4.0, 1.0, [MESH]) == pytest.approx(3 * (1e9 / 64e9 + 3e-6))


@every("function", [ring_seconds, shift_seconds, all_reduce_seconds, all_to_all_seconds])
def test_one_rank_costs_nothing(function: object) -> None:
    assert function(1e9, 1.0, 1.0, BOTH) == 0  # type: ignore[operator]


def test_bytes_sent_by_a_ring_played_step_by_step() -> None:
    """Reduce-scatter of n chunks: in each of n - 1 steps a rank passes one chunk on; all end up summed."""
    ranks = 6
    held = np.arange(ranks * ranks, dtype=float).reshape(ranks, ranks)
    wanted = held.sum(axis=0)
    sent = np.zeros(ranks)
    for step in range(ranks - 1):
        moving = [held[rank, (rank - step) % ranks] for rank in range(ranks)]
        for rank in range(ranks):
            held[(rank + 1) % ranks, (rank - step) % ranks] += moving[rank]
            sent[rank] += 1
    assert [held[rank, (rank + 1) % ranks] for rank in range(ranks)] == [
        wanted[(r + 1) % ranks] for r in range(ranks)
    ]
    assert set(sent) == {ring_sent_bytes(float(ranks), ranks)}


def test_a_scaled_tier_is_slower_and_as_far_away() -> None:
    half = NVLINK.scaled(0.5)
    assert (half.bandwidth, half.pair_bandwidth, half.latency) == (200e9, 200e9, 3e-6)


SLOW = replace(NVLINK, ramp=4e-5)


@every("ranks", [2, 4, 8])
@every("passes", [1.0, 2.0])
def test_a_started_ring_is_the_root_of_its_own_quadratic(ranks: int, passes: float) -> None:
    """The rate without the start is that with which the reference buffer takes as long as over the line."""
    quiet = replace(SLOW, latency=0.0)
    line = 2.0**29 * (ranks - 1) / ranks / 400e9
    wire = np.roots([1.0, np.sqrt(quiet.ramp), -line]).max() ** 2
    assert started_ring_seconds(2.0**29, ranks, 1, [quiet]) == pytest.approx(line, rel=1e-12)
    expected = passes * wire / 32 + np.sqrt(quiet.ramp * passes * wire / 32)
    assert started_ring_seconds(2.0**24, ranks, 1, [quiet], passes) == pytest.approx(expected, rel=1e-12)


def test_two_passes_of_one_collective_start_once() -> None:
    together = started_ring_seconds(2.0**24, 8, 1, [SLOW], 2.0)
    assert together < 2 * started_ring_seconds(2.0**24, 8, 1, [SLOW])
    assert together == pytest.approx(started_ring_seconds(2.0**25, 8, 1, [SLOW]) + 7 * 3e-6 * 0.6 / 3.4)


def test_rings_that_leave_a_domain_and_links_without_a_ramp_have_none() -> None:
    tiers = [SLOW, NETWORK]
    assert started_ring_seconds(1e8, 16, 1, tiers) == ring_seconds(1e8, 16, 1, tiers)
    assert started_ring_seconds(1e8, 2, 8, tiers, 2.0) == all_reduce_seconds(1e8, 2, 8, tiers)
    assert started_ring_seconds(1e8, 8, 1, BOTH) == ring_seconds(1e8, 8, 1, BOTH)
    assert float(started_ring_seconds(1e8, 1, 1, tiers)) == 0.0


def test_started_rings_of_one_and_of_many_are_the_same_bits() -> None:
    sizes, ranks = np.array([1e6, 3e7, 5e8, 1e8]), np.array([2.0, 4.0, 8.0, 16.0])
    many = started_ring_seconds(sizes, ranks, 1.0, [SLOW, NETWORK])
    one = [
        float(started_ring_seconds(*pair, 1.0, [SLOW, NETWORK])) for pair in zip(sizes, ranks, strict=True)
    ]
    assert many.tolist() == one


@every(
    ("cluster", "gib", "rate"),
    [
        # nccl-tests of 8 ranks, beyond the 512 MiB of the tables: notes of hardware_profiles/scaleups.
        ("dgx-h100", 16, 365e9),
        ("dgx-b200", 8, 682e9),
    ],
)
def test_started_rings_reach_what_was_measured_of_larger_buffers(
    cluster: str, gib: float, rate: float
) -> None:
    links = load_hardware(cluster).pool.node.scaleup.tier
    seconds = float(started_ring_seconds(gib * 2.0**30, 8, 1, [links]))
    assert gib * 2.0**30 * 7 / 8 / seconds == pytest.approx(rate, rel=0.05)


SIX = [replace(tier, gpus=24.0) for tier in BOTH]
"""The links of a job of 24 ranks in three nodes."""


def test_a_group_of_six_that_straddles_nodes_of_eight_by_hand() -> None:
    # Ranks 6 to 11: two on one node, four on the next. The ring leaves a node through the two ports that the
    # node with the fewest has: 5/6 of 6 GB at 100 GB/s; of its five hops four stay inside.
    assert ring_seconds(6e9, 6.0, 1.0, SIX) == pytest.approx(5e9 / 100e9 + 4 * 3e-6 + 10e-6)
    # Each of the two sends four sixths of its 6 GB through its own port.
    assert all_to_all_seconds(6e9, 6.0, 1.0, SIX) == pytest.approx(4e9 / 50e9 + 2 * 3e-6 + 10e-6)
    # Passed on from rank to rank, five times a sixth over one port.
    assert shift_seconds(6e9, 6.0, 1.0, SIX) == pytest.approx(5 * (1e9 / 50e9 + 10e-6))


def test_a_group_that_lies_inside_a_node_alone_straddles_in_a_larger_job() -> None:
    alone, among = ring_seconds(6e9, 6.0, 1.0, BOTH), ring_seconds(6e9, 6.0, 1.0, SIX)
    assert alone == pytest.approx(5e9 / 400e9 + 5 * 3e-6)
    assert among > 3 * alone
    assert ring_seconds(4e9, 4.0, 1.0, SIX) == ring_seconds(4e9, 4.0, 1.0, BOTH)


def test_a_token_is_sent_once_to_the_other_of_two_nodes_that_a_group_straddles() -> None:
    # Two nodes: with eight experts nearly every token has some on both, and of two ranks' four sixths leave.
    outside = 2 * (1 - 0.5**8) * (4 / 6) * 1e9 / 50e9
    assert float(dispatch_seconds(1e9, 8, 6.0, 1.0, SIX)) == pytest.approx(outside + 2 * 3e-6 + 10e-6)
