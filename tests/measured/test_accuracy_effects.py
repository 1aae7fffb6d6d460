"""What the tables show one at a time comes out one at a time: pairs of runs that differ in one column."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.measured.matched import Effect, biases, effect, peak_memory

SWEEP = "aleph-alpha-layouts"
BUBBLE = "zero-bubble"
BLOOM = "bigscience-bloom-prequel"
TITAN = "torchtitan"
COMPILED = "torch.compile on"

Case = tuple[str, str, tuple[object, object], tuple[str, ...]]


def missed(*values: object, why: str) -> object:
    return pytest.param(*values, marks=pytest.mark.xfail(strict=True, reason=why))


@pytest.mark.parametrize(
    ("source", "column", "change", "free", "pairs", "measured", "tolerance"),
    [
        (SWEEP, "recompute", ("none", "every-layer"), (), 21, 1.27, 0.03),
        (SWEEP, "fused_norm", (1, 0), (), 7, 1.16, 0.04),
        (SWEEP, "seq_parallel", (0, 1), (), 10, 0.95, 0.03),
        (SWEEP, "flash_attn", (2, 1), (), 28, 1.03, 0.02),
        (SWEEP, "flash_attn", (2, 0), (), 11, 1.09, 0.02),
        (SWEEP, "micro_batch", (1, 2), (), 41, 0.975, 0.02),
        (SWEEP, "micro_batch", (2, 4), (), 26, 0.99, 0.02),
        (SWEEP, "tp", (1, 2), ("dp",), 29, 1.09, 0.02),
        (SWEEP, "tp", (2, 4), ("dp",), 29, 1.14, 0.02),
        (SWEEP, "tp", (1, 4), ("dp",), 14, 1.15, 0.02),
        (SWEEP, "pp", (1, 2), ("dp", "schedule", "vpp"), 31, 0.95, 0.03),
        (SWEEP, "pp", (2, 4), ("dp", "schedule", "vpp"), 36, 0.97, 0.035),
        (SWEEP, "num_gpus", (64, 256), ("dp",), 10, 0.305, 0.02),
        (BUBBLE, "schedule", ("1f1b", "interleaved"), ("vpp",), 12, 0.935, 0.045),
        (BUBBLE, "schedule", ("1f1b", "zb-1p"), (), 12, 0.916, 0.03),
        missed(
            BUBBLE, "schedule", ("1f1b", "zb-2p"), (), 12, 0.829, 0.03,
            why="zb-2p gains 17% and is said to gain 12%",
        ),
        (TITAN, "precision", ("bf16", "fp8"), (), 6, 0.779, 0.03),
        (TITAN, "overlap", ("torch.compile off", "torch.compile on"), (), 2, 0.86, 0.02),
        (TITAN, "overlap", (f"{COMPILED}; async TP off", f"{COMPILED}; async TP on"), (), 2, 0.91, 0.03),
        missed(
            "bridge-ablations", "overlap", ("moe a2a off", "moe a2a on"), (), 1, 0.85, 0.05,
            why="the overlap that the row states is lost to the fitted share of expert messages",
        ),
        missed(
            "litgpt", "zero", ("0", "3"), (), 1, 0.80, 0.05,
            why="sharding made the step 20% faster there, and is said to make it 1% slower",
        ),
    ],
)  # fmt: skip
def test_a_change_has_the_measured_effect(
    source: str,
    column: str,
    change: tuple[object, object],
    free: Sequence[str],
    pairs: int,
    measured: float,
    tolerance: float,
) -> None:
    found = effect(source, column, change, free)
    assert len(found.pairs) == pairs
    assert found.measured == pytest.approx(measured, rel=0.02)
    assert abs(found.error) <= tolerance


@pytest.mark.parametrize(
    ("source", "column", "change", "free", "pairs", "measured", "tolerance"),
    [
        (BUBBLE, "schedule", ("1f1b", "interleaved"), ("vpp",), 12, 1.28, 0.03),
        (BUBBLE, "schedule", ("1f1b", "zb-1p"), (), 12, 1.05, 0.03),
        (BUBBLE, "schedule", ("1f1b", "zb-2p"), (), 12, 1.76, 0.03),
        missed(
            BLOOM, "micro_batch", (1, 2), (), 9, 1.20, 0.04,
            why="memory grows by 20%, and is said to grow by 14%",
        ),
        (BLOOM, "micro_batch", (2, 4), (), 16, 1.28, 0.05),
        (BLOOM, "micro_batch", (4, 8), (), 5, 1.38, 0.03),
        (BLOOM, "tp", (4, 8), ("dp", "pp"), 5, 0.79, 0.03),
    ],
)  # fmt: skip
def test_a_change_has_the_measured_effect_on_memory(
    source: str,
    column: str,
    change: tuple[object, object],
    free: Sequence[str],
    pairs: int,
    measured: float,
    tolerance: float,
) -> None:
    found = effect(source, column, change, free, peak_memory)
    assert len(found.pairs) == pairs
    assert found.measured == pytest.approx(measured, rel=0.02)
    assert abs(found.error) <= tolerance


@pytest.mark.parametrize(
    ("column", "change", "free"),
    [
        ("recompute", ("none", "every-layer"), ()),
        ("fused_norm", (1, 0), ()),
        ("seq_parallel", (0, 1), ()),
        ("tp", (1, 2), ("dp",)),
        ("tp", (2, 4), ("dp",)),
        ("num_gpus", (64, 256), ("dp",)),
    ],
)
def test_nearly_every_pair_of_the_sweep_goes_the_right_way(
    column: str, change: tuple[object, object], free: Sequence[str]
) -> None:
    assert effect(SWEEP, column, change, free).agreeing() >= 0.85


@pytest.mark.parametrize(
    ("source", "column", "spread"),
    [
        (SWEEP, "tp", 0.02),
        ("megatron-readme-2020-09", "tp", 0.05),
        ("megatron-readme-a100-2021-04", "tp", 0.06),
        (BLOOM, "tp", 0.04),
        (SWEEP, "num_gpus", 0.01),
    ],
)
def test_no_degree_makes_the_cost_model_grow_more_hopeful(source: str, column: str, spread: float) -> None:
    found = [bias for _, bias in biases(source, column)]
    assert len(found) >= 2
    assert max(found) - min(found) <= spread


def test_an_effect_is_counted_as_a_hand_would() -> None:
    from tests.measured.matched import Pair

    found = Effect((Pair(("a", "b"), 1.2, 1.1), Pair(("c", "d"), 1.4, 1.3), Pair(("e", "f"), 0.9, 1.2)))
    assert (found.measured, found.predicted) == (1.2, 1.2)
    assert found.agreeing() == pytest.approx(2 / 3)
