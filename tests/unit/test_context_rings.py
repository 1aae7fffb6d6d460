"""Rings beside the plain one: of rings, and of tokens."""

from __future__ import annotations

import pytest

from planner.cost.estimate import Estimate, estimate
from planner.formulas.collectives import Tier
from planner.formulas.messages import double_ring_seconds, shift_seconds
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.runtimes.family import Job
from planner.techniques.context import CONTEXT_METHODS
from tests.cases import every
from tests.unit.cost_jobs import any_runtime

INDEX, LAST = 1.13e-3 + 2.08e-3, 0.51e-3
"""Seconds of MTraining's index and of one round's attention (arXiv:2510.18830)."""


def test_a_double_ring_hides_what_a_flat_one_shows() -> None:
    """MTraining's trace on 32 A100 in 4 nodes: 34.10 ms flat, 19.53 ms of rings in rings.

    Rounds take 0.98 ms across nodes and 0.13 ms inside, attention 0.51 ms (arXiv:2510.18830).
    """
    part, ranks = 1e6, 32.0
    inner = Tier("a", 8, part / 0.13e-3, 0.0, part / 0.13e-3)
    outer = Tier("b", float("inf"), part / 0.98e-3, 0.0, part / 0.98e-3)
    flat = float(shift_seconds(part * ranks, ranks, 1.0, [inner, outer]))
    double = float(double_ring_seconds(part * ranks, ranks, 1.0, [inner, outer]))
    assert INDEX + flat + LAST == pytest.approx(34.10e-3, abs=1e-5)
    assert double < 32 * LAST
    assert pytest.approx(19.53e-3, abs=1e-5) == INDEX + 32 * LAST
    assert double == pytest.approx(max(4 * 7 * 0.13e-3, 3 * 0.98e-3))


def test_a_double_ring_in_one_domain_is_a_ring() -> None:
    tiers = [Tier("a", 8, 450e9, 1e-6, 450e9), Tier("b", float("inf"), 50e9, 5e-6, 50e9)]
    for ranks, stride in ((8.0, 1.0), (4.0, 2.0), (4.0, 8.0)):
        double = float(double_ring_seconds(1e9, ranks, stride, tiers))
        assert double == pytest.approx(float(shift_seconds(1e9, ranks, stride, tiers)))


def test_token_ring_moves_a_query_where_a_ring_moves_a_key_and_a_value() -> None:
    """TokenRing (arXiv:2412.20501), README: 24,000 tokens on four A10, 32 heads of 128.

    Rounds of 3.5 ms, a ring's of 7.6. Rounds that send queries one way and results the other at once take
    4.6 ms on PCIe, between one direction alone and both in turn; priced as if links had both directions.
    """
    widths = (6000.0, 4096.0, 8192.0, 4.0)
    ring, token = (CONTEXT_METHODS[name].forward_elements(*widths) for name in ("ring", "token-ring"))
    assert ring / token == pytest.approx(7.6 / 3.5, rel=0.1)
    grouped = (6000.0, 4096.0, 2048.0, 4.0)
    ring, token = (CONTEXT_METHODS[name].forward_elements(*grouped) for name in ("ring", "token-ring"))
    assert token > ring


def spread(ranks: int, method: str) -> Estimate:
    """Price 64 heads over 8 of keys on H100s, a sequence of 8 K tokens on each."""
    job = Job(
        load_model("llama3-70b"),
        load_hardware("dgx-h100"),
        ranks,
        Workload(seq_len=8192 * ranks, global_batch=1),
    )
    plan = Plan(cp=float(ranks), zero=3, zero_shards=float(ranks), cp_method=method, recompute="full")
    return estimate(plan, job, any_runtime())


@every("ranks", [16, 32, 64, 96])
def test_a_mesh_of_heads_and_rings_is_best_over_several_nodes(ranks: int) -> None:
    """LongCA-bench (arXiv:2510.17896), up to 96 H100 and 768 K tokens: two dimensions are best overall.

    Heads that few ranks can share leave Ulysses out on 96.
    """
    steps = {
        name: one.step
        for name in ("usp", "double-ring", "ring", "all-gather", "all-to-all")
        if not (one := spread(ranks, name)).violations
    }
    assert min(steps, key=lambda name: steps[name]) == "usp"
    assert max(steps, key=lambda name: steps[name]) == "ring"
    assert ("all-to-all" in steps) == (ranks < 96)
