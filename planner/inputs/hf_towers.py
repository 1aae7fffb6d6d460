"""More encoders of Hugging Face configs, of images and of sound: those of one model type or two each.

Read in transformers 5.24: models/qwen3_5, glm4v, glm4v_moe, internvl, pixtral, mistral3, llama4, kimi_k25,
idefics3, smolvlm, llava_next, llava_onevision, qwen2_audio, voxtral, audioflamingo3 and musicflamingo;
defaults are those of their configuration classes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from planner.inputs.hf_vision_parts import (
    USUAL_PATCHES,
    Fields,
    Raw,
    Vision,
    attention_of,
    block_of,
    classic,
    linear,
    merging,
    stem_of,
)


def _qwen35(vision: Vision, text: Raw) -> Fields:
    """Return that of Qwen3-VL without inner layers that are handed over."""
    hidden, heads = vision.whole("hidden_size", 1152), vision.whole("num_heads", 16)
    merge, outputs = vision.whole("spatial_merge_size", 2) ** 2, vision.whole("out_hidden_size", 3584)
    return {
        "hidden": hidden,
        "blocks": {
            "vision": block_of(attention_of(vision, heads, hidden), vision.whole("intermediate_size", 4304))
        },
        "layers": f"{vision.whole('depth', 27)} vision",
        "stem": stem_of(vision, hidden, vision.whole("patch_size", 16), True),
        "positions": vision.whole("num_position_embeddings", 2304),
        "patches": USUAL_PATCHES,
        "merge": merge,
        "projectors": [merging(hidden * merge, 2 * hidden, outputs)],
    }


def _glm4v(vision: Vision, text: Raw) -> Fields:
    """Return GLM-4V's: a feed-forward as wide as the language model, and a merger with one of its own."""
    hidden, heads = vision.whole("hidden_size", 1536), vision.whole("num_heads", 12)
    merge, outputs = vision.whole("spatial_merge_size", 2) ** 2, vision.whole("out_hidden_size", 4096)
    patch, wide = vision.whole("patch_size", 14), vision.whole("intermediate_size", 13696)
    biased = bool(vision.raw.get("attention_bias", False))
    mixer = attention_of(vision, heads, hidden, qkv_bias=biased, output_bias=False)
    merger = [
        linear(hidden * merge, outputs), linear(outputs, outputs, False),
        linear(outputs, 2 * wide, False), linear(wide, outputs, False),
    ]  # fmt: skip
    return {
        "hidden": hidden,
        "norm": "rmsnorm",
        "norm_bias": False,
        "norms": 2,
        "blocks": {"vision": block_of(mixer, outputs, gated=True, bias=False)},
        "layers": f"{vision.whole('depth', 24)} vision",
        "stem": stem_of(vision, hidden, patch, True),
        "positions": (vision.whole("image_size", 336) // patch) ** 2,
        "patches": USUAL_PATCHES,
        "merge": merge,
        "projectors": [{"norm_params": 2 * outputs, "linears": merger}],
    }


def _internvl(vision: Vision, text: Raw) -> Fields:
    """Return InternViT: the weights that scale both results of a layer count as a third norm.

    They are as many, and are read and written as one is.
    """
    raw, side = vision.raw, vision.side("patch_size", 14)
    plain = raw.get("norm_type", "layer_norm") == "layer_norm" and not raw.get("use_qk_norm", False)
    ratio = vision.top.get("downsample_ratio", 0.5)
    if not plain or raw.get("use_mask_token") or not isinstance(ratio, float) or not 0 < ratio <= 1:
        return {}
    hidden, heads = vision.whole("hidden_size", 1024), vision.whole("num_attention_heads", 16)
    patches, factor = (vision.side("image_size", 448) // side) ** 2, int(1 / ratio) ** 2
    mixer = attention_of(vision, heads, hidden, qkv_bias=bool(raw.get("attention_bias", False)))
    outputs = int(text.get("hidden_size", 4096))
    positions = patches + 2 if raw.get("use_absolute_position_embeddings", True) else 1
    return {
        "hidden": hidden,
        "blocks": {"vision": block_of(mixer, vision.whole("intermediate_size", 4096)) | {"norms": 3}},
        "layers": f"{vision.whole('num_hidden_layers', 24)} vision",
        "norms": int(not raw.get("use_mean_pooling", True)),
        "stem": linear(vision.whole("num_channels", 3) * side**2, hidden),
        "positions": positions,
        "patches": patches + 1,
        "merge": factor,
        "projectors": [
            {
                "norm_params": 2 * hidden * factor,
                "linears": [linear(hidden * factor, outputs), linear(outputs, outputs)],
            }
        ],
    }


def _pixtral(vision: Vision, text: Raw) -> Fields:
    """Return Pixtral's encoder and the merger of Mistral 3."""
    top, merge = vision.top, vision.of_top("spatial_merge_size", 2)
    if not isinstance(top.get("vision_feature_layer", -1), int):
        return {}
    hidden, heads = vision.whole("hidden_size", 1024), vision.whole("num_attention_heads", 16)
    outputs, biased = int(text.get("hidden_size", 5120)), bool(top.get("multimodal_projector_bias", False))
    mixer = attention_of(vision, heads, hidden, qkv_bias=False, output_bias=False)
    inner = vision.whole("intermediate_size", 4096)
    patch = vision.whole("patch_size", 16)
    merger = [
        linear(hidden * merge**2, hidden, False), linear(hidden, outputs, biased),
        linear(outputs, outputs, biased),
    ]  # fmt: skip
    return {
        "hidden": hidden,
        "norm": "rmsnorm",
        "norm_bias": False,
        "norms": 1,
        "blocks": {"vision": block_of(mixer, inner, gated=True, bias=False)},
        "layers": f"{vision.whole('num_hidden_layers', 24)} vision",
        "stem": linear(vision.whole("num_channels", 3) * patch**2, hidden, False),
        "patches": USUAL_PATCHES,
        "merge": merge**2,
        "projectors": [{"norm_params": hidden, "linears": merger}],
    }


def _llama4(vision: Vision, text: Raw) -> Fields:
    """Return Llama 4's: a row of the class, an adapter of neighbouring rows, and a product."""
    ratio = vision.raw.get("pixel_shuffle_ratio", 0.5)
    if not isinstance(ratio, float) or not 0 < ratio <= 1:
        return {}
    fields = classic(vision, (768, 16, 5632, 34, 448, 14))
    inner, outputs = vision.whole("intermediate_size", 5632), int(text.get("hidden_size", 5120))
    made, wide = vision.whole("projector_input_dim", 4096), vision.whole("projector_output_dim", 4096)
    adapter = [
        linear(inner, made, False), linear(wide, wide, False),
        linear(vision.whole("vision_output_dim", 7680), outputs, False),
    ]  # fmt: skip
    rows = int(fields["patches"]) + 1
    return fields | {
        "patches": rows, "positions": rows + 1, "norms": 2, "merge": round(1 / ratio) ** 2,
        "projectors": [{"linears": adapter}],
    }  # fmt: skip


def _kimi(vision: Vision, text: Raw) -> Fields:
    """Return MoonViT of Kimi K2.5, of still images."""
    merge = vision.raw.get("merge_kernel_size", [2, 2])
    if merge != [2, 2]:
        return {}
    fields = classic(vision, (1152, 16, 4304, 27, 448, 14))
    hidden = int(fields["hidden"])
    wide, outputs = 4 * hidden, int(text.get("hidden_size", 7168))
    normed = vision.of_top("projection_hidden_size", hidden)
    places = vision.whole("pos_emb_height", 64) * vision.whole("pos_emb_width", 64)
    projector = {"norm_params": 2 * normed, "linears": [linear(wide, wide), linear(wide, outputs)]}
    return fields | {
        "stem": fields["stem"] | {"bias": True}, "positions": places, "norms": 1, "patches": USUAL_PATCHES,
        "merge": 4, "projectors": [projector],
    }  # fmt: skip


def _idefics3(vision: Vision, text: Raw) -> Fields:
    """Return SigLIP before a connector of one product, of a part of an image."""
    fields, factor = classic(vision, (1152, 16, 3072, 12, 224, 32)), vision.of_top("scale_factor", 2) ** 2
    outputs = int(text.get("hidden_size", 4096))
    projector = {"linears": [linear(int(fields["hidden"]) * factor, outputs, False)]}
    return fields | {
        "stem": fields["stem"] | {"bias": True}, "positions": fields["patches"], "norms": 1,
        "merge": factor, "projectors": [projector],
    }  # fmt: skip


def _two_products(fields: Fields, vision: Vision, text: Raw) -> Fields:
    """Return LLaVA's projector, and the row that ends a line of an image in parts."""
    hidden, outputs = int(fields["hidden"]), int(text.get("hidden_size", 4096))
    biased = bool(vision.top.get("multimodal_projector_bias", True))
    linears = [linear(hidden, outputs, biased), linear(outputs, outputs, biased)]
    return fields | {"projectors": [{"norm_params": outputs, "linears": linears}]}


def _llava_next(vision: Vision, text: Raw) -> Fields:
    if not isinstance(vision.top.get("vision_feature_layer", -2), int):
        return {}
    fields = classic(vision, (1024, 16, 4096, 24, 336, 14))
    rows = int(fields["patches"]) + 1
    return _two_products(fields | {"patches": rows, "positions": rows + 1, "norms": 2}, vision, text)


def _onevision(vision: Vision, text: Raw) -> Fields:
    whole = not vision.raw.get("vision_use_head", True)
    if not whole or not isinstance(vision.top.get("vision_feature_layer", -1), int):
        return {}
    fields = classic(vision, (1152, 16, 4304, 26, 384, 14))
    stem = fields["stem"] | {"bias": True}
    return _two_products(fields | {"stem": stem, "positions": fields["patches"], "norms": 1}, vision, text)


def whisper_layers(vision: Vision, layers: int, hidden: int, heads: int, inner: int) -> Fields:
    """Return Whisper's encoder: two convolutions, the second of every other frame, and no bias on keys."""
    mixer = attention_of(vision, heads, hidden) | {"key_bias": False}
    frames = vision.whole("max_source_positions", 1500)
    return {
        "name": "audio",
        "hidden": hidden,
        "blocks": {"audio": block_of(mixer, inner)},
        "layers": f"{layers} audio",
        "before": [linear(3 * vision.whole("num_mel_bins", 128), hidden) | {"rows": 2}],
        "stem": linear(3 * hidden, hidden),
        "positions": frames,
        "norms": 1,
        "patches": frames,
    }


def _qwen2_audio(vision: Vision, text: Raw) -> Fields:
    hidden, inner = vision.whole("d_model", 1280), vision.whole("encoder_ffn_dim", 5120)
    heads = vision.whole("encoder_attention_heads", 20)
    fields = whisper_layers(vision, vision.whole("encoder_layers", 32), hidden, heads, inner)
    outputs = int(text.get("hidden_size", 4096))
    return fields | {"merge": 2, "projectors": [{"linears": [linear(hidden, outputs)]}]}


def _voxtral(vision: Vision, text: Raw) -> Fields:
    hidden, inner = vision.whole("hidden_size", 1280), vision.whole("intermediate_size", 5120)
    heads = vision.whole("num_attention_heads", 20)
    fields = whisper_layers(vision, vision.whole("num_hidden_layers", 32), hidden, heads, inner)
    outputs = int(text.get("hidden_size", 3072))
    linears = [linear(inner, outputs, False), linear(outputs, outputs, False)]
    return fields | {"merge": max(1, inner // hidden), "projectors": [{"linears": linears}]}


def _audio_flamingo(vision: Vision, text: Raw) -> Fields:
    """Return Whisper's encoder, of whose rows the mean of two is one, before two products."""
    hidden, inner = vision.whole("hidden_size", 1280), vision.whole("intermediate_size", 5120)
    heads = vision.whole("num_attention_heads", 20)
    fields = whisper_layers(vision, vision.whole("num_hidden_layers", 32), hidden, heads, inner)
    outputs, biased = int(text.get("hidden_size", 4096)), bool(vision.top.get("projector_bias", True))
    linears = [linear(hidden, outputs, biased), linear(outputs, outputs, biased)]
    return fields | {"merge": 2, "projectors": [{"linears": linears}]}


READERS: Final[Mapping[str, Callable[[Vision, Raw], Fields]]] = {
    "qwen3_5": _qwen35, "qwen3_5_moe": _qwen35, "glm4v": _glm4v, "glm4v_moe": _glm4v, "glm46v": _glm4v,
    "glmga": _glm4v, "internvl": _internvl, "mistral3": _pixtral, "lighton_ocr": _pixtral, "llama4": _llama4,
    "kimi_k25": _kimi, "idefics3": _idefics3, "smolvlm": _idefics3, "llava_next": _llava_next,
    "llava_onevision": _onevision, "qwen2_audio": _qwen2_audio, "voxtral": _voxtral,
    "audioflamingo3": _audio_flamingo, "musicflamingo": _audio_flamingo,
}  # fmt: skip
"""How the encoder of a model type is read."""

HEARS: Final = frozenset({"qwen2_audio", "voxtral", "audioflamingo3", "musicflamingo"})
"""Types whose encoder hears: its config is ``audio_config``."""

TOWERS: Final[Mapping[str, Any]] = {
    "mistral3": "pixtral",
    "lighton_ocr": "pixtral",
    "llava_next": "clip_vision_model",
    "llava_onevision": "siglip_vision_model",
    "internvl": "internvl_vision",
    "llama4": "llama4_vision_model",
}
"""The only encoder with which a model type is expressed, where it may have another."""

SIZED: Final = frozenset({"idefics3", "smolvlm", "llava_next", "llava_onevision", "internvl", "llama4"})
"""Types that cut an image into parts of one size, each of which is an image here."""
