"""Attention: hand arithmetic, brute-force counts of visible keys, and laws."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.formulas.attention import (
    AttentionCurve,
    attention_backward_seconds,
    attention_extrapolated,
    attention_flops,
    attention_forward_seconds,
    curve_between,
    visible_keys,
)
from planner.formulas.kernels import Kernels
from planner.formulas.unfused_attention import (
    UnfusedAttention,
    unfused_attention_backward_seconds,
    unfused_attention_forward_seconds,
)
from planner.inputs.curves import attention_curve, unfused_attention
from tests.cases import every

CURVE = AttentionCurve(
    rate=500e12,
    half_keys=200.0,
    half_queries=4000.0,
    launch=5e-6,
    backward_rate=400e12,
    backward_half_keys=64.0,
    seq_range=(1024.0, 16384.0),
)

FIELDS = {
    "efficiency": "0.6",
    "sustained_ratio": "0.5",
    "half_keys": "200",
    "half_queries_per_multiprocessor": "40",
    "launch": "5 us",
    "backward_efficiency": "0.5",
    "backward_half_keys": "64",
    "range": {"seq": [1024, 16384]},
}

KERNEL = UnfusedAttention(
    rate=100e12, misaligned_rate=10e12, score_bytes=80.0, forward_share=0.4, bandwidth=1e12
)


@given(
    seq_q=st.integers(1, 60),
    before=st.integers(0, 60),
    window=st.integers(1, 150),
)
def test_visible_keys_by_brute_force(seq_q: int, before: int, window: int) -> None:
    """Queries on a fine grid: the count of keys behind each, no more than the window."""
    seq_kv = before + seq_q
    queries = before + (np.arange(seq_q * 8) + 0.5) / 8
    counted = float(np.mean(np.minimum(queries, window)))
    assert visible_keys(float(seq_q), float(seq_kv), float(window)) == pytest.approx(counted, rel=0.01)


def test_keys_of_ones_own_cost_what_a_group_shares() -> None:
    # 4 * 128 * (2048 + 200 + 400 / g) * (32 * 4096 + 4000) / 500e12 and 5 us.
    curve = replace(CURVE, shared_half_keys=400.0)
    shape = (1.0, 32.0, 4096.0, 2048.0, 128.0)
    rows = 4 * 128 * (32 * 4096 + 4000) / 500e12
    for shared in (1.0, 8.0):
        expected = 5e-6 + rows * (2248 + 400 / shared)
        assert attention_forward_seconds(*shape, curve, shared) == pytest.approx(expected, rel=1e-12)


def test_plain_causal_attention_sees_half() -> None:
    assert visible_keys(8192.0, 8192.0, 8192.0) == 4096.0
    assert visible_keys(8192.0, 8192.0, 1e9) == 4096.0


def test_causal_flops_are_half_of_the_square() -> None:
    # FlashAttention-2, section 4.1: 4 * seq^2 * head_dim * heads, halved by the causal mask.
    seq = 2048.0
    full = 4 * seq**2 * 64 * 16
    assert attention_flops(1.0, 16.0, seq, visible_keys(seq, seq, seq), 64.0) == full / 2


def test_forward_and_backward_by_hand() -> None:
    # 2 sequences, 16 heads, 1024 queries: 32768 rows and 4000 more; 512 visible keys.
    forward = 5e-6 + 4 * 128 * (512 + 200) * 36768 / 500e12
    backward = 5e-6 + 10 * 128 * (512 + 64) * 36768 / 400e12
    shape = (2.0, 16.0, 1024.0, 512.0, 128.0)
    assert attention_forward_seconds(*shape, CURVE) == pytest.approx(forward)
    assert attention_backward_seconds(*shape, CURVE) == pytest.approx(backward)


@given(shape=st.tuples(*[st.integers(1, 10_000)] * 5), axis=st.integers(0, 4), more=st.integers(1, 1000))
def test_laws(shape: tuple[int, ...], axis: int, more: int) -> None:
    small = [float(size) for size in shape]
    large = [size + more * (place == axis) for place, size in enumerate(small)]
    seconds = attention_forward_seconds(*small, CURVE)
    assert seconds <= attention_forward_seconds(*large, CURVE)
    assert attention_flops(*small) / CURVE.rate <= seconds


def test_array_equals_scalar() -> None:
    draw = np.random.default_rng(3)
    seq = draw.integers(1, 40_000, 500).astype(float)
    window = draw.integers(1, 40_000, 500).astype(float)
    column = attention_forward_seconds(2.0, 16.0, seq, visible_keys(seq, seq, window), 128.0, CURVE)
    scalars = [
        float(attention_forward_seconds(2.0, 16.0, s, visible_keys(s, s, w), 128.0, CURVE))
        for s, w in zip(seq.tolist(), window.tolist(), strict=True)
    ]
    assert column.tolist() == scalars


def test_unfused_by_hand() -> None:
    # 1e9 scores of 416 FLOP at 100 TFLOP/s, and 32 of their 80 bytes at 1 TB/s; 100 is no multiple of 8.
    scores = (10.0, 100.0, 1000.0, 1000.0)
    assert unfused_attention_forward_seconds(*scores, 104.0, KERNEL) == pytest.approx(4.16e-3 + 32e-3)
    assert unfused_attention_backward_seconds(*scores, 104.0, KERNEL) == pytest.approx(8.32e-3 + 48e-3)
    assert unfused_attention_forward_seconds(*scores, 100.0, KERNEL) == pytest.approx(40e-3 + 32e-3)


def test_fields_become_curves() -> None:
    """The backward efficiency was read off training runs: what hours of work hold is in it already."""
    curve = attention_curve(FIELDS, 1e15, 100.0)
    assert (curve.rate, curve.backward_rate, curve.half_queries) == pytest.approx((300e12, 500e12, 4000.0))
    assert attention_curve(FIELDS, 1e15, 100.0, sustained=False).rate == pytest.approx(600e12)
    fields = {
        "efficiency": "0.5",
        "misaligned_efficiency": "0.05",
        "score_bytes": "76 B",
        "fused_softmax_score_bytes": "31 B",
        "forward_share": "0.4",
        "memory_efficiency": "0.5",
    }
    assert unfused_attention(fields, 1e15, 2e12, fused_softmax=True).score_bytes == 31.0
    plain = unfused_attention(fields, 1e15, 2e12, fused_softmax=False)
    assert plain == UnfusedAttention(500e12, 50e12, 76.0, 0.4, 1e12)


def test_a_backward_rate_that_was_measured_in_a_burst_does_not_last_either() -> None:
    measured = FIELDS | {"backward_standing": "measured"}
    assert attention_curve(measured, 1e15, 100.0).backward_rate == pytest.approx(250e12)
    assert attention_curve(measured, 1e15, 100.0, sustained=False).backward_rate == pytest.approx(500e12)


def test_residuals_know_how_many_heads_share_keys_each_pass_its_own() -> None:
    """Forward 20% more where nothing is shared and nothing where four share; backward 10% more everywhere."""
    axes = {"seq": [1024, 2048], "rows": [16, 32], "shared": [1, 4]}
    fields = FIELDS | {
        "residuals": {**axes, "shares": [0.2, 0.0] * 4},
        "backward_residuals": {**axes, "shares": [0.1] * 8},
    }
    plain, own = attention_curve(FIELDS, 1e15, 100.0), attention_curve(fields, 1e15, 100.0)
    size = (1.0, 24.0, 1500.0, 750.0, 128.0)
    for shared, more in ((1.0, 1.2), (2.5, 1.1), (4.0, 1.0), (8.0, 1.0)):
        expected = more * attention_forward_seconds(*size, plain)
        assert attention_forward_seconds(*size, own, shared) == pytest.approx(expected, rel=1e-12)
        expected = 1.1 * attention_backward_seconds(*size, plain)
        assert attention_backward_seconds(*size, own, shared) == pytest.approx(expected, rel=1e-12)


def test_a_range_without_sequences_is_refused() -> None:
    with pytest.raises(ValueError, match="seq with two numbers"):
        attention_curve(FIELDS | {"range": "all"}, 1e15, 100.0)


def test_outside_the_measured_lengths_is_told() -> None:
    assert attention_extrapolated(np.array([512.0, 1024.0, 32768.0]), CURVE).tolist() == [1, 0, 1]


WIDE = replace(CURVE, rate=800e12, half_keys=100.0, backward_rate=480e12, seq_range=(1.0, 2.0))
"""Size 128 beside `CURVE` as 64: a score takes 0.128 and 0.16 forward, 0.16 and 0.2667 backward. [s/FLOP]"""


@every(
    ("head_dim", "forward", "backward"),
    [
        (64.0, 64 / 0.128, 64 / 0.16),
        (96.0, 96 / 0.144, 96 / (0.5 * (0.16 + 128 / 480))),
        (128.0, 128 / 0.16, 480.0),
        (32.0, 32 / 0.112, 32 / (0.16 - 0.5 * (128 / 480 - 0.16))),
    ],
)
def test_the_time_of_a_score_is_a_line_in_the_head_size(
    head_dim: float, forward: float, backward: float
) -> None:
    curve = curve_between(head_dim, (64.0, CURVE), (128.0, WIDE))
    assert curve.rate == pytest.approx(forward * 1e12)
    assert curve.backward_rate == pytest.approx(backward * 1e12)


def test_between_two_head_sizes_all_constants_are_between_theirs() -> None:
    """A size of 96 has 2/3 of the way from 1/64 to 1/128 behind it."""
    curve = curve_between(96.0, (64.0, CURVE), (128.0, WIDE))
    assert curve.half_keys == pytest.approx(200 / 3 + 100 * 2 / 3)
    assert curve.seq_range == WIDE.seq_range
    narrow = curve_between(16.0, (64.0, CURVE), (128.0, WIDE))
    assert (narrow.half_keys, narrow.seq_range) == (CURVE.half_keys, CURVE.seq_range)


def test_a_narrow_head_is_never_faster_than_the_narrowest_that_was_measured() -> None:
    curve = curve_between(16.0, (64.0, WIDE), (128.0, CURVE))
    assert curve.rate == WIDE.rate


def test_a_measured_head_size_keeps_its_curve_and_the_widest_holds_beyond() -> None:
    both = {64: CURVE, 128: WIDE}
    kernels = Kernels({}, both, {}, KERNEL, KERNEL, 1e12, 0.0)
    assert kernels.attention_for(64) is CURVE
    assert kernels.attention_for(512) is WIDE
    assert kernels.attention_for(80).rate == pytest.approx(80 / 0.136 * 1e12)
    assert Kernels({}, {128: WIDE}, {}, KERNEL, KERNEL, 1e12, 0.0).attention_for(64) is WIDE
