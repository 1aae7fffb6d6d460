"""Models that torchtitan 0.2.2 registers and the zoo has not by that name: its debug models, and FLUX.1.

References
----------
.. [1] torchtitan v0.2.2, ``torchtitan/models/llama3/__init__.py`` and ``qwen3/__init__.py``: ``debugmodel``;
   ``models/llama3/model/model.py``: the width of a feed-forward, a multiple of 256.
.. [2] ``torchtitan/models/flux/__init__.py``: both flavors are alike, with no embedder of a
   guidance; ``job_config.py``: an image of 256 pixels, 256 tokens of text where nothing is said.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from planner.runtimes.torchtitan.flux import PATCH, known_record

FLUX: Final = ("flux-dev", "flux-schnell")
USUAL: Final = 256
"""Pixels of an image's side, and tokens of its text [2]_."""


def _dense(layers: int, inner: int, tied: bool, mixer: Mapping[str, Any]) -> dict[str, Any]:
    block = {"mixer": {"kind": "attention", **mixer}, "ffn": {"kind": "dense", "inner": inner}}
    return {
        "hidden": 256, "vocab": 2048, "tied_embeddings": tied, "blocks": {"dense": block},
        "layers": ["dense"] * layers,
    }  # fmt: skip


LLAMA: Final = _dense(6, 768, False, {"heads": 16, "kv_heads": 16, "head_dim": 16})
QWEN: Final = _dense(8, 3072, True, {"heads": 16, "kv_heads": 8, "head_dim": 128, "qk_norm": "head"})
DEBUG: Final[Mapping[tuple[str, str], dict[str, Any]]] = {
    **{("llama3", f"debugmodel{kind}"): LLAMA for kind in ("", "_flex_attn", "_varlen_attn")},
    ("qwen3", "debugmodel"): QWEN,
}
"""Family and flavor to the model [1]_."""


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
