"""Kernel curves of every accelerator: a value for each shape, never above the peak, without jumps."""

from __future__ import annotations

import numpy as np

from planner.formulas.attention import (
    attention_backward_seconds,
    attention_flops,
    attention_forward_seconds,
    visible_keys,
)
from planner.formulas.experts import grouped_gemm_seconds
from planner.formulas.gemm import gemm_seconds
from planner.inputs.kernels import PEAK_OF, load_kernels
from planner.inputs.load_hardware import accelerator_names, load_accelerator
from planner.numeric import Column
from tests.cases import every

SHAPES = 2000


def sizes(seed: int, count: int, largest: float) -> list[Column]:
    """Whole sizes from 1 on, spread evenly over their logarithms."""
    random = np.random.default_rng(seed)
    return [np.floor(np.exp(random.uniform(0, np.log(largest), SHAPES))) for _ in range(count)]


def peak_of(name: str, precision: str) -> float:
    rates = load_accelerator(name).peak
    return next(float(rates[key]) for key in PEAK_OF[precision] if key in rates)


@every("sustained", [True, False])
@every("name", accelerator_names())
def test_products_are_never_faster_than_the_peak_and_one_more_never_doubles_them(
    name: str, sustained: bool
) -> None:
    kernels = load_kernels(load_accelerator(name), sustained)
    shape = sizes(7, 3, 1e6)
    for precision, curve in kernels.gemm.items():
        seconds = gemm_seconds(*shape, curve)
        share = 2 * np.prod(shape, axis=0) / seconds / peak_of(name, precision)
        assert np.all((share > 0) & (share <= 1)), precision
        for axis in range(3):
            longer = gemm_seconds(*(size + (place == axis) for place, size in enumerate(shape)), curve)
            assert np.all((longer >= seconds) & (longer <= 2 * seconds)), (precision, axis)
        experts = [np.minimum(size, 4096) for size in sizes(8, 4, 1e6)]
        grouped = grouped_gemm_seconds(*experts, kernels.experts[precision])
        share = 2 * np.prod(experts, axis=0) / grouped / peak_of(name, precision)
        assert np.all((share > 0) & (share <= 1)), precision


@every("name", accelerator_names())
def test_attention_is_never_faster_than_the_peak_and_grows_with_each_size(name: str) -> None:
    kernels, peak = load_kernels(load_accelerator(name)), peak_of(name, "bf16")
    batch, heads, length = sizes(9, 3, 1e6)
    batch, heads = np.minimum(batch, 64), np.minimum(heads, 128)
    for head_dim in (1, 31, 64, 100, 128, 256, 512):
        curve = kernels.attention_for(head_dim)
        visible, more = visible_keys(length, length, length), visible_keys(length + 1, length + 1, length + 1)
        work = attention_flops(batch, heads, length, visible, head_dim)
        for seconds, factor in ((attention_forward_seconds, 1.0), (attention_backward_seconds, 2.5)):
            time = seconds(batch, heads, length, visible, head_dim, curve)
            share = factor * work / time / peak
            assert np.all((share > 0) & (share <= 1)), head_dim
            longer = seconds(batch, heads, length + 1, more, head_dim, curve)
            assert np.all((longer > time) & (longer <= 2 * time)), head_dim
            wider = seconds(batch, heads + 1, length, visible, head_dim, curve)
            assert np.all((wider > time) & (wider <= 2 * time)), head_dim


@every("name", accelerator_names())
def test_wider_heads_take_longer_and_never_less_time_for_each_score(name: str) -> None:
    """At the size of a training step; in small ones the start of each measured size differs."""
    kernels = load_kernels(load_accelerator(name))
    curves = {head_dim: kernels.attention_for(head_dim) for head_dim in range(1, 513)}
    for seconds in (attention_forward_seconds, attention_backward_seconds):
        times = np.array(
            [seconds(4.0, 32.0, 8192.0, 4096.0, float(size), curve, 8.0) for size, curve in curves.items()]
        )
        assert np.all(np.diff(times) > 0)
        assert np.all(np.diff(times[:64] / np.arange(1, 65)) <= 1e-12)


def test_a_slower_grade_of_a_chip_is_never_faster() -> None:
    """The MI350X is the MI355X at a lower clock, the H100 PCIe the SXM part at less power."""
    for slower, faster in (
        ("mi350x", "mi355x"),
        ("h100-80gb-pcie", "h100-80gb-sxm"),
        ("h20-96gb", "h200-141gb"),
    ):
        one, other = (
            gemm_seconds(8192.0, 8192.0, 8192.0, load_kernels(load_accelerator(name)).gemm["bf16"])
            for name in (slower, faster)
        )
        assert one > other, slower
