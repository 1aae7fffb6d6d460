"""Formats of eight bits or fewer."""

from __future__ import annotations

from typing import Literal

from planner.dataclasses import dataclass
from planner.runtimes.traits.trait import trait


@dataclass(frozen=True)
class LowBitTraits:
    """Formats of eight bits or fewer."""

    fp8_activation_input: bool = trait(
        False,
        "Whether the input of a gated activation waits for backward in fp8, a byte an element in place of "
        "two (Megatron-core's ``activation_func_fp8_input_store``). It changes numerics.",
    )
    cached_transposes: bool = trait(
        True,
        "Whether weights that rest in low bits keep a transposed copy, where products need one: without, it "
        "is made anew for each product (Transformer Engine, ``disable_parameter_transpose_cache``).",
    )
    weights: Literal["beside", "alone", "passing"] = trait(
        "beside",
        "How weights of linear layers in low-bit formats rest: their copies ``beside`` the 16-bit weight, "
        "the copies ``alone``, or the 16-bit weight alone, its copies ``passing`` with each product.",
        name="low_bit_weights",
    )
    float8_scales: Literal["tensor", "rows"] = trait(
        "tensor",
        "Whether fp8 has one scale for a ``tensor``, or for each of its ``rows`` (torchao's recipes "
        "``tensorwise`` and ``rowwise``).",
    )
    head: Literal["", "mxfp8"] = trait(
        "",
        "Precision in which the product with the vocabulary runs in low bits too; empty for none.",
        name="low_bit_head",
    )
