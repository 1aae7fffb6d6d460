"""The ``vision_config`` that an encoder was read from, for runners that build the library's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isqrt
from typing import Any, Final

from planner.inputs.build import build
from planner.inputs.encoder import Encoder
from planner.inputs.hf_vision import encoder_of
from planner.inputs.hf_vision_parts import USUAL_PATCHES
from planner.inputs.load import load_model
from planner.inputs.model import ModelSpec
from planner.remembered import remembered

Said = dict[str, Any]

CHANNELS: Final = 3
FRAMES: Final = 2
"""Colours, and frames that a patch of Qwen's encoders spans. [-]"""


def patch_side(encoder: Encoder) -> int:
    """Return the points along a side of a patch of one frame, or of Qwen's two; 0 without patches. [-]"""
    colours = encoder.stem.inputs // CHANNELS if encoder.stem else 0
    return isqrt(colours) if isqrt(colours) ** 2 == colours else isqrt(colours // FRAMES)


def _shape(encoder: Encoder, depth: str, heads: str) -> Said:
    """Return the sizes that each config has, with its own words for the layers and the heads of one."""
    first = encoder.blocks[encoder.layers[0]]
    return {
        depth: len(encoder.layers),
        "hidden_size": encoder.hidden,
        heads: first.attention.heads if first.attention else 0,
        "intermediate_size": first.ffn.inner if first.ffn else 0,
        "patch_size": patch_side(encoder),
    }


def _qwen25(encoder: Encoder) -> Said:
    reaches = {name: block.attention.window for name, block in encoder.blocks.items() if block.attention}
    window = max((reach or 0 for reach in reaches.values()), default=0)
    return {
        **_shape(encoder, "depth", "num_heads"),
        "temporal_patch_size": FRAMES,
        "spatial_merge_size": isqrt(encoder.merge),
        "window_size": isqrt(window) * patch_side(encoder),
        "fullatt_block_indexes": [
            place for place, name in enumerate(encoder.layers) if not reaches.get(name)
        ],
        "out_hidden_size": encoder.projectors[0].linears[-1].outputs,
    }


def _qwen3(encoder: Encoder) -> Said:
    return {
        **_shape(encoder, "depth", "num_heads"),
        "temporal_patch_size": FRAMES,
        "spatial_merge_size": isqrt(encoder.merge),
        "num_position_embeddings": encoder.positions,
        "out_hidden_size": encoder.projectors[0].linears[-1].outputs,
        "deepstack_visual_indexes": [*encoder.handed],
    }


def _qwen35(encoder: Encoder) -> Said:
    """Return that of Qwen3-VL, where no layer hands over to an inner one."""
    if encoder.handed:
        return {}
    said = _qwen3(encoder)
    return {name: value for name, value in said.items() if name != "deepstack_visual_indexes"}


def _pixtral(encoder: Encoder) -> Said:
    """Return Pixtral's; the largest side of an image and the activation are those of its checkpoints."""
    shape = _shape(encoder, "num_hidden_layers", "num_attention_heads")
    return {**shape, "image_size": 1540, "hidden_act": "silu"}


SAID: Final[Mapping[str, Callable[[Encoder], Said]]] = {
    "qwen2_5_vl": _qwen25,
    "qwen3_vl": _qwen3,
    "qwen3_5": _qwen35,
    "mistral3": _pixtral,
}
"""How the encoder of a model type is said."""


@remembered(most=64)
def vision_family(encoder: Encoder, hidden: int) -> str:
    """Return the model type whose encoder this is exactly, beside a language model; empty where none is."""
    for family in SAID if encoder.projectors else ():
        said = vision_config(encoder, family)
        needed = (
            "num_heads", "num_attention_heads", "patch_size", "intermediate_size", "deepstack_visual_indexes",
        )  # fmt: skip
        if not all(said.get(key, True) for key in needed):
            continue
        record = encoder_record(family, said, hidden, encoder.patches)
        same = build(Encoder, record, family).model_copy(
            update={"name": encoder.name, "source": encoder.source}
        )
        if same == encoder:
            return family
    return ""


def vision_config(encoder: Encoder, family: str) -> Said:
    """Return the fields of a family's vision config."""
    return SAID[family](encoder)


def with_encoder(model: ModelSpec, patches: int = USUAL_PATCHES) -> ModelSpec:
    """Return a Qwen3.5 of the zoo with its encoder, of images of so many patches."""
    seeing = load_model(model.name.replace("qwen3.5-", "qwen3.5-vl-"))
    if seeing.encoder is None:
        raise AssertionError(f"{seeing.name} without an encoder")
    return seeing.model_copy(update={"encoder": seeing.encoder.model_copy(update={"patches": patches})})


def encoder_record(family: str, said: Mapping[str, Any], hidden: int, patches: int) -> Said:
    """Return the record of a family's encoder, of images of so many patches."""
    raw = {"model_type": family, "vision_config": dict(said)}
    found: Said = encoder_of(raw, {"hidden_size": hidden})["encoder"]
    return found | {"patches": patches}
