"""PixArt: self-attention, attention to text, and scales from one table a block."""

from __future__ import annotations

from typing import Any

from planner.inputs.diffusers._basic import DEFAULTS, FREE, single_scale_block, single_scale_first
from planner.inputs.diffusers.family import (
    DiffusersFamily,
    heads_of,
    last_parts,
    model_record,
    perceptron,
    text_of,
)
from planner.inputs.hf_fields import Config

LARGE = 128
"""Latent size from which resolution and aspect ratio are told to the model, unless its config says."""

ALPHA, SIGMA = 120, 300
"""Tokens of a prompt: those of PixArt-alpha, which tells sizes or is small, and of PixArt-sigma."""


def record(config: Config) -> dict[str, Any]:
    """Return the fields of the model."""
    hidden, heads, size = heads_of(config)
    channels = config.whole("in_channels")
    said = config.value("use_additional_conditions")
    sized = config.whole("sample_size") == LARGE if said is None else bool(said)
    cross = config.whole("cross_attention_dim", otherwise=0)
    caption = config.whole("caption_channels", otherwise=0)
    if not cross:
        config.fault("cross_attention_dim", "null", "the width of text: without it there is no condition")
    first = single_scale_first(config, hidden, sized)
    first += perceptron("text", caption, hidden) if caption else []
    made = config.whole("patch_size") ** 2 * config.whole("out_channels", otherwise=channels)
    block = single_scale_block(config, (heads, size), cross)
    ends = {"first": first, "last": last_parts(hidden, made)}
    tokens = ALPHA if sized or config.whole("sample_size") < LARGE else SIGMA
    layers = ["block"] * config.whole("num_layers")
    return model_record(hidden, {"block": block}, layers, text_of(config, "cross", tokens) | ends)


ENTRY = DiffusersFamily(
    name="PixArtTransformer2DModel",
    cite="diffusers 0.42.1, models/transformers/pixart_transformer_2d.py and models/attention.py, "
    "BasicTransformerBlock",
    defaults=DEFAULTS
    | {
        "attention_head_dim": 72,
        "out_channels": 8,
        "cross_attention_dim": 1152,
        "caption_channels": None,
        "sample_size": LARGE,
        "use_additional_conditions": None,
    },
    record=record,
    fixed={"norm_type": "ada_norm_single", "attention_type": "default"},
    free=FREE | {"interpolation_scale"},
)
