"""Families of model sizes made by rule, from which a budget chooses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from planner.inputs.model import ModelSpec

HEAD_DIM: Final = 128
"""Width of a head, and layers so that the width is as many times theirs: Llama 3 8B and GPT-3 175B. [-]"""

WIDTHS: Final = (
    1024, 1536, 2048, 2560, 3072, 3584, 4096, 5120, 6144, 7168, 8192, 9216, 10240, 11264, 12288, 13312,
    14336, 15360, 16384, 18432, 20480, 22528, 24576,
)  # fmt: skip
"""Widths of the sizes: about .15 to 1,500 billion parameters. [element]"""


def llama_size(width: int) -> ModelSpec:
    """Return a model in the proportions of Llama 3 8B at another width.

    As many heads and layers as times 128 go into the width, 8 key and value heads where they divide the
    heads, a feed-forward 3.5 times as wide, 128,256 words (arXiv:2407.21783, table 3).

    Examples
    --------
    >>> llama_size(4096).params == 8030261248
    True
    """
    heads = width // HEAD_DIM
    mixer = {"kind": "attention", "heads": heads, "kv_heads": 8 if heads % 8 == 0 else 4}
    ffn = {"kind": "dense", "inner": width * 7 // 2}
    return _made("llama", width, mixer, ffn, vocab=128256, tied_embeddings=False)


def gpt_size(width: int) -> ModelSpec:
    """Return a model in the proportions of GPT-3 175B at another width.

    As many heads and layers as times 128 go into the width, a plain feed-forward 4 times as wide, biases and
    layer norms, 50,257 words (arXiv:2005.14165, table 2.1).

    Examples
    --------
    >>> round(gpt_size(12288).params / 1e9, 1)
    174.6
    """
    heads = width // HEAD_DIM
    mixer = {"kind": "attention", "heads": heads, "kv_heads": heads, "qkv_bias": True, "output_bias": True}
    ffn = {"kind": "dense", "inner": 4 * width, "gated": False, "bias": True}
    rest = {"max_positions": 2048, "learned_positions": True, "norm": "layernorm", "norm_bias": True}
    mixer["rotary"] = False
    return _made("gpt", width, mixer, ffn, vocab=50257, tied_embeddings=True, **rest)


def _made(family: str, width: int, mixer: dict[str, Any], ffn: dict[str, Any], **rest: Any) -> ModelSpec:
    fields: dict[str, Any] = {
        "source": f"the {family} family of sizes by rule",
        "hidden": width,
        "blocks": {"dense": {"mixer": {**mixer, "head_dim": HEAD_DIM}, "ffn": ffn}},
        "layers": f"{width // HEAD_DIM} dense",
        **rest,
    }
    params = ModelSpec(name=family, **fields).params
    size = f"{params / 1e9:.3g}b" if params < 1e12 else f"{params / 1e12:.3g}t"
    return ModelSpec(name=f"{family}-{size}", **fields)


LADDERS: Final[Mapping[str, Callable[[int], ModelSpec]]] = MappingProxyType(
    {"llama": llama_size, "gpt": gpt_size}
)
"""Families by name."""
