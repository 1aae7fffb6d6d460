"""Messages to experts: routes followed one by one, kernels that were measured, and clusters that ship."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise, product

import pytest

from planner.formulas.collectives import Tier, all_to_all_seconds, group_bandwidth
from planner.formulas.dispatch import dispatch_seconds, neighbouring_ranks, neighbours_seconds
from planner.inputs.load_hardware import cluster_names, load_hardware
from tests.cases import every

TIERS = (
    Tier("inside", 2, 4e9, 0.0, 4e9),
    Tier("between", 4, 2e9, 0.0, 2e9),
    Tier("outside", float("inf"), 1e9, 0.0, 1e9),
)
NAMES = [tier.name for tier in TIERS]


def place(rank: int) -> tuple[int, int, int]:
    """Place of a rank: which four, which two of them, and which of these."""
    return rank // 4, rank // 2 % 2, rank % 2


def forwarded(route: tuple[int, ...]) -> Counter[str]:
    """Count the hops of the first rank's token: to each four once, to each two once, then for each copy."""
    places = [place(rank) for rank in route]
    fours = {four for four, _, _ in places if four}
    twos = {(four, two) for four, two, _ in places if two}
    copies = sum(last for _, _, last in places)
    return Counter({"outside": len(fours), "between": len(twos), "inside": copies})


def sent_alone(route: tuple[int, ...]) -> Counter[str]:
    """Count the messages of the first rank's copies by the tier at which they part from it."""
    return Counter("outside" if rank >= 4 else "between" if rank >= 2 else "inside" for rank in route if rank)


@every(("ranks", "copies"), [(2, 1), (2, 3), (4, 2), (8, 1), (8, 3), (8, 4)])
@every("fused", [True, False])
def test_each_tier_carries_the_copies_that_one_follows(ranks: int, copies: int, fused: bool) -> None:
    """All routes of a token to random ranks; all ranks are alike, so that one's hops are each one's share."""
    routes = list(product(range(ranks), repeat=copies))
    carried = sum((forwarded(route) if fused else sent_alone(route) for route in routes), Counter())
    slowest = max(carried[tier.name] / len(routes) * 1e9 / tier.bandwidth for tier in TIERS)
    if fused:
        found = dispatch_seconds(1e9, copies, float(ranks), 1.0, TIERS)
    else:
        found = all_to_all_seconds(copies * 1e9, float(ranks), 1.0, TIERS)
    assert float(found) == pytest.approx(slowest)


@every(
    ("cluster", "ranks", "tokens", "topk", "microseconds"),
    [
        ("dgx-h100", 8, 8192, 6, 1572),
        ("dgx-h100", 16, 8192, 8, 3338),
        ("dgx-h100", 32, 16384, 8, 13520),
        ("dgx-b200", 8, 8192, 8, 1389),
        ("dgx-b300", 8, 8192, 8, 1360),
        ("gb200-nvl72", 8, 4096, 8, 816),
        ("gb200-nvl72", 16, 4096, 8, 865),
        ("gb200-nvl72", 32, 4096, 8, 924),
        ("gb200-nvl72", 64, 4096, 8, 1011),
    ],
)
def test_fused_dispatch_takes_what_was_measured(
    cluster: str, ranks: int, tokens: int, topk: int, microseconds: float
) -> None:
    """NVIDIA aiconfigurator 095f58a, systems/data: DeepEP's combine, 24 multiprocessors; NVLink72's own."""
    tiers = load_hardware(cluster).pool.tiers
    found = float(dispatch_seconds(2.0 * 7168 * tokens, topk, float(ranks), 1.0, tiers))
    assert found * 1e6 == pytest.approx(microseconds, rel=0.2)


@every(
    ("cluster", "ranks", "microseconds"),
    [
        ("dgx-a100-80gb", 8, 1198), ("dgx-h100", 8, 763.9), ("dgx-h200", 8, 770.8), ("dgx-b200", 8, 437.7),
        ("dgx-b300", 8, 423.2), ("gb300-nvl72", 4, 407.4),
    ],
)  # fmt: skip
def test_an_all_to_all_takes_what_was_measured(cluster: str, ranks: int, microseconds: float) -> None:
    """NVIDIA aiconfigurator 095f58a, systems/data, nccl-tests' alltoall of 256 MiB."""
    found = float(all_to_all_seconds(2.0**28, float(ranks), 1.0, load_hardware(cluster).pool.tiers))
    assert found * 1e6 == pytest.approx(microseconds, rel=0.2)


FAST_INSIDE = [
    name
    for name in cluster_names()
    if len(tiers := load_hardware(name).pool.tiers) > 1
    and float(group_bandwidth(tiers[-2], tiers[-2].domain)) >= 2 * tiers[-1].bandwidth
]


def test_nearly_all_clusters_have_links_inside_that_are_faster_than_their_network() -> None:
    assert len(FAST_INSIDE) > 30


@every("cluster", FAST_INSIDE)
@every("fused", [True, False])
def test_a_group_that_spans_more_domains_never_pays_less(cluster: str, fused: bool) -> None:
    tiers = load_hardware(cluster).pool.tiers
    domain = int(tiers[-2].domain)
    whole = [ranks for ranks in (2**power for power in range(12)) if ranks <= domain][-1]
    for copies, stride in product((1, 2, 4, 8, 10), (1, 2, 4)):
        ranks = [max(whole // stride, 1) * 2**power for power in range(5)]
        seconds = [
            float(
                dispatch_seconds(1e8, copies, float(group), float(stride), tiers)
                if fused
                else all_to_all_seconds(1e8 * copies, float(group), float(stride), tiers)
            )
            for group in ranks
        ]
        for near, far in pairwise(seconds):
            assert far >= near, (copies, stride)


@every(("ranks", "copies", "experts"), [(8, 2, 8), (8, 2, 16), (8, 4, 8), (4, 1, 16), (8, 8, 8)])
def test_neighbouring_experts_lie_on_few_ranks(ranks: int, copies: int, experts: int) -> None:
    """Token after token takes the next experts in turn; each is followed to the ranks that hold them."""
    turns = [range(first, first + copies) for first in range(0, experts, copies)]
    routes = [tuple({expert * ranks // experts for expert in turn}) for turn in turns]
    carried = sum((forwarded(route) for route in routes), Counter())
    slowest = max(carried[tier.name] / len(routes) * 1e9 / tier.bandwidth for tier in TIERS)
    holders = neighbouring_ranks(copies, experts, ranks)
    found = neighbours_seconds(1e9, holders, float(ranks), 1.0, TIERS)
    assert float(found) == pytest.approx(slowest)
