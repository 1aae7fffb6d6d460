"""The basic block of diffusers with scales from a table: self-attention, cross-attention, feed-forward."""

from __future__ import annotations

from typing import Any

from planner.inputs.diffusers.family import (
    TIMESTEPS,
    Parts,
    core,
    feed_forward,
    gated,
    perceptron,
    pointwise,
    product,
    table,
)
from planner.inputs.hf_fields import Config

WIDE = {"gelu": 1, "gelu-approximate": 1, "geglu": 2, "swiglu": 2}
"""Activations, and how much wider the first product is than the second is tall."""

DEFAULTS: dict[str, Any] = {
    "num_attention_heads": 16,
    "in_channels": 4,
    "num_layers": 28,
    "attention_bias": True,
    "patch_size": 2,
    "activation_fn": "gelu-approximate",
    "num_embeds_ada_norm": 1000,
    "norm_elementwise_affine": False,
}
FREE = frozenset({"dropout", "norm_num_groups", "sample_size", "upcast_attention", "norm_eps"})


def wide_of(config: Config) -> int:
    """Return how much wider than its inner width the first product of a feed-forward is. [-]"""
    word = str(config.value("activation_fn"))
    if word not in WIDE:
        config.fault("activation_fn", word, f"one of {', '.join(WIDE)}")
    return WIDE.get(word, 1)


def attended(
    rows: tuple[str, str], heads: tuple[int, int], inputs: int, bias: bool, axis: str | None = None
) -> Parts:
    """Return attention of rows to others whose vectors are ``inputs`` wide, with its products."""
    queries, keys = rows
    hidden = heads[0] * heads[1]
    if queries == keys:
        made = [product(queries, hidden, 3 * hidden, bias)]
    else:
        made = [product(queries, hidden, hidden, bias), product(keys, inputs, 2 * hidden, bias)]
    return [*made, core(queries, keys, heads, axis), product(queries, hidden, hidden, keeps=False)]


def single_scale_block(config: Config, heads: tuple[int, int], cross: int, axis: str | None = None) -> Parts:
    """Return a block of norm type ``ada_norm_single``; ``cross`` is the width of text, 0 for none.

    Within an axis each frame attends to a copy of the text of its own.
    """
    hidden, bias = heads[0] * heads[1], config.flag("attention_bias")
    norm = 2 * hidden * config.flag("norm_elementwise_affine")
    first = [table(6 * hidden), pointwise("norm", "latents", hidden, norm)]
    first += [pointwise("modulate", "latents", hidden)]
    first += [*attended(("latents", "latents"), heads, hidden, bias, axis), *gated("latents", hidden)]
    if cross:
        first += [
            *attended(("latents", "frame-text" if axis else "text"), heads, cross, bias),
            pointwise("add", "latents", hidden),
        ]
    fed = feed_forward("latents", hidden, 4 * hidden, wide_of(config))
    second = [pointwise("norm", "latents", hidden, norm), pointwise("modulate", "latents", hidden)]
    return [*first, *second, *fed, *gated("latents", hidden)]


def single_scale_first(config: Config, hidden: int, sized: bool) -> Parts:
    """Return what enters: patches, timestep, where ``sized`` resolution and aspect ratio, and six scales."""
    parts = [product("latents", config.whole("in_channels") * config.whole("patch_size") ** 2, hidden)]
    parts += perceptron("sample", TIMESTEPS, hidden)
    for _ in range(2 * sized):
        parts += perceptron("sample", TIMESTEPS, hidden // 3)
    return [*parts, product("sample", hidden, 6 * hidden)]
