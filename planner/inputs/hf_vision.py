"""Encoders of images in Hugging Face configs: the ``vision_config`` of a model as a record of its layers.

Read in transformers 5.23: models/qwen2_vl, qwen2_5_vl, qwen3_vl, clip, siglip, llava and gemma3; defaults are
those of their configuration classes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from planner.inputs.hf_fields import Config

Raw = Mapping[str, Any]
Fields = dict[str, Any]

USUAL_PATCHES: Final = 1024
"""Patches of an image of any size: 448 x 448 points in patches of 14, 512 x 512 in patches of 16. [-]"""

ANY_SIZE: Final = (
    f"images have any size: {USUAL_PATCHES:,} patches each are taken (448 x 448 points in patches of 14); "
    "encoder.patches in the YAML says otherwise"
)


LEFT_OUT: Final = (
    "the language model alone: vision and audio encoders are left out, and no price has their memory and time"
)
"""What is told of a model with encoders that are not expressed."""


class Vision:
    """A ``vision_config`` with the defaults of its class; what is no whole number above zero is a fault.

    Parameters
    ----------
    raw : mapping
        The config.
    faults : list of (str, str)
        Where keys that are wrong are noted, with what was found.
    """

    def __init__(self, raw: Raw, faults: list[tuple[str, str]]) -> None:
        self.raw, self.faults = raw, faults

    def whole(self, key: str, default: int) -> int:
        """Return a whole number above zero."""
        value = self.raw.get(key, default)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
        self.faults.append((key, repr(value)[:40]))
        return default

    def places(self, key: str, default: list[int]) -> list[int]:
        """Return numbers of layers."""
        value = self.raw.get(key, default)
        if isinstance(value, list) and all(isinstance(one, int) and one >= 0 for one in value):
            return value
        self.faults.append((key, repr(value)[:40]))
        return default


def _attention(vision: Vision, heads: int, hidden: int, **more: object) -> Fields:
    if hidden % heads:
        vision.faults.append(("hidden_size", f"{hidden} with {heads} heads, which do not divide it"))
    width = {"heads": heads, "kv_heads": heads, "head_dim": max(1, hidden // heads)}
    return {"kind": "attention", **width, "causal": False, "qkv_bias": True, "output_bias": True, **more}


def _linear(inputs: int, outputs: int, bias: bool = True) -> Fields:
    return {"inputs": inputs, "outputs": outputs, "bias": bias}


def _block(mixer: Fields, inner: int, gated: bool = False) -> Fields:
    return {"mixer": mixer, "ffn": {"kind": "dense", "inner": inner, "gated": gated, "bias": True}}


def _merging(width: int, norm: int, outputs: int) -> Fields:
    """Return the projector of Qwen's encoders: rows side by side, ``width`` in all, and two products."""
    return {"norm_params": norm, "linears": [_linear(width, width), _linear(width, outputs)]}


def _stem(vision: Vision, hidden: int, patch: int, bias: bool) -> Fields:
    frames, channels = vision.whole("temporal_patch_size", 2), vision.raw.get("in_chans", 3)
    return _linear(vision.whole("in_channels", channels) * frames * patch**2, hidden, bias)


def _qwen2(vision: Vision, text: Raw) -> Fields:
    hidden, heads = vision.whole("embed_dim", 1280), vision.whole("num_heads", 16)
    merge = vision.whole("spatial_merge_size", 2) ** 2
    outputs = vision.whole("hidden_size", int(text.get("hidden_size", 3584)))
    inner = vision.whole("mlp_ratio", 4) * hidden
    return {
        "hidden": hidden,
        "blocks": {"vision": _block(_attention(vision, heads, hidden), inner)},
        "layers": f"{vision.whole('depth', 32)} vision",
        "stem": _stem(vision, hidden, vision.whole("patch_size", 14), False),
        "patches": USUAL_PATCHES,
        "merge": merge,
        "projectors": [_merging(hidden * merge, 2 * hidden, outputs)],
    }


def _qwen25(vision: Vision, text: Raw) -> Fields:
    hidden, heads = vision.whole("hidden_size", 3584), vision.whole("num_heads", 16)
    depth, patch = vision.whole("depth", 32), vision.whole("patch_size", 14)
    window = (vision.whole("window_size", 112) // patch) ** 2
    whole = vision.places("fullatt_block_indexes", [7, 15, 23, 31])
    inner, merge = vision.whole("intermediate_size", 3420), vision.whole("spatial_merge_size", 2) ** 2
    names = ["whole" if place in whole else "windowed" for place in range(depth)]
    kinds = {
        "whole": _block(_attention(vision, heads, hidden), inner, gated=True),
        "windowed": _block(_attention(vision, heads, hidden, window=window, chunked=True), inner, gated=True),
    }
    return {
        "hidden": hidden,
        "norm": "rmsnorm",
        "norm_bias": False,
        "blocks": {name: kinds[name] for name in dict.fromkeys(names)},
        "layers": ", ".join(names),
        "stem": _stem(vision, hidden, patch, False),
        "patches": USUAL_PATCHES,
        "merge": merge,
        "projectors": [_merging(hidden * merge, hidden, vision.whole("out_hidden_size", 3584))],
    }


def _qwen3(vision: Vision, text: Raw) -> Fields:
    hidden, heads = vision.whole("hidden_size", 1152), vision.whole("num_heads", 16)
    merge, outputs = vision.whole("spatial_merge_size", 2) ** 2, vision.whole("out_hidden_size", 3584)
    inner = vision.places("deepstack_visual_indexes", [8, 16, 24])
    return {
        "hidden": hidden,
        "blocks": {
            "vision": _block(_attention(vision, heads, hidden), vision.whole("intermediate_size", 4304)),
        },
        "layers": f"{vision.whole('depth', 27)} vision",
        "stem": _stem(vision, hidden, vision.whole("patch_size", 16), True),
        "positions": vision.whole("num_position_embeddings", 2304),
        "patches": USUAL_PATCHES,
        "merge": merge,
        "handed": inner,
        "projectors": [
            _merging(hidden * merge, 2 * hidden, outputs),
            *(_merging(hidden * merge, 2 * hidden * merge, outputs) for _ in inner),
        ],
    }


def _classic(vision: Vision, defaults: tuple[int, int, int, int, int, int]) -> Fields:
    """Return the layers of CLIP and SigLIP: learned positions, patches of one image of a fixed size."""
    names = ("hidden_size", "num_attention_heads", "intermediate_size", "num_hidden_layers", "image_size",
             "patch_size")  # fmt: skip
    numbers = (vision.whole(name, default) for name, default in zip(names, defaults, strict=True))
    hidden, heads, inner, layers, image, patch = numbers
    return {
        "hidden": hidden,
        "blocks": {"vision": _block(_attention(vision, heads, hidden), inner)},
        "layers": f"{layers} vision",
        "stem": _linear(vision.whole("num_channels", 3) * patch**2, hidden, False),
        "patches": (image // patch) ** 2,
    }


def _llava(vision: Vision, text: Raw) -> Fields:
    fields = _classic(vision, (1024, 16, 4096, 24, 336, 14))
    hidden, outputs = int(fields["hidden"]), int(text.get("hidden_size", 4096))
    rows = int(fields["patches"]) + 1
    linears = [_linear(hidden, outputs), _linear(outputs, outputs)]
    # A row more, of the class, with a position and an embedding of its own; norms before and after.
    return fields | {"patches": rows, "positions": rows + 1, "norms": 2, "projectors": [{"linears": linears}]}


def _gemma3(vision: Vision, text: Raw) -> Fields:
    fields = _classic(vision, (1152, 16, 4304, 27, 896, 14))
    hidden, patches, kept = int(fields["hidden"]), int(fields["patches"]), 256
    stem = fields["stem"] | {"bias": True}
    linear = _linear(hidden, int(text.get("hidden_size", 2304)), bias=False)
    projector = {"norm_params": hidden, "linears": [linear]}
    merge = max(1, patches // kept)
    return fields | {
        "stem": stem, "positions": patches, "norms": 1, "merge": merge, "projectors": [projector]
    }  # fmt: skip


READERS: Final[Mapping[str, Callable[[Vision, Raw], Fields]]] = {
    "qwen2_vl": _qwen2,
    "qwen2_5_vl": _qwen25,
    "qwen3_vl": _qwen3,
    "qwen3_vl_moe": _qwen3,
    "llava": _llava,
    "gemma3": _gemma3,
}
"""How the encoder of a model type is read; those of others are left out, and that is told."""

TOWERS: Final[Mapping[str, str]] = {"llava": "clip_vision_model", "gemma3": "siglip_vision_model"}
"""The only encoder with which a model type is expressed."""


def encoder_of(raw: Raw, text: Raw, config: Config | None = None) -> Fields:
    """Return the record of a config's encoder under its key; nothing where none is there, or expressed.

    Parameters
    ----------
    raw, text : mapping
        The config, and that of its language model.
    config : Config, optional
        Where keys that are wrong are noted as faults.
    """
    kind, vision = str(raw.get("model_type")), raw.get("vision_config")
    reader = READERS.get(kind)
    if reader is None or not isinstance(vision, Mapping) or raw.get("audio_config") is not None:
        return {}
    if vision.get("model_type", TOWERS.get(kind)) != TOWERS.get(kind, vision.get("model_type")):
        return {}
    if kind == "gemma3" and vision.get("vision_use_head", True):
        return {}  # a pooling head, whose weights nobody uses
    faults: list[tuple[str, str]] = []
    found = reader(Vision(vision, faults), text)
    if config is not None:
        for key, value in faults:
            config.fault(f"vision_config.{key}", value, "a whole number above zero, or a list of them")
    return {"encoder": found}


def vision_notes(raw: Raw, text: Raw) -> list[str]:
    """Return what is told of a config's encoders: that they are left out, or the size of images."""
    if not any(
        isinstance(raw.get(key), Mapping) for key in ("vision_config", "audio_config", "encoder_config")
    ):
        return []
    if not encoder_of(raw, text):
        return [LEFT_OUT]
    return [] if raw.get("model_type") in TOWERS else [ANY_SIZE]
