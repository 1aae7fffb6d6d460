"""What a family of diffusion transformers says, and the parts that several of them share.

Nothing is kept for backward by an addition, a rotation or a table; all else keeps its input, as autograd
does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from planner.dataclasses import dataclass
from planner.inputs.hf_fields import Config

Parts = list[dict[str, Any]]
TIMESTEPS = 256
"""Width of the sinusoids of a timestep, where a family has no width of its own. [element]"""


@dataclass(frozen=True)
class DiffusersFamily:
    """How one class of diffusers is read."""

    name: str
    """The class, as ``_class_name`` has it."""
    cite: str
    """Where its structure was read."""
    defaults: Mapping[str, Any]
    """Its constructor's own values."""
    record: Callable[[Config], dict[str, Any]]
    """Makes the fields of the model from its checked config."""
    fixed: Mapping[str, Any]
    """Keys of which one value alone is expressed."""
    free: frozenset[str]
    """Keys that change neither weights nor products."""
    aliases: tuple[str, ...] = ()
    """None: a class has one name."""

    @property
    def known(self) -> frozenset[str]:
        """All keys of its config."""
        return frozenset(self.defaults) | frozenset(self.fixed) | self.free


def product(rows: str, inputs: int, outputs: int, bias: bool = True, keeps: bool = True) -> dict[str, Any]:
    """Return a product; its input is kept elsewhere where it ``keeps`` none."""
    said = {"kind": "product", "rows": rows, "inputs": inputs, "outputs": outputs}
    return said | ({} if bias else {"bias": False}) | ({} if keeps else {"keeps": False})


def pointwise(kind: str, rows: str, width: int, params: int = 0, fp32: bool = False) -> dict[str, Any]:
    """Return an operator bound by memory."""
    said = {"kind": kind, "rows": rows, "width": width} | ({"params": params} if params else {})
    return said | ({"fp32": True} if fp32 else {})


def core(queries: str, keys: str, heads: tuple[int, int], axis: str | None = None) -> dict[str, Any]:
    """Return the core of attention with (heads, width of a head)."""
    said: dict[str, Any] = {"kind": "core", "queries": queries, "keys": keys}
    return said | {"heads": heads[0], "head_dim": heads[1]} | ({"axis": axis} if axis else {})


def perceptron(rows: str, inputs: int, hidden: int) -> Parts:
    """Return two products with an activation between them, as embedders of timesteps and of text have."""
    return [
        product(rows, inputs, hidden),
        pointwise("activation", rows, hidden),
        product(rows, hidden, hidden),
    ]


def modulated(rows: str, hidden: int, fp32: bool = False) -> Parts:
    """Return a norm without weights, scaled and shifted by what a sample's vector says."""
    return [pointwise(kind, rows, hidden, fp32=fp32) for kind in ("norm", "modulate")]


def gated(rows: str, hidden: int) -> Parts:
    """Return a gate that a sample's vector says, and the addition to the stream."""
    return [pointwise("gate", rows, hidden), pointwise("add", rows, hidden)]


def feed_forward(rows: str, hidden: int, inner: int, wide: int = 1) -> Parts:
    """Return two products around an activation, of which the first is ``wide`` times as wide."""
    return [
        product(rows, hidden, wide * inner),
        pointwise("activation", rows, wide * inner),
        product(rows, inner, hidden),
    ]


def queries_and_keys(rows: str, hidden: int, normed: int, turned: bool) -> Parts:
    """Return what is done to queries and keys: a norm with ``normed`` weights, a rotation."""
    norm = [pointwise("norm", rows, 2 * hidden, normed)] if normed else []
    return norm + ([pointwise("rotary", rows, 2 * hidden)] if turned else [])


def last_parts(hidden: int, width: int, conditioned: int = 0, rows: str = "latents") -> Parts:
    """Return the last norm, modulated by a product of ``conditioned`` width or a table, and what is made."""
    scales = product("sample", conditioned, 2 * hidden) if conditioned else table(2 * hidden)
    made = [product(rows, hidden, width), pointwise("loss", rows, width)]
    return [scales, *modulated(rows, hidden), *made]


def table(params: int) -> dict[str, Any]:
    """Return weights that no product reads."""
    return pointwise("table", "sample", 1, params)


def heads_of(config: Config) -> tuple[int, int, int]:
    """Return the hidden size, heads, and width of a head. [element]"""
    heads, size = config.whole("num_attention_heads"), config.whole("attention_head_dim")
    return heads * size, heads, size


def model_record(
    hidden: int, blocks: dict[str, Parts], layers: list[str], ends: dict[str, Any]
) -> dict[str, Any]:
    """Return the fields of a model of such blocks."""
    return {
        "hidden": hidden,
        "tied_embeddings": False,
        "norm": "layernorm",
        "final_norm": False,
        "blocks": {name: {"norms": 0, "parts": parts} for name, parts in blocks.items()},
        "layers": layers,
        "diffusion": ends,
    }


def text_of(config: Config, kind: str, tokens: int) -> dict[str, Any]:
    """Return that text is part of the sequence or attended to, as long as its pipeline makes it."""
    config.note(f"text_tokens {tokens}: as long as the pipeline of diffusers makes a prompt by default")
    return {"text": kind, "text_tokens": tokens}
