"""Stable Diffusion 3 and 3.5: blocks of two streams, the last without what its text would become."""

from __future__ import annotations

from typing import Any

from planner.inputs.diffusers._double import entered, left
from planner.inputs.diffusers.family import (
    TIMESTEPS,
    DiffusersFamily,
    Parts,
    core,
    gated,
    heads_of,
    last_parts,
    model_record,
    perceptron,
    pointwise,
    product,
    queries_and_keys,
    text_of,
)
from planner.inputs.hf_fields import Config


def block(heads: tuple[int, int], normed: bool, dual: bool, last: bool) -> Parts:
    """Return a block; a ``dual`` one attends to latents alone besides, the ``last`` one has no text after."""
    hidden = heads[0] * heads[1]
    parts = [
        product("sample", hidden, (9 if dual else 6) * hidden),
        *entered("latents", heads, normed, False),
    ]
    parts += [product("sample", hidden, (2 if last else 6) * hidden), *entered("text", heads, normed, False)]
    parts += [core("all", "all", heads)]
    if dual:
        parts += [
            pointwise("modulate", "latents", hidden),
            product("latents", hidden, 3 * hidden),
            *queries_and_keys("latents", hidden, 2 * heads[1] * normed, False),
            core("latents", "latents", heads),
            product("latents", hidden, hidden, keeps=False),
            *gated("latents", hidden),
        ]
    parts += left("latents", hidden, 4 * hidden)
    return parts if last else parts + left("text", hidden, 4 * hidden)


def record(config: Config) -> dict[str, Any]:
    """Return the fields of the model."""
    hidden, heads, size = heads_of(config)
    channels, patch = config.whole("in_channels"), config.whole("patch_size")
    if (caption := config.whole("caption_projection_dim")) != hidden:
        config.fault("caption_projection_dim", caption, f"{hidden}, the hidden size")
    if (norm := config.value("qk_norm")) not in (None, "rms_norm"):
        config.fault("qk_norm", norm, "null or rms_norm")
    layers, dual = config.whole("num_layers"), set(config.numbers("dual_attention_layers") or ())
    words: list[str] = []
    blocks: dict[str, Parts] = {}
    for layer in range(layers):
        kind = (layer in dual, layer == layers - 1)
        words.append("dual" * kind[0] + "-" * all(kind) + "last" * kind[1] or "double")
        blocks.setdefault(words[-1], block((heads, size), norm is not None, *kind))
    first = [
        product("latents", channels * patch**2, hidden),
        product("text", config.whole("joint_attention_dim"), hidden),
        *perceptron("sample", TIMESTEPS, hidden),
        *perceptron("sample", config.whole("pooled_projection_dim"), hidden),
    ]
    made = patch**2 * config.whole("out_channels", otherwise=channels)
    ends = {"first": first, "last": last_parts(hidden, made, hidden)}
    return model_record(hidden, blocks, words, text_of(config, "joint", 77 + 256) | ends)


_DEFAULTS: dict[str, Any] = {
    "patch_size": 2, "in_channels": 16, "out_channels": 16, "num_layers": 18, "attention_head_dim": 64,
    "num_attention_heads": 18, "joint_attention_dim": 4096, "caption_projection_dim": 1152,
    "pooled_projection_dim": 2048, "dual_attention_layers": [], "qk_norm": None,
}  # fmt: skip

ENTRY = DiffusersFamily(
    name="SD3Transformer2DModel",
    cite="diffusers 0.42.1, models/transformers/transformer_sd3.py and models/attention.py, "
    "JointTransformerBlock",
    defaults=_DEFAULTS,
    record=record,
    fixed={},
    free=frozenset({"sample_size", "pos_embed_max_size"}),
)
