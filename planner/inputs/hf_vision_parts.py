"""What readers of encoders share: checked fields of a ``vision_config``, records of an encoder's parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from planner.inputs.hf_keys import Keys

Raw = Mapping[str, Any]
Fields = dict[str, Any]

USUAL_PATCHES: Final = 1024
"""Patches of an image of any size: 448 x 448 points in patches of 14, 512 x 512 in patches of 16. [-]"""


class Vision:
    """A ``vision_config`` with the defaults of its class; what is no whole number above zero is a fault.

    ``faults``: where keys that are wrong are noted, with what was found; ``top``: the config of the whole
    model, whose `Keys` also know what is looked for in a copy with defaults.
    """

    def __init__(self, raw: Raw, faults: list[tuple[str, str]], top: Raw) -> None:
        known = top.asked if isinstance(top, Keys) else set()
        self.raw = raw if isinstance(raw, Keys) else Keys(raw, known)
        self.faults, self.top = faults, top

    def whole(self, key: str, default: int) -> int:
        """Return a whole number above zero."""
        value = self.raw.get(key, default)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
        self.faults.append((key, repr(value)[:40]))
        return default

    def of_top(self, key: str, default: int) -> int:
        """Return a whole number above zero of the whole model's config."""
        return Vision(self.top, self.faults, self.top).whole(key, default)

    def side(self, key: str, default: int) -> int:
        """Return one side of a square, said by a number or by two equal ones."""
        value = self.raw.get(key, default)
        if isinstance(value, list) and len(value) == 2 and value[0] == value[1]:
            value = value[0]
        return Vision({key: value}, self.faults, self.top).whole(key, default)

    def places(self, key: str, default: list[int]) -> list[int]:
        """Return numbers of layers."""
        value = self.raw.get(key, default)
        if isinstance(value, list) and all(isinstance(one, int) and one >= 0 for one in value):
            return value
        self.faults.append((key, repr(value)[:40]))
        return default


def attention_of(vision: Vision, heads: int, hidden: int, **more: object) -> Fields:
    """Return attention of all rows to all, with biases unless ``more`` says otherwise."""
    if hidden % heads:
        vision.faults.append(("hidden_size", f"{hidden} with {heads} heads, which do not divide it"))
    width = {"heads": heads, "kv_heads": heads, "head_dim": max(1, hidden // heads)}
    return {"kind": "attention", **width, "causal": False, "qkv_bias": True, "output_bias": True, **more}


def linear(inputs: int, outputs: int, bias: bool = True) -> Fields:
    """Return a product."""
    return {"inputs": inputs, "outputs": outputs, "bias": bias}


def block_of(mixer: Fields, inner: int, gated: bool = False, bias: bool = True) -> Fields:
    """Return a layer with a dense feed-forward."""
    return {"mixer": mixer, "ffn": {"kind": "dense", "inner": inner, "gated": gated, "bias": bias}}


def merging(width: int, norm: int, outputs: int) -> Fields:
    """Return the projector of Qwen's encoders: rows side by side, ``width`` in all, and two products."""
    return {"norm_params": norm, "linears": [linear(width, width), linear(width, outputs)]}


def stem_of(vision: Vision, hidden: int, patch: int, bias: bool) -> Fields:
    """Return the product that makes a row of the patches of some frames."""
    frames, channels = vision.whole("temporal_patch_size", 2), vision.raw.get("in_chans", 3)
    return linear(vision.whole("in_channels", channels) * frames * patch**2, hidden, bias)


def classic(vision: Vision, defaults: tuple[int, int, int, int, int, int]) -> Fields:
    """Return the layers of CLIP and SigLIP: learned positions, patches of one image of a fixed size."""
    names = ("hidden_size", "num_attention_heads", "intermediate_size", "num_hidden_layers", "image_size",
             "patch_size")  # fmt: skip
    numbers = (vision.whole(name, default) for name, default in zip(names, defaults, strict=True))
    hidden, heads, inner, layers, image, patch = numbers
    return {
        "hidden": hidden,
        "blocks": {"vision": block_of(attention_of(vision, heads, hidden), inner)},
        "layers": f"{layers} vision",
        "stem": linear(vision.whole("num_channels", 3) * patch**2, hidden, False),
        "patches": (image // patch) ** 2,
    }
