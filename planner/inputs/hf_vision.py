"""Encoders of images in Hugging Face configs: the ``vision_config`` of a model as a record of its layers.

Read in transformers 5.23: models/qwen2_vl, qwen2_5_vl, qwen3_vl, exaone4_5, clip, siglip, llava and gemma3;
defaults are those of their configuration classes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from planner.inputs import hf_towers
from planner.inputs.hf_fields import Config
from planner.inputs.hf_keys import Keys, near_misses
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

ANY_SIZE: Final = (
    f"images have any size: {USUAL_PATCHES:,} patches each are taken (448 x 448 points in patches of 14); "
    "encoder.patches in the YAML says otherwise"
)


PARTS: Final = "images are cut into parts of"
CLIPS: Final = "sound comes in clips of 30 seconds: --images counts them"

TOWER_KEYS: Final = ("vision_config", "audio_config", "encoder_config")
"""Ends of the keys that hold a config of an encoder."""

LEFT_OUT: Final = (
    "the language model alone: vision and audio encoders are left out, and no price has their memory and time"
)
"""What is told of a model with encoders that are not expressed."""


def _qwen2(vision: Vision, text: Raw) -> Fields:
    hidden, heads = vision.whole("embed_dim", 1280), vision.whole("num_heads", 16)
    merge = vision.whole("spatial_merge_size", 2) ** 2
    outputs = vision.whole("hidden_size", int(text.get("hidden_size", 3584)))
    inner = vision.whole("mlp_ratio", 4) * hidden
    return {
        "hidden": hidden,
        "blocks": {"vision": block_of(attention_of(vision, heads, hidden), inner)},
        "layers": f"{vision.whole('depth', 32)} vision",
        "stem": stem_of(vision, hidden, vision.whole("patch_size", 14), False),
        "patches": USUAL_PATCHES,
        "merge": merge,
        "projectors": [merging(hidden * merge, 2 * hidden, outputs)],
    }


def _qwen25(vision: Vision, text: Raw, **more: object) -> Fields:
    hidden, heads = vision.whole("hidden_size", 3584), vision.whole("num_heads", 16)
    depth, patch = vision.whole("depth", 32), vision.whole("patch_size", 14)
    window = (vision.whole("window_size", 112) // patch) ** 2
    whole = vision.places("fullatt_block_indexes", [7, 15, 23, 31])
    inner, merge = vision.whole("intermediate_size", 3420), vision.whole("spatial_merge_size", 2) ** 2
    names = ["whole" if place in whole else "windowed" for place in range(depth)]
    kinds = {
        "whole": block_of(attention_of(vision, heads, hidden, **more), inner, gated=True),
        "windowed": block_of(
            attention_of(vision, heads, hidden, window=window, chunked=True, **more), inner, gated=True
        ),
    }
    return {
        "hidden": hidden,
        "norm": "rmsnorm",
        "norm_bias": False,
        "blocks": {name: kinds[name] for name in dict.fromkeys(names)},
        "layers": ", ".join(names),
        "stem": stem_of(vision, hidden, patch, False),
        "patches": USUAL_PATCHES,
        "merge": merge,
        "projectors": [merging(hidden * merge, hidden, vision.whole("out_hidden_size", 3584))],
    }


def _exaone45(vision: Vision, text: Raw) -> Fields:
    return _qwen25(vision, text, kv_heads=vision.whole("num_key_value_heads", 8))


def _qwen3(vision: Vision, text: Raw) -> Fields:
    hidden, heads = vision.whole("hidden_size", 1152), vision.whole("num_heads", 16)
    merge, outputs = vision.whole("spatial_merge_size", 2) ** 2, vision.whole("out_hidden_size", 3584)
    inner = vision.places("deepstack_visual_indexes", [8, 16, 24])
    return {
        "hidden": hidden,
        "blocks": {
            "vision": block_of(attention_of(vision, heads, hidden), vision.whole("intermediate_size", 4304)),
        },
        "layers": f"{vision.whole('depth', 27)} vision",
        "stem": stem_of(vision, hidden, vision.whole("patch_size", 16), True),
        "positions": vision.whole("num_position_embeddings", 2304),
        "patches": USUAL_PATCHES,
        "merge": merge,
        "handed": inner,
        "projectors": [
            merging(hidden * merge, 2 * hidden, outputs),
            *(merging(hidden * merge, 2 * hidden * merge, outputs) for _ in inner),
        ],
    }


def _llava(vision: Vision, text: Raw) -> Fields:
    fields = classic(vision, (1024, 16, 4096, 24, 336, 14))
    hidden, outputs = int(fields["hidden"]), int(text.get("hidden_size", 4096))
    rows = int(fields["patches"]) + 1
    linears = [linear(hidden, outputs), linear(outputs, outputs)]
    # A row more, of the class, with a position and an embedding of its own; norms before and after.
    return fields | {"patches": rows, "positions": rows + 1, "norms": 2, "projectors": [{"linears": linears}]}


def _gemma3(vision: Vision, text: Raw) -> Fields:
    fields = classic(vision, (1152, 16, 4304, 27, 896, 14))
    hidden, patches, kept = int(fields["hidden"]), int(fields["patches"]), 256
    stem = fields["stem"] | {"bias": True}
    product = linear(hidden, int(text.get("hidden_size", 2304)), bias=False)
    projector = {"norm_params": hidden, "linears": [product]}
    merge = max(1, patches // kept)
    return fields | {
        "stem": stem, "positions": patches, "norms": 1, "merge": merge, "projectors": [projector]
    }  # fmt: skip


READERS: Final[Mapping[str, Callable[[Vision, Raw], Fields]]] = {
    "qwen2_vl": _qwen2,
    "qwen2_5_vl": _qwen25,
    "exaone4_5": _exaone45,
    "qwen3_vl": _qwen3,
    "qwen3_vl_moe": _qwen3,
    "llava": _llava,
    "gemma3": _gemma3,
    **hf_towers.READERS,
}
"""How the encoder of a model type is read; those of others are left out, and that is told."""

TOWERS: Final[Mapping[str, str]] = {
    "llava": "clip_vision_model",
    "gemma3": "siglip_vision_model",
    **hf_towers.TOWERS,
}
"""The only encoder with which a model type is expressed, where it may have another."""


def encoder_of(raw: Raw, text: Raw, config: Config | None = None) -> Fields:
    """Return the record of a config's encoder under its key; nothing where none is there, or expressed.

    ``raw`` and ``text``: the config, and that of its language model; ``config``: where keys that are wrong
    are noted as faults.
    """
    kind = str(raw.get("model_type"))
    key, other = ("vision_config", "audio_config")[:: -1 if kind in hf_towers.HEARS else 1]
    seen, reader = raw.get(key), READERS.get(kind)
    if reader is None or not isinstance(seen, Mapping) or raw.get(other) is not None:
        return {}
    if seen.get("model_type", TOWERS.get(kind)) != TOWERS.get(kind, seen.get("model_type")):
        return {}
    if kind == "gemma3" and seen.get("vision_use_head", True):
        return {}  # a pooling head, whose weights nobody uses
    faults: list[tuple[str, str]] = []
    keys = Keys(seen, set())
    found = reader(Vision(keys, faults, raw), text)
    if config is not None:
        for wrong, meant in near_misses(seen, keys.asked):
            config.fault(f"{key}.{wrong}", "no key that is read", meant)
        for name, value in faults:
            config.fault(f"{key}.{name}", value, "a whole number above zero, or a list of them")
    return {"encoder": found} if found else {}


def is_of_encoder(note: str) -> bool:
    """Whether a note is about what an encoder takes for an image."""
    return note in (ANY_SIZE, CLIPS) or note.startswith(PARTS)


def vision_notes(raw: Raw, text: Raw) -> list[str]:
    """Return what is told of a config's encoders: that they are left out, or what an image is."""
    if not any(isinstance(one, Mapping) and str(key).endswith(TOWER_KEYS) for key, one in raw.items()):
        return []
    kind = raw.get("model_type")
    if not (found := encoder_of(raw, text)):
        return [LEFT_OUT]
    if kind in hf_towers.HEARS:
        return [CLIPS]
    if kind in hf_towers.SIZED:
        return [
            f"images are cut into parts of {found['encoder']['patches']:,} rows: --images counts the parts"
        ]
    return [] if kind in ("llava", "gemma3") else [ANY_SIZE]
