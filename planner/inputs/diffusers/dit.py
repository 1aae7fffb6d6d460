"""DiT: images of classes, each block with embedders of timestep and class of its own."""

from __future__ import annotations

from typing import Any

from planner.inputs.diffusers._basic import DEFAULTS, FREE, attended, wide_of
from planner.inputs.diffusers.family import (
    TIMESTEPS,
    DiffusersFamily,
    feed_forward,
    gated,
    heads_of,
    last_parts,
    model_record,
    modulated,
    perceptron,
    pointwise,
    product,
    table,
)
from planner.inputs.hf_fields import Config


def record(config: Config) -> dict[str, Any]:
    """Return the fields of the model."""
    hidden, heads, size = heads_of(config)
    channels, patch = config.whole("in_channels"), config.whole("patch_size")
    norm = 2 * hidden * config.flag("norm_elementwise_affine")
    bias, classes = config.flag("attention_bias"), config.whole("num_embeds_ada_norm")
    block = [
        *perceptron("sample", TIMESTEPS, hidden),
        table((classes + 1) * hidden),
        product("sample", hidden, 6 * hidden),
        *modulated("latents", hidden),
        *attended(("latents", "latents"), (heads, size), hidden, bias),
        *gated("latents", hidden),
        pointwise("norm", "latents", hidden, norm),
        pointwise("modulate", "latents", hidden),
        *feed_forward("latents", hidden, 4 * hidden, wide_of(config)),
        *gated("latents", hidden),
    ]
    made = patch**2 * config.whole("out_channels", otherwise=channels)
    first = [product("latents", channels * patch**2, hidden)]
    ends = {"first": first, "last": last_parts(hidden, made, hidden)}
    return model_record(hidden, {"block": block}, ["block"] * config.whole("num_layers"), ends)


ENTRY = DiffusersFamily(
    name="DiTTransformer2DModel",
    cite="diffusers 0.42.1, models/transformers/dit_transformer_2d.py and models/normalization.py, "
    "AdaLayerNormZero",
    defaults=DEFAULTS | {"attention_head_dim": 72, "out_channels": None},
    record=record,
    fixed={"norm_type": "ada_norm_zero"},
    free=FREE,
)
