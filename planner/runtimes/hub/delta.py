"""Gated delta nets as the ``config.json`` of Qwen3-Next and Qwen3.5, dense or with experts.

Read in transformers 5.23, ``models/qwen3_next``, ``qwen3_5`` and ``qwen3_5_moe``; the language model alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from planner.inputs.mixers.gated_delta import GatedDelta
from planner.inputs.model import Attention, ModelSpec
from planner.runtimes.hub.fields import FP32_NORM, gated_fields, mixer_of, rotary_part, routed
from planner.runtimes.hub.types import REGULAR, Fields, HubType


def _delta(experts: bool) -> Callable[[ModelSpec], bool]:
    """Return the question whether a model has gated delta nets beside attention, and experts or none."""

    def has(model: ModelSpec) -> bool:
        plain = model.attentions and all(isinstance(one, Attention) for one in model.attentions)
        nets = {type(one) for one in model.recurrents} == {GatedDelta}
        return bool(plain) and nets and model.is_whole and bool(model.expert_kinds) == experts

    return has


def _dense(model: ModelSpec) -> Fields:
    net = next(one for one in model.recurrents if isinstance(one, GatedDelta))
    attends = [model.blocks[name].attention is not None for name in model.layers]
    return gated_fields(model) | rotary_part(model) | {
        "head_dim": mixer_of(model).head_dim,
        "layer_types": ["full_attention" if one else "linear_attention" for one in attends],
        "linear_conv_kernel_dim": net.conv_kernel,
        "linear_key_head_dim": net.key_head_dim,
        "linear_value_head_dim": net.head_dim,
        "linear_num_key_heads": net.key_heads,
        "linear_num_value_heads": net.value_heads,
    }  # fmt: skip


def _sparse(model: ModelSpec) -> Fields:
    experts = model.expert_kinds[0]
    return _dense(model) | routed(model) | {
        "moe_intermediate_size": experts.inner,
        "num_experts": experts.experts,
        "num_experts_per_tok": experts.topk,
        "shared_expert_intermediate_size": experts.shared_inner,
    }  # fmt: skip


_TRAITS: Final[Mapping[str, Any]] = {**FP32_NORM, "grouped_scan": True}
"""Norms multiply in fp32, and flash-linear-attention's kernel takes heads as they are (0.6,
``fla/ops/gated_delta_rule/chunk.py``)."""

DELTA: Final = {
    "qwen3_5_text": HubType(
        "Qwen3_5ForCausalLM", "Qwen3_5DecoderLayer", _delta(experts=False), _dense, REGULAR, _TRAITS,
    ),
    "qwen3_5_moe_text": HubType(
        "Qwen3_5MoeForCausalLM", "Qwen3_5MoeDecoderLayer", _delta(experts=True), _sparse, REGULAR, _TRAITS,
        {"intermediate_size": "", "norm_topk_prob": ""},
    ),
    "qwen3_next": HubType(
        "Qwen3NextForCausalLM", "Qwen3NextDecoderLayer", _delta(experts=True), _sparse, REGULAR, _TRAITS,
    ),
}  # fmt: skip
"""Type to how it is written."""
