"""DBRX, MiniMax-M2, GLM-4.5, Qwen2-MoE, Llama 4: experts in all layers, or in some of them.

Read in transformers 5.23, ``models/<type>``.
"""

from __future__ import annotations

from typing import Final

from planner.inputs.model import Attention, DenseFfn, Experts, ModelSpec
from planner.runtimes.hub.fields import (
    FP32_NORM,
    gated_fields,
    known,
    like,
    mixer_of,
    positions,
    rotary,
    rotary_part,
    routed,
    windows,
    without,
)
from planner.runtimes.hub.types import Fields, HubType


def _dbrx(model: ModelSpec) -> Fields:
    own, experts = model.numerics, model.expert_kinds[0]
    loss = known(moe_loss_weight=own.router.aux_loss if own.router else None)
    fed = {
        "ffn_hidden_size": experts.inner,
        "moe_num_experts": experts.experts,
        "moe_top_k": experts.topk,
        "moe_normalize_expert_weights": 1.0,
    } | known(ffn_act_fn={"name": own.activation} if own.activation else None)
    attention = {"kv_n_heads": mixer_of(model).kv_heads, "attn_pdrop": 0.0}
    turned = known(rope_theta=own.rope_theta)
    return rotary(model) | {
        "attn_config": attention | known(clip_qkv=own.qkv_clip) | turned,
        "ffn_config": fed | loss,
        "output_router_logits": bool(loss.get("moe_loss_weight")),
        "resid_pdrop": 0.0,
        "emb_pdrop": 0.0,
    }  # fmt: skip


def _minimax(model: ModelSpec) -> Fields:
    experts, mixer = model.expert_kinds[0], mixer_of(model)
    return gated_fields(model) | rotary_part(model) | routed(model) | {
        "head_dim": mixer.head_dim,
        "intermediate_size": experts.inner,
        "num_local_experts": experts.experts,
        "num_experts_per_tok": experts.topk,
    }  # fmt: skip


def _first_dense(model: ModelSpec) -> int:
    """Return how many layers stand before the first one with experts."""
    dense = [isinstance(model.blocks[name].ffn, DenseFfn) for name in model.layers]
    return dense.index(False) if False in dense else len(dense)


def _glm4_moe(model: ModelSpec) -> Fields:
    experts, mixer = model.expert_kinds[0], mixer_of(model)
    whole = 1.0 if model.numerics.rope_theta is not None else None
    turned = positions(model) | known(partial_rotary_factor=model.numerics.rope_fraction or whole)
    balance = ("router_aux_loss_coef", "output_router_logits")
    router = {key: value for key, value in routed(model).items() if key not in balance}
    return gated_fields(model) | router | {
        "rope_parameters": turned,
        "head_dim": mixer.head_dim,
        "moe_intermediate_size": experts.inner,
        "n_routed_experts": experts.experts,
        "num_experts_per_tok": experts.topk,
        "n_shared_experts": experts.shared_inner // experts.inner,
        "first_k_dense_replace": _first_dense(model),
        "use_qk_norm": mixer.qk_norm != "none",
        "num_nextn_predict_layers": 0,
    }  # fmt: skip


def _qwen2_moe(model: ModelSpec) -> Fields:
    experts, mixer = model.expert_kinds[0], mixer_of(model)
    return gated_fields(model) | routed(model) | {
        "qkv_bias": mixer.qkv_bias,
        "moe_intermediate_size": experts.inner,
        "num_experts": experts.experts,
        "num_experts_per_tok": experts.topk,
        "shared_expert_intermediate_size": experts.shared_inner,
        "use_sliding_window": False,
    }  # fmt: skip


def _is_gpt_oss(model: ModelSpec) -> bool:
    """Whether heads have sinks, and experts and routers biases, in layers of which some have a window."""
    mixers = [mixer for mixer in model.attentions if isinstance(mixer, Attention)]
    biased = all(ffn.bias and ffn.router_bias for ffn in model.expert_kinds)
    return like(experts=True, mixed=True)(model) and biased and all(mixer.sinks for mixer in mixers)


def _gpt_oss(model: ModelSpec) -> Fields:
    experts, mixer = model.expert_kinds[0], mixer_of(model)
    return gated_fields(model) | routed(model) | windows(model) | {
        "hidden_act": "silu",
        "head_dim": mixer.head_dim,
        "intermediate_size": experts.inner,
        "num_local_experts": experts.experts,
        "num_experts_per_tok": experts.topk,
    }  # fmt: skip


_LLAMA4: Final = ("scaled-queries",)
_LLAMA4_NORMED: Final = ("bare-head-norms", "head-norms-after-rotary", *_LLAMA4)


def _is_llama4(model: ModelSpec) -> bool:
    """Whether layers see chunks with rotary positions, or the whole sequence without."""
    known = any(like(experts=True, mixed=True, variants=names)(model) for names in (_LLAMA4, _LLAMA4_NORMED))
    mixers = [mixer for mixer in model.attentions if isinstance(mixer, Attention)]
    return known and all(mixer.chunked == mixer.rotary for mixer in mixers)


def _llama4(model: ModelSpec) -> Fields:
    experts, mixer = model.expert_kinds[0], mixer_of(model)
    blocks = [model.blocks[name] for name in model.layers]
    near = [isinstance(block.mixer, Attention) and block.mixer.chunked for block in blocks]
    dense = next((ffn.inner for ffn in model.ffns if isinstance(ffn, DenseFfn)), 2 * experts.inner)
    loss = known(router_aux_loss_coef=model.numerics.router.aux_loss if model.numerics.router else None)
    return gated_fields(model) | loss | {
        "head_dim": mixer.head_dim,
        "intermediate_size": experts.inner,
        "intermediate_size_mlp": dense,
        "num_local_experts": experts.experts,
        "num_experts_per_tok": experts.topk,
        "moe_layers": [place for place, block in enumerate(blocks) if isinstance(block.ffn, Experts)],
        "no_rope_layers": [int(one) for one in near],
        "layer_types": ["chunked_attention" if one else "full_attention" for one in near],
        "attention_chunk_size": next(one.window for one in model.attentions if one.window is not None),
        "use_qk_norm": "bare-head-norms" in model.variants,
        "attn_temperature_tuning": "scaled-queries" in model.variants,
    }  # fmt: skip


SPARSE: Final = {
    "dbrx": HubType(
        "DbrxForCausalLM", "DbrxBlock", like(norm="layernorm", experts=True), _dbrx,
        names={"hidden_size": "d_model", "num_hidden_layers": "n_layers", "num_attention_heads": "n_heads",
               "max_position_embeddings": "max_seq_len", "num_key_value_heads": ""},
        traits={"expert_result_bytes": 4.0},
        notes=(
            "transformers runs DBRX's experts one after the other: the price has one product for all, and is "
            "too low.",
        ),
    ),
    "gpt_oss": HubType(
        "GptOssForCausalLM", "GptOssDecoderLayer", _is_gpt_oss, _gpt_oss, names=without("norm_topk_prob"),
        traits={"attention": "unfused", "score_bytes": 2.0, "attention_code": "repeated", **FP32_NORM},
        notes=(
            "transformers gives GPT-OSS's sinks to eager attention, which keeps all scores, windows or not.",
        ),
    ),
    "minimax_m2": HubType("MiniMaxM2ForCausalLM", "MiniMaxM2DecoderLayer", like(experts=True), _minimax,
        names=without("attention_bias", "norm_topk_prob"),
    ),
    "glm4_moe": HubType(
        "Glm4MoeForCausalLM", "Glm4MoeDecoderLayer", like(experts=True, mixed=True), _glm4_moe,
        traits={"router": "fp32"},
    ),
    "llama4_text": HubType(
        "Llama4ForCausalLM", "Llama4TextDecoderLayer", _is_llama4, _llama4, traits={"experts": "every"},
        notes=(
            "transformers runs each of Llama 4's experts on all tokens, which the price counts, and adds no "
            "loss of their balance.",
        ),
    ),
    "qwen2_moe": HubType(
        "Qwen2MoeForCausalLM", "Qwen2MoeDecoderLayer", like(experts=True), _qwen2_moe,
        names=without("attention_bias"),
    ),
}  # fmt: skip
"""Type to how it is written."""
