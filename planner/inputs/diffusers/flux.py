"""FLUX.1: blocks of two streams, then blocks of one, over latents and text together."""

from __future__ import annotations

from typing import Any

from planner.inputs.diffusers._double import double_block, single_block
from planner.inputs.diffusers.family import (
    TIMESTEPS,
    DiffusersFamily,
    heads_of,
    last_parts,
    model_record,
    perceptron,
    product,
    text_of,
)
from planner.inputs.hf_fields import Config


def record(config: Config) -> dict[str, Any]:
    """Return the fields of the model."""
    hidden, heads, size = heads_of(config)
    channels, patch = config.whole("in_channels"), config.whole("patch_size")
    made = patch**2 * config.whole("out_channels", otherwise=channels)
    first = [
        product("latents", channels, hidden),
        product("text", config.whole("joint_attention_dim"), hidden),
    ]
    for width in (TIMESTEPS, *[TIMESTEPS] * config.flag("guidance_embeds")):
        first += perceptron("sample", width, hidden)
    first += perceptron("sample", config.whole("pooled_projection_dim"), hidden)
    blocks = {
        "double": double_block((heads, size), 4 * hidden, True, True),
        "single": single_block((heads, size), 4 * hidden),
    }
    layers = ["double"] * config.whole("num_layers") + ["single"] * config.whole("num_single_layers")
    ends = {"first": first, "last": last_parts(hidden, made, hidden)}
    return model_record(hidden, blocks, layers, text_of(config, "joint", 512) | ends)


_DEFAULTS: dict[str, Any] = {
    "patch_size": 1, "in_channels": 64, "out_channels": None, "num_layers": 19, "num_single_layers": 38,
    "attention_head_dim": 128, "num_attention_heads": 24, "joint_attention_dim": 4096,
    "pooled_projection_dim": 768, "guidance_embeds": False,
}  # fmt: skip

ENTRY = DiffusersFamily(
    name="FluxTransformer2DModel",
    cite="diffusers 0.42.1, models/transformers/transformer_flux.py",
    defaults=_DEFAULTS,
    record=record,
    fixed={},
    free=frozenset({"axes_dims_rope"}),
)
