"""Gemma 2 to 4, OLMo 3, Mistral, Phi-3, StarCoder2, SmolLM3: windows, or layers that differ in what they see.

Read in transformers 5.23, ``models/<type>``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from planner.inputs.model import Attention, ModelSpec
from planner.runtimes.hub.fields import (
    FP32_NORM,
    gated_fields,
    known,
    like,
    mixer_of,
    positions,
    rotary_part,
    routed,
    windows,
    without,
)
from planner.runtimes.hub.types import REGULAR, Fields, HubType


def each_kind(model: ModelSpec) -> Fields:
    """Return rotary positions of layers with a window and of those without."""
    whole, own = positions(model), model.numerics
    theta = own.local_rope_theta or own.rope_theta
    near = {"rope_type": "default"} | known(rope_theta=theta)
    return {"rope_parameters": {"full_attention": whole, "sliding_attention": near}}


def _gemma2(model: ModelSpec) -> Fields:
    own = model.numerics
    scale = {"query_pre_attn_scalar": round(own.attention_scale**-2)} if own.attention_scale else {}
    return gated_fields(model) | windows(model) | scale | {
        "head_dim": mixer_of(model).head_dim,
        "attn_logit_softcapping": own.attention_softcap,
        "final_logit_softcapping": own.logit_softcap,
    }  # fmt: skip


def _gemma3(model: ModelSpec) -> Fields:
    return _gemma2(model) | each_kind(model)


def _gemma4(model: ModelSpec) -> Fields:
    blocks = [model.blocks[name] for name in dict.fromkeys(model.layers)]
    kinds = {block.attention.window is None: block for block in blocks if block.attention}
    near, whole = kinds.get(False, blocks[0]).attention, kinds.get(True, blocks[0]).attention
    assert isinstance(near, Attention)
    assert isinstance(whole, Attention)
    same = whole.projected == "queries-keys"
    experts = next(iter(model.expert_kinds), None)
    fields = gated_fields(model) | each_kind(model) | windows(model) | {
        "head_dim": near.head_dim,
        "num_key_value_heads": near.kv_heads,
        "global_head_dim": whole.head_dim,
        "num_global_key_value_heads": whole.kv_heads if same else None,
        "attention_k_eq_v": same,
        "final_logit_softcapping": model.numerics.logit_softcap,
        "hidden_size_per_layer_input": 0,
        "num_kv_shared_layers": 0,
        "enable_moe_block": experts is not None,
    }  # fmt: skip
    if experts is not None:
        fields |= {"intermediate_size": experts.shared_inner, "moe_intermediate_size": experts.inner}
        fields |= routed(model) | {"num_experts": experts.experts, "top_k_experts": experts.topk}
    part = known(partial_rotary_factor=model.numerics.rope_fraction)
    whole_rope = positions(model) | part | {"rope_type": "proportional"}
    rope = fields["rope_parameters"]
    assert isinstance(rope, dict)
    return fields | {"rope_parameters": rope | {"full_attention": whole_rope}}


def _olmo3(model: ModelSpec) -> Fields:
    return gated_fields(model) | windows(model) | each_kind(model)


def _windowed(model: ModelSpec) -> Fields:
    """Return keys of a type all of whose layers have the window, or none."""
    window = mixer_of(model).window
    return gated_fields(model) | {"sliding_window": window, "head_dim": mixer_of(model).head_dim}


def _phi3(model: ModelSpec) -> Fields:
    fields = gated_fields(model) | rotary_part(model)
    fields |= {"sliding_window": mixer_of(model).window, "pad_token_id": None}
    scaling = model.numerics.rope_scaling
    first = scaling.original_positions if scaling else None
    return fields | {"resid_pdrop": 0.0, "embd_pdrop": 0.0} | known(original_max_position_embeddings=first)


def _starcoder2(model: ModelSpec) -> Fields:
    return gated_fields(model) | {
        "sliding_window": mixer_of(model).window,
        "use_bias": mixer_of(model).qkv_bias,
        "residual_dropout": 0.0,
        "embedding_dropout": 0.0,
    } | known(norm_epsilon=model.numerics.norm_epsilon)  # fmt: skip


def _smollm3(model: ModelSpec) -> Fields:
    mixers = [model.blocks[name].mixer for name in model.layers]
    turned = [int(isinstance(mixer, Attention) and mixer.rotary) for mixer in mixers]
    return gated_fields(model) | {"no_rope_layers": turned, "use_sliding_window": False, "mlp_bias": False}


def _cohere2(model: ModelSpec) -> Fields:
    own = model.numerics
    known_numbers = known(layer_norm_eps=own.norm_epsilon, logit_scale=own.logit_scale)
    return gated_fields(model) | windows(model) | {"head_dim": mixer_of(model).head_dim} | known_numbers


_BROKEN: Final = REGULAR | {"fc1": ("c_fc",), "fc2": ("c_proj",)}
_FUSED: Final = REGULAR | {"qkv": ("qkv_proj",), "fc1": ("gate_up_proj",)}
_GEMMA: Final = {"hidden_act": "hidden_activation", "norm_topk_prob": ""}
_UNBIASED: Final = without("attention_bias")


def _gemma4_like(*variants: str, norms: int, experts: bool) -> Callable[[ModelSpec], bool]:
    known_like = like(variants=variants, norms=norms, experts=experts, mixed=True)
    return lambda model: model.layer_inputs is None and known_like(model)


def _is_gemma4(model: ModelSpec) -> bool:
    dense = _gemma4_like("value-norms", "wide-rotary", norms=4, experts=False)
    sparse = _gemma4_like("value-norms", "scaled-router", "wide-rotary", norms=8, experts=True)
    return dense(model) or sparse(model)


WINDOWED: Final = {
    "mistral": HubType("MistralForCausalLM", "MistralDecoderLayer", like(mixed=True), _windowed, REGULAR,
        names=_UNBIASED,
    ),
    "phi3": HubType("Phi3ForCausalLM", "Phi3DecoderLayer", like(mixed=True), _phi3, _FUSED,
        {"rotary_chain": "joined"}, _UNBIASED,
    ),
    "smollm3": HubType("SmolLM3ForCausalLM", "SmolLM3DecoderLayer", like(mixed=True), _smollm3, REGULAR),
    "gemma2": HubType(
        "Gemma2ForCausalLM", "Gemma2DecoderLayer", like(norms=4, mixed=True), _gemma2, REGULAR,
        FP32_NORM, _GEMMA,
    ),
    "gemma3_text": HubType(
        "Gemma3ForCausalLM", "Gemma3DecoderLayer", like(norms=4, mixed=True), _gemma3, REGULAR,
        FP32_NORM, _GEMMA,
    ),
    "gemma4_text": HubType(
        "Gemma4ForCausalLM", "Gemma4TextDecoderLayer", _is_gemma4, _gemma4, REGULAR,
        FP32_NORM, _GEMMA,
    ),
    "olmo3": HubType(
        "Olmo3ForCausalLM", "Olmo3DecoderLayer", like(variants=("norms-after",), mixed=True), _olmo3, REGULAR,
        FP32_NORM,
    ),
    "starcoder2": HubType(
        "Starcoder2ForCausalLM", "Starcoder2DecoderLayer",
        like(norm="layernorm", bias=True, gated=False, mixed=True), _starcoder2, _BROKEN,
        names=without("attention_bias", "rms_norm_eps"),
    ),
    "cohere2": HubType(
        "Cohere2ForCausalLM", "Cohere2DecoderLayer",
        like(norm="layernorm", variants=("parallel-blocks",), norms=1, mixed=True), _cohere2, REGULAR,
        {"norms": "fp32-layer-norm"}, names=without("rms_norm_eps"),
    ),
}  # fmt: skip
"""Type to how it is written."""
