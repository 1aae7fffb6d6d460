"""What DeepSpeed's ZeRO-3 takes for gathered weights, against its coordinator played module by module."""

from __future__ import annotations

import pytest

from planner.plan import Plan
from planner.techniques.engines.family import PassBytes, Step
from planner.techniques.engines.fetches import streamed_bytes
from planner.techniques.sharding import SHARDINGS
from tests.oracle.gathers import Coordinator

MODELS = {
    "llama3-8b": (
        32,
        4096,
        128256,
        ((4096, 4096), (1024, 4096), (14336, 4096), (14336, 4096), (4096, 14336)),
    ),
    "llama3-70b": (
        80,
        8192,
        128256,
        ((8192, 8192), (1024, 8192), (28672, 8192), (28672, 8192), (8192, 28672)),
    ),
    "qwen-72b": (
        80,
        8192,
        152064,
        ((24576, 8192), (8192, 8192), (24576, 8192), (24576, 8192), (8192, 24576)),
    ),
}
"""Layers, width, words and products; of grouped queries one of two narrow products, and the output, are left
out."""


def played(name: str, rank: int) -> float:
    """Return the bytes that a step's gathers hold, with adapters of a rank or without; layers run again."""
    count, hidden, words, products = MODELS[name]
    sizes = {"embedding": float(words * hidden), "head": float(words * hidden)}
    layers: list[list[str]] = [[] for _ in range(count)]
    for place, layer in enumerate(layers):
        for number, (outputs, inputs) in enumerate(products):
            parts = {"": inputs * outputs} | ({"a": rank * inputs, "b": rank * outputs} if rank else {})
            for part, size in parts.items():
                layer.append(f"{place}.{number}{part}")
                sizes[layer[-1]] = float(size)
    back = [one for layer in reversed(layers) for one in (*layer, *reversed(layer))]
    order = ["embedding", *(one for layer in layers for one in layer), "head", "head", *back]
    return Coordinator(sizes).play(order + ["embedding"] * (not rank), steps=2)


def counted(name: str, rank: int) -> float:
    count, hidden, words, products = MODELS[name]
    sizes = [outputs * inputs for outputs, inputs in products]
    end, layer = 2.0 * words * hidden, 2.0 * sum(sizes)
    passes = PassBytes(0.0, 0.0, 0.0, 0.0, layer, end, end, 0.0, 0.0, product=float(max(sizes)))
    plan, whole = Plan(dp=4, zero=3, zero_shards=4), count * layer + 2 * end
    step = Step(
        passes, plan, SHARDINGS["zero3"], 0.0, whole, 2.0, 2.0, live_elements=1e9, small_between=bool(rank)
    )
    return float(streamed_bytes(step))


@pytest.mark.parametrize("rank", [0, 16])
@pytest.mark.parametrize("name", MODELS)
def test_a_stream_s_blocks_are_what_is_counted(name: str, rank: int) -> None:
    """Which of the last ones wait, and what of a bucket's copies fits where, is not counted."""
    assert counted(name, rank) == pytest.approx(played(name, rank), rel=0.30)


def test_one_rank_gathers_nothing() -> None:
    passes = PassBytes(0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0, 0.0)
    alone = Step(passes, Plan(zero=3), SHARDINGS["zero3"], 0.0, 9.0, 2.0, 2.0, live_elements=1.0)
    assert float(streamed_bytes(alone)) == 0.0
