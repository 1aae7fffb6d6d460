"""CogVideoX: one stream of text and video, whose norms take scales of their own for each."""

from __future__ import annotations

from typing import Any

from planner.inputs.diffusers._basic import wide_of
from planner.inputs.diffusers.family import (
    DiffusersFamily,
    Parts,
    core,
    feed_forward,
    gated,
    heads_of,
    last_parts,
    model_record,
    pointwise,
    product,
    queries_and_keys,
)
from planner.inputs.hf_fields import Config


def _embedder(inputs: int, width: int) -> Parts:
    return [
        product("sample", inputs, width),
        pointwise("activation", "sample", width),
        product("sample", width, width),
    ]


def record(config: Config) -> dict[str, Any]:
    """Return the fields of the model."""
    hidden, heads, size = heads_of(config)
    channels, timed = config.whole("in_channels"), config.whole("time_embed_dim")
    deep = config.whole("patch_size_t", otherwise=0)
    patch = config.whole("patch_size") ** 2 * (deep or 1)
    norm = 2 * hidden * config.flag("norm_elementwise_affine")
    entered = [
        product("sample", timed, 6 * hidden),
        pointwise("norm", "all", hidden, norm),
        pointwise("modulate", "all", hidden),
    ]
    block = [
        *entered,
        product("all", hidden, 3 * hidden, config.flag("attention_bias")),
        *queries_and_keys("all", hidden, 4 * size, False),
        *([pointwise("rotary", "latents", 2 * hidden)] * config.flag("use_rotary_positional_embeddings")),
        core("all", "all", (heads, size)),
        product("all", hidden, hidden),
        *gated("all", hidden),
        *entered,
        *feed_forward("all", hidden, 4 * hidden, wide_of(config)),
        *gated("all", hidden),
    ]
    offset = config.whole("ofs_embed_dim", otherwise=0)
    first = [
        product("latents", channels * patch, hidden, config.flag("patch_bias") or bool(deep)),
        product("text", config.whole("text_embed_dim"), hidden),
        *_embedder(hidden, timed),
        *(_embedder(offset, offset) if offset else []),
    ]
    last = last_parts(hidden, patch * config.whole("out_channels", otherwise=channels), timed)
    last[1]["params"] = norm
    last.insert(0, pointwise("norm", "all", hidden, norm))
    text = {"text": "joint", "text_tokens": config.whole("max_text_seq_length")}
    layers = ["block"] * config.whole("num_layers")
    return model_record(hidden, {"block": block}, layers, text | {"first": first, "last": last})


_DEFAULTS: dict[str, Any] = {
    "num_attention_heads": 30, "attention_head_dim": 64, "in_channels": 16, "out_channels": 16,
    "time_embed_dim": 512, "ofs_embed_dim": None, "text_embed_dim": 4096, "num_layers": 30,
    "attention_bias": True, "patch_size": 2, "patch_size_t": None, "max_text_seq_length": 226,
    "activation_fn": "gelu-approximate", "norm_elementwise_affine": True,
    "use_rotary_positional_embeddings": False, "patch_bias": True,
}  # fmt: skip
_FREE = frozenset({
    "flip_sin_to_cos", "freq_shift", "dropout", "sample_width", "sample_height", "sample_frames",
    "temporal_compression_ratio", "timestep_activation_fn", "norm_eps", "spatial_interpolation_scale",
    "temporal_interpolation_scale", "use_learned_positional_embeddings",
})  # fmt: skip

ENTRY = DiffusersFamily(
    name="CogVideoXTransformer3DModel",
    cite="diffusers 0.42.1, models/transformers/cogvideox_transformer_3d.py",
    defaults=_DEFAULTS,
    record=record,
    fixed={},
    free=_FREE,
)
