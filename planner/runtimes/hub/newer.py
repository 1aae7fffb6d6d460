"""Apertus, Hunyuan, EXAONE 4, CWM, Ministral 3, ERNIE 4.5 with experts: newer than most runners' own types.

Read in transformers 5.23, ``models/<type>``.
"""

from __future__ import annotations

from typing import Final

from planner.inputs.model import Experts, ModelSpec
from planner.runtimes.hub.fields import (
    gated_fields,
    headed,
    like,
    positions,
    routed,
    windows,
)
from planner.runtimes.hub.types import REGULAR, Fields, HubType


def _apertus(model: ModelSpec) -> Fields:
    return gated_fields(model) | ({"mlp_bias": True} if model.ffns[0].bias else {})


def _hunyuan_moe(model: ModelSpec) -> Fields:
    """Return the keys of experts as wide as the one that is shared."""
    experts = model.expert_kinds[0]
    return headed(model) | {"num_experts": experts.experts, "moe_topk": experts.topk}


def _bare(fields: Fields) -> Fields:
    """Return keys of a type that has no word for biases."""
    return {name: value for name, value in fields.items() if name != "attention_bias"}


def _exaone4(model: ModelSpec) -> Fields:
    return _bare(headed(model) | windows(model))


_GROWTH: Final = {"llama_4_scaling_beta": 0.1}
"""How much queries grow with the logarithm of their position, in all checkpoints (transformers 5.23,
``configuration_ministral3.py``)."""


def _is_ministral3(model: ModelSpec) -> bool:
    """Whether queries grow from the positions on that YaRN stretches, and all layers are alike."""
    scaling = model.numerics.rope_scaling
    stretched = scaling is not None and scaling.original_positions is not None
    return stretched and like(variants=("scaled-queries",))(model)


def _ministral3(model: ModelSpec) -> Fields:
    return _bare(headed(model)) | {
        "rope_parameters": positions(model) | _GROWTH,
        "sliding_window": None,
    }


def _ernie_moe(model: ModelSpec) -> Fields:
    """Return the keys of layers with experts from one on; the last layer has them."""
    experts = model.expert_kinds[0]
    sparse = [isinstance(model.blocks[name].ffn, Experts) for name in model.layers]
    return _bare(gated_fields(model)) | routed(model) | {
        "use_bias": False,
        "moe_intermediate_size": experts.inner,
        "moe_num_experts": experts.experts,
        "moe_k": experts.topk,
        "moe_num_shared_experts": experts.shared_inner // experts.inner,
        "moe_layer_start_index": sparse.index(True),
        "moe_layer_end_index": len(sparse) - 1,
    }  # fmt: skip


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
        "HunYuanDenseV1ForCausalLM", "HunYuanDenseV1DecoderLayer", like(variants=_AFTER), headed, REGULAR,
    ),
    "hunyuan_v1_moe": HubType(
        "HunYuanMoEV1ForCausalLM", "HunYuanMoEV1DecoderLayer", like(variants=_AFTER, experts=True),
        _hunyuan_moe, REGULAR,
    ),
    "exaone4": HubType(
        "Exaone4ForCausalLM", "Exaone4DecoderLayer", like(variants=("norms-after",), mixed=True), _exaone4,
        REGULAR,
    ),
    "cwm": HubType("CwmForCausalLM", "CwmDecoderLayer", like(mixed=True), _exaone4, REGULAR),
    "ministral3": HubType(
        "Ministral3ForCausalLM", "Ministral3DecoderLayer", _is_ministral3, _ministral3, REGULAR,
    ),
    "ernie4_5_moe": HubType(
        "Ernie4_5_MoeForCausalLM", "Ernie4_5_MoeDecoderLayer", like(experts=True, mixed=True), _ernie_moe,
        REGULAR, {"router": "fp32"}, {"attention_dropout": "", "norm_topk_prob": ""},
        notes=(
            "transformers moves none of the biases by which ERNIE 4.5 balances its experts: its balancing "
            "loss alone keeps them in balance.",
        ),
    ),
}  # fmt: skip
"""Type to how it is written."""
