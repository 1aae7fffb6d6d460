"""Models that torchtitan 0.2.2 registers and the zoo has not by that name: its debug models, and FLUX.1.

References
----------
.. [1] torchtitan v0.2.2, ``torchtitan/models/*/__init__.py`` of llama3, llama4, qwen3, deepseek_v3 and
   gpt_oss: ``debugmodel``; ``models/llama3/model/model.py``: the width of a feed-forward, a multiple of 256;
   ``models/llama4/model/model.py``: every second layer has experts, as wide as two thirds of four times the
   width over one expert and the shared one, a multiple of 256.
.. [3] torchtitan b5bcd76c (2026-08-21), ``torchtitan/models/*/config_registry.py``.
.. [2] ``torchtitan/models/flux/__init__.py``: both flavors are alike, with no embedder of a
   guidance; ``job_config.py``: an image of 256 pixels, 256 tokens of text where nothing is said.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from planner.runtimes.torchtitan.flux import PATCH, known_record
from planner.runtimes.torchtitan.registry import RegistryEntry

FLUX: Final = ("flux-dev", "flux-schnell")
USUAL: Final = 256
"""Pixels of an image's side, and tokens of its text [2]_."""


def _small(mixer: Mapping[str, Any], ffns: list[Mapping[str, Any]], **more: Any) -> dict[str, Any]:
    """Return a model of width 256 with a layer for each feed-forward."""
    kinds = [ffn for number, ffn in enumerate(ffns) if ffn not in ffns[:number]]
    blocks = {f"block{number}": {"mixer": mixer, "ffn": ffn} for number, ffn in enumerate(kinds)}
    layers = [f"block{kinds.index(ffn)}" for ffn in ffns]
    return {"hidden": 256, "vocab": 2048, "tied_embeddings": False, "blocks": blocks, "layers": layers} | more


def _attention(heads: int, kv_heads: int, head_dim: int, **more: Any) -> dict[str, Any]:
    return {"kind": "attention", "heads": heads, "kv_heads": kv_heads, "head_dim": head_dim, **more}


def _dense(inner: int) -> dict[str, Any]:
    return {"kind": "dense", "inner": inner}


def _experts(experts: int, topk: int, inner: int, **more: Any) -> dict[str, Any]:
    return {"kind": "moe", "experts": experts, "topk": topk, "inner": inner, **more}


QWEN: Final = _attention(16, 8, 128, qk_norm="head")
LATENT: Final = {
    "kind": "latent", "heads": 16, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
    "v_head_dim": 128,
}  # fmt: skip
LLAMA: Final = _small(_attention(16, 16, 16), [_dense(768)] * 6)
LLAMA4: Final = _small(_attention(16, 16, 16), [_dense(768), _experts(8, 1, 512, shared_inner=512)] * 3)
DEEPSEEK: Final = _small(LATENT, [_dense(1024), *[_experts(8, 3, 256, shared_inner=512)] * 5])
OSS: Final = {
    **_small(_attention(64, 8, 64, qkv_bias=True, output_bias=True, sinks=True), [], vocab=201_088),
    "blocks": {
        name: {
            "mixer": _attention(64, 8, 64, qkv_bias=True, output_bias=True, sinks=True, **window),
            "ffn": _experts(8, 4, 2880, bias=True, router_bias=True),
        }
        for name, window in (("sliding", {"window": 128}), ("full", {}))
    },
    "layers": ["sliding", "full"] * 2,
}
DEBUG: Final[Mapping[tuple[str, str], dict[str, Any]]] = {
    **{("llama3", f"debugmodel{kind}"): LLAMA for kind in ("", "_flex_attn", "_varlen_attn")},
    **{("deepseek_v3", f"debugmodel{kind}"): DEEPSEEK for kind in ("", "_flex_attn")},
    ("llama4", "debugmodel"): LLAMA4,
    ("gpt_oss", "debugmodel"): OSS,
    ("qwen3", "debugmodel"): _small(QWEN, [_dense(3072)] * 8, tied_embeddings=True),
    ("qwen3", "debugmodel_moe"): _small(QWEN, [_experts(64, 8, 768)] * 8),
}
"""Family and flavor to the model [1]_."""


_STARTED: Final = RegistryEntry("", 2048, 8)
STARTED: Final[Mapping[tuple[str, str], tuple[RegistryEntry, dict[str, Any]]]] = {
    ("llama3", "llama3_debugmodel"): (RegistryEntry("", 2048, 8, schedule="Interleaved1F1B"), LLAMA),
    ("deepseek_v3", "deepseek_v3_debugmodel"): (_STARTED, DEEPSEEK),
    ("qwen3", "qwen3_debugmodel"): (_STARTED, DEBUG["qwen3", "debugmodel"]),
    ("qwen3", "qwen3_moe_debug"): (RegistryEntry("", 4096, 4), DEBUG["qwen3", "debugmodel_moe"]),
    ("gpt_oss", "gpt_oss_debugmodel"): (RegistryEntry("", 2048, 8, "none"), {**OSS, "vocab": 2048}),
}
"""Module and function of the newest release to what it starts [3]_."""

IMAGES: Final[Mapping[str, tuple[RegistryEntry, int]]] = {
    "flux_dev": (RegistryEntry("", 768, 32, "full", graphs=False), 512),
    "flux_schnell": (RegistryEntry("", 512, 64, "full", graphs=False), 256),
    "flux_dev_mxfp8": (
        RegistryEntry("", 768, 32, "full", precision="mxfp8", compiled=True, graphs=False),
        512,
    ),
    "flux_schnell_mxfp8": (
        RegistryEntry("", 512, 64, "full", precision="mxfp8", compiled=True, graphs=False),
        256,
    ),
}
"""The same of FLUX.1, with the tokens of its text beside those of an image of 256 pixels [3]_."""


def started_by(family: str, config: str) -> tuple[RegistryEntry, dict[str, Any]] | None:
    """Return what a function of the newest registry starts, where the zoo has no model by that name."""
    if family == "flux" and config in IMAGES:
        entry, text = IMAGES[config]
        return entry, known_record(text)
    return STARTED.get((family, config))


def flavored(tree: Mapping[str, Any]) -> tuple[Mapping[str, Any], dict[str, Any] | None]:
    """Return a job config, with the tokens of an image's sequence, and the record of its model or None."""
    model, training = (tree.get(name) for name in ("model", "training"))
    if not isinstance(model, Mapping) or not isinstance(training, Mapping):
        return tree, None
    name, flavor = str(model.get("name")), str(model.get("flavor"))
    if name != "flux" or flavor not in FLUX:
        return tree, DEBUG.get((name, flavor))
    encoder = tree.get("encoder")
    text = encoder.get("max_t5_encoding_len", USUAL) if isinstance(encoder, Mapping) else USUAL
    side = training.get("img_size", USUAL)
    if type(text) is not int or type(side) is not int or side < PATCH or side % PATCH or text < 1:
        return tree, None
    long = (side // PATCH) ** 2 + text
    return {**tree, "training": {**training, "seq_len": long}}, known_record(text)
