"""Wan 2.1 and 2.2, text to video: self-attention over the whole video, attention to text, norms in fp32."""

from __future__ import annotations

from math import prod
from typing import Any

from planner.inputs.diffusers.family import (
    DiffusersFamily,
    core,
    feed_forward,
    gated,
    heads_of,
    last_parts,
    model_record,
    modulated,
    perceptron,
    pointwise,
    product,
    queries_and_keys,
    table,
    text_of,
)
from planner.inputs.hf_fields import Config


def record(config: Config) -> dict[str, Any]:
    """Return the fields of the model."""
    hidden, heads, size = heads_of(config)
    channels, patch = config.whole("in_channels"), prod(config.numbers("patch_size") or [1])
    across = 2 * hidden * config.flag("cross_attn_norm")
    block = [
        table(6 * hidden),
        *modulated("latents", hidden, fp32=True),
        product("latents", hidden, 3 * hidden),
        *queries_and_keys("latents", hidden, 2 * hidden, True),
        core("latents", "latents", (heads, size)),
        product("latents", hidden, hidden, keeps=False),
        *gated("latents", hidden),
        *([pointwise("norm", "latents", hidden, across, fp32=True)] if across else []),
        product("latents", hidden, hidden),
        product("text", hidden, 2 * hidden),
        pointwise("norm", "latents", hidden, hidden),
        pointwise("norm", "text", hidden, hidden),
        core("latents", "text", (heads, size)),
        product("latents", hidden, hidden, keeps=False),
        pointwise("add", "latents", hidden),
        *modulated("latents", hidden, fp32=True),
        *feed_forward("latents", hidden, config.whole("ffn_dim")),
        pointwise("gate", "latents", hidden, fp32=True),
        pointwise("add", "latents", hidden),
    ]
    first = [
        product("latents", channels * patch, hidden),
        *perceptron("sample", config.whole("freq_dim"), hidden),
        product("sample", hidden, 6 * hidden),
        *perceptron("text", config.whole("text_dim"), hidden),
    ]
    made = patch * config.whole("out_channels", otherwise=channels)
    ends = {"first": first, "last": last_parts(hidden, made)}
    layers = ["block"] * config.whole("num_layers")
    return model_record(hidden, {"block": block}, layers, text_of(config, "cross", 512) | ends)


_DEFAULTS: dict[str, Any] = {
    "patch_size": [1, 2, 2], "num_attention_heads": 40, "attention_head_dim": 128, "in_channels": 16,
    "out_channels": 16, "text_dim": 4096, "freq_dim": 256, "ffn_dim": 13824, "num_layers": 40,
    "cross_attn_norm": True,
}  # fmt: skip

ENTRY = DiffusersFamily(
    name="WanTransformer3DModel",
    cite="diffusers 0.42.1, models/transformers/transformer_wan.py",
    defaults=_DEFAULTS,
    record=record,
    fixed={
        "qk_norm": "rms_norm_across_heads",
        "image_dim": None,
        "added_kv_proj_dim": None,
        "pos_embed_seq_len": None,
    },
    free=frozenset({"eps", "rope_max_seq_len", "window_size"}),
)
