"""Latte: blocks that attend within a frame, each followed by one that attends along time."""

from __future__ import annotations

from typing import Any

from planner.inputs.diffusers._basic import FREE, single_scale_block, single_scale_first
from planner.inputs.diffusers.family import (
    DiffusersFamily,
    heads_of,
    last_parts,
    model_record,
    perceptron,
    text_of,
)
from planner.inputs.hf_fields import Config


def record(config: Config) -> dict[str, Any]:
    """Return the fields of the model."""
    hidden, heads, size = heads_of(config)
    channels, cross = config.whole("in_channels"), config.whole("cross_attention_dim", otherwise=0)
    blocks = {
        "space": single_scale_block(config, (heads, size), cross, "space"),
        "time": single_scale_block(config, (heads, size), 0, "time"),
    }
    first = [
        *single_scale_first(config, hidden, False),
        *perceptron("text", config.whole("caption_channels"), hidden),
    ]
    made = config.whole("patch_size") ** 2 * config.whole("out_channels", otherwise=channels)
    ends = {"frames": config.whole("video_length"), "first": first, "last": last_parts(hidden, made)}
    layers = ["space", "time"] * config.whole("num_layers")
    return model_record(hidden, blocks, layers, text_of(config, "cross", 120) | ends)


_DEFAULTS: dict[str, Any] = {
    "num_attention_heads": 16, "attention_head_dim": 88, "out_channels": None, "num_layers": 1,
    "cross_attention_dim": None, "attention_bias": False, "activation_fn": "geglu",
    "norm_elementwise_affine": True, "video_length": 16, "in_channels": None, "patch_size": None,
    "caption_channels": None,
}  # fmt: skip

ENTRY = DiffusersFamily(
    name="LatteTransformer3DModel",
    cite="diffusers 0.42.1, models/transformers/latte_transformer_3d.py and models/attention.py, "
    "BasicTransformerBlock",
    defaults=_DEFAULTS,
    record=record,
    fixed={"norm_type": "ada_norm_single"},
    free=FREE | {"num_embeds_ada_norm"},
)
