"""Gemma, GLM-4, OLMo, OPT, Phi, Pythia, StableLM: layers of attention that other types of the hub have not.

The names of classes, keys and linear layers are those of transformers 5.24, ``models/<type>``; what a layer
keeps for backward was counted there (``tests/validate/test_hub_types.py``).
"""

from __future__ import annotations

from typing import Final

from planner.inputs.model import ModelSpec
from planner.runtimes.hub.fields import (
    FP32_NORM,
    NO_DROPOUT,
    gated_fields,
    headed,
    inner_of,
    known,
    like,
    mixer_of,
    rotary_part,
    without,
    word_of,
)
from planner.runtimes.hub.types import REGULAR, Fields, HubType


def _glm4(model: ModelSpec) -> Fields:
    own = {"head_dim": mixer_of(model).head_dim, "pad_token_id": None}
    return gated_fields(model) | rotary_part(model) | own


def _olmo(model: ModelSpec) -> Fields:
    return gated_fields(model) | {"clip_qkv": model.numerics.qkv_clip}


def _olmoe(model: ModelSpec) -> Fields:
    experts, router = model.expert_kinds[0], model.numerics.router
    fields = _olmo(model) | {
        "num_experts": experts.experts,
        "num_experts_per_tok": experts.topk,
        "norm_topk_prob": bool(router and router.normalize),
    }
    if router is None or router.aux_loss is None:
        return fields
    return fields | {"router_aux_loss_coef": router.aux_loss, "output_router_logits": bool(router.aux_loss)}


def _opt(model: ModelSpec) -> Fields:
    return NO_DROPOUT | {
        "ffn_dim": inner_of(model),
        "word_embed_proj_dim": model.hidden,
        "max_position_embeddings": model.max_positions,
        "activation_function": model.numerics.activation or "relu",
        "enable_bias": mixer_of(model).qkv_bias,
        "do_layer_norm_before": True,
        "dropout": 0.0,
        "layerdrop": 0.0,
    }  # fmt: skip


def _phi(model: ModelSpec) -> Fields:
    return NO_DROPOUT | rotary_part(model) | {
        "intermediate_size": inner_of(model),
        "resid_pdrop": 0.0,
        "embd_pdrop": 0.0,
    } | known(hidden_act=word_of(model), layer_norm_eps=model.numerics.norm_epsilon)  # fmt: skip


def _gpt_neox(model: ModelSpec) -> Fields:
    return _phi(model) | {
        "use_parallel_residual": "parallel-blocks" in model.variants,
        "attention_bias": mixer_of(model).qkv_bias,
        "hidden_dropout": 0.0,
    }  # fmt: skip


def _stablelm(model: ModelSpec) -> Fields:
    return gated_fields(model) | rotary_part(model) | known(layer_norm_eps=model.numerics.norm_epsilon) | {
        "use_qkv_bias": mixer_of(model).qkv_bias,
        "qk_layernorm": mixer_of(model).qk_norm != "none",
        "use_parallel_residual": False,
        "hidden_dropout": 0.0,
    }  # fmt: skip


_NEOX_LAYERS: Final = {
    "qkv": ("query_key_value",), "proj": ("attention.dense",), "fc1": ("dense_h_to_4h",),
    "fc2": ("dense_4h_to_h",),
}  # fmt: skip
_PARALLEL = ("parallel-blocks",)

DENSE: Final = {
    "gemma": HubType(
        "GemmaForCausalLM", "GemmaDecoderLayer", like(), headed, REGULAR, FP32_NORM
    ),
    "glm4": HubType(
        "Glm4ForCausalLM", "Glm4DecoderLayer", like(norms=4), _glm4, REGULAR | {"fc1": ("gate_up_proj",)}
    ),
    "olmo": HubType(
        "OlmoForCausalLM", "OlmoDecoderLayer", like(norm="layernorm", variants=("bare-norms",)), _olmo,
        REGULAR, {"norms": "fp32-read"}, without("rms_norm_eps"),
    ),
    "olmo2": HubType(
        "Olmo2ForCausalLM", "Olmo2DecoderLayer", like(variants=("norms-after",)), gated_fields, REGULAR,
        FP32_NORM,
    ),
    "olmoe": HubType("OlmoeForCausalLM", "OlmoeDecoderLayer", like(experts=True), _olmoe),
    "opt": HubType(
        "OPTForCausalLM", "OPTDecoderLayer",
        like(norm="layernorm", bias=True, gated=False, learned=True), _opt,
        {"qkv": REGULAR["qkv"], "proj": ("out_proj",), "fc1": ("fc1",), "fc2": ("fc2",)},
        names=without("num_key_value_heads"),
    ),
    "phi": HubType(
        "PhiForCausalLM", "PhiDecoderLayer",
        like(norm="layernorm", bias=True, gated=False, norms=1, variants=(*_PARALLEL, "head-bias")), _phi,
        {"qkv": REGULAR["qkv"], "proj": ("dense",), "fc1": ("fc1",), "fc2": ("fc2",)},
    ),
    "gpt_neox": HubType(
        "GPTNeoXForCausalLM", "GPTNeoXLayer",
        like(norm="layernorm", bias=True, gated=False, variants=_PARALLEL), _gpt_neox, _NEOX_LAYERS,
        {"rotary_chain": "joined"}, without("num_key_value_heads", "resid_pdrop", "embd_pdrop"),
    ),
    "stablelm": HubType(
        "StableLmForCausalLM", "StableLmDecoderLayer", like(norm="layernorm", bias=True), _stablelm, REGULAR,
        names=without("attention_bias", "rms_norm_eps"),
    ),
}  # fmt: skip
"""Type to how it is written."""
