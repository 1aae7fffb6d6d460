"""HunyuanVideo: text through blocks of its own, then blocks of two streams and of one."""

from __future__ import annotations

from typing import Any

from planner.inputs.diffusers._double import double_block, single_block
from planner.inputs.diffusers.family import (
    TIMESTEPS,
    DiffusersFamily,
    Parts,
    core,
    feed_forward,
    gated,
    heads_of,
    last_parts,
    model_record,
    perceptron,
    pointwise,
    product,
    text_of,
)
from planner.inputs.hf_fields import Config


def refined(heads: tuple[int, int]) -> Parts:
    """Return a block over text alone, with gates that timestep and mean text say."""
    hidden = heads[0] * heads[1]
    return [
        product("sample", hidden, 2 * hidden),
        pointwise("norm", "text", hidden, 2 * hidden),
        product("text", hidden, 3 * hidden),
        core("text", "text", heads),
        product("text", hidden, hidden, keeps=False),
        *gated("text", hidden),
        pointwise("norm", "text", hidden, 2 * hidden),
        *feed_forward("text", hidden, 4 * hidden),
        *gated("text", hidden),
    ]


def record(config: Config) -> dict[str, Any]:
    """Return the fields of the model."""
    hidden, heads, size = heads_of(config)
    channels, text = config.whole("in_channels"), config.whole("text_embed_dim")
    patch = config.whole("patch_size_t") * config.whole("patch_size") ** 2
    ratio = config.value("mlp_ratio")
    if not isinstance(ratio, int | float) or isinstance(ratio, bool) or ratio <= 0:
        config.fault("mlp_ratio", ratio, "a number above zero")
        ratio = 4.0
    if config.value("image_condition_type") == "token_replace":
        config.fault("image_condition_type", "token_replace", "null or latent_concat")
    first = [product("latents", channels * patch, hidden), *perceptron("sample", TIMESTEPS, hidden)]
    first += [*perceptron("sample", text, hidden), product("text", text, hidden)]
    for _ in range(config.whole("num_refiner_layers")):
        first += refined((heads, size))
    for width in (TIMESTEPS, *[TIMESTEPS] * config.flag("guidance_embeds")):
        first += perceptron("sample", width, hidden)
    first += perceptron("sample", config.whole("pooled_projection_dim"), hidden)
    inner = int(hidden * ratio)
    blocks = {
        "double": double_block((heads, size), inner, True, True),
        "single": single_block((heads, size), inner),
    }
    layers = ["double"] * config.whole("num_layers") + ["single"] * config.whole("num_single_layers")
    made = patch * config.whole("out_channels", otherwise=channels)
    ends = {"first": first, "last": last_parts(hidden, made, hidden)}
    return model_record(hidden, blocks, layers, text_of(config, "joint", 256) | ends)


_DEFAULTS: dict[str, Any] = {
    "in_channels": 16, "out_channels": 16, "num_attention_heads": 24, "attention_head_dim": 128,
    "num_layers": 20, "num_single_layers": 40, "num_refiner_layers": 2, "mlp_ratio": 4.0, "patch_size": 2,
    "patch_size_t": 1, "guidance_embeds": True, "text_embed_dim": 4096, "pooled_projection_dim": 768,
    "image_condition_type": None,
}  # fmt: skip

ENTRY = DiffusersFamily(
    name="HunyuanVideoTransformer3DModel",
    cite="diffusers 0.42.1, models/transformers/transformer_hunyuan_video.py",
    defaults=_DEFAULTS,
    record=record,
    fixed={"qk_norm": "rms_norm"},
    free=frozenset({"rope_theta", "rope_axes_dim"}),
)
