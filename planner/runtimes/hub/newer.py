"""Apertus, Hunyuan, EXAONE 4: types that runners of Megatron-core's layers have not.

Read in transformers 5.23, ``models/<type>``.
"""

from __future__ import annotations

from typing import Final

from planner.inputs.model import ModelSpec
from planner.runtimes.hub.fields import (
    gated_fields,
    like,
    mixer_of,
    windows,
)
from planner.runtimes.hub.types import REGULAR, Fields, HubType


def _apertus(model: ModelSpec) -> Fields:
    return gated_fields(model) | ({"mlp_bias": True} if model.ffns[0].bias else {})


def _hunyuan(model: ModelSpec) -> Fields:
    return gated_fields(model) | {"head_dim": mixer_of(model).head_dim}


def _hunyuan_moe(model: ModelSpec) -> Fields:
    """Return the keys of experts as wide as the one that is shared."""
    experts = model.expert_kinds[0]
    return _hunyuan(model) | {"num_experts": experts.experts, "moe_topk": experts.topk}


def _exaone4(model: ModelSpec) -> Fields:
    fields = gated_fields(model) | windows(model) | {"head_dim": mixer_of(model).head_dim}
    return {name: value for name, value in fields.items() if name != "attention_bias"}


_AFTER: Final = ("head-norms-after-rotary",)

NEWER: Final = {
    "apertus": HubType(
        "ApertusForCausalLM", "ApertusDecoderLayer", like(gated=False), _apertus,
        REGULAR | {"fc1": ("up_proj",)},
        notes=(
            "The activation xIELU is priced as transformers' own chain of kernels; with the package xielu it "
            "is one, and a step is faster.",
        ),
    ),
    "hunyuan_v1_dense": HubType(
        "HunYuanDenseV1ForCausalLM", "HunYuanDenseV1DecoderLayer", like(variants=_AFTER), _hunyuan, REGULAR,
    ),
    "hunyuan_v1_moe": HubType(
        "HunYuanMoEV1ForCausalLM", "HunYuanMoEV1DecoderLayer", like(variants=_AFTER, experts=True),
        _hunyuan_moe, REGULAR,
    ),
    "exaone4": HubType(
        "Exaone4ForCausalLM", "Exaone4DecoderLayer", like(variants=("norms-after",), mixed=True), _exaone4,
        REGULAR,
    ),
}  # fmt: skip
"""Type to how it is written."""
