"""Model types whose blocks are not those of Llama: layer norms, plain feed-forwards, blocks side by side.

Read in huggingface/transformers v5.24.0, ``src/transformers/models/<type>/``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from planner.dataclasses import replace
from planner.inputs.hf_family import Family

_UNTIED = {"tie_word_embeddings": False}
_TIED = {"tie_word_embeddings": True}

_PLAIN = Family(norm="layernorm", gated=False, qkv_bias=True, output_bias=True, ffn_bias=True)
_GPT2 = replace(
    _PLAIN, defaults=_TIED, learned_positions=True, dense_inner="n_inner",
    fixed={"scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False},
)  # fmt: skip
_GPTJ = replace(
    _PLAIN, defaults=_UNTIED, qkv_bias=False, output_bias=False, dense_inner="n_inner", norms=1,
    variants=("parallel-blocks", "head-bias"),
)  # fmt: skip
_COHERE = Family(
    defaults=_TIED | {"attention_bias": False, "use_qk_norm": False}, qkv_bias="attention_bias",
    output_bias="attention_bias", norm="layernorm", norm_bias=False, norms=1, qk_norm="each",
    variants=("parallel-blocks",),
)  # fmt: skip
_COHERE2 = replace(
    _COHERE, defaults=dict(_COHERE.defaults) | {"sliding_window_pattern": 4, "sliding_window": 4096},
    qk_norm="none", reach="every", bare_full=True,
    fixed={"use_parallel_block": True, "use_gated_activation": True, "use_qk_norm": False, "rotary_pct": 1.0},
)  # fmt: skip

FAMILIES: Final[Mapping[str, Family]] = {
    "biogpt": replace(_PLAIN, defaults=_TIED, learned_positions=True, spare_positions=2),
    "bloom": replace(
        _PLAIN, defaults=_TIED, dense_inner="n_inner", variants=("alibi", "embedding-norm"),
        fixed={"apply_residual_connection_post_layernorm": False}, names={"hidden_size": "n_embed"},
    ),
    "codegen": _GPTJ,
    "cohere": _COHERE,
    "cohere2": _COHERE2,
    "cohere2_moe": replace(
        _COHERE2, moe=True,
        fixed=dict(_COHERE2.fixed)
        | {"num_shared_experts": 0, "rms_norm_eps": None, "prefix_dense_intermediate_size": None,
               "norm_topk_prob": True},
    ),
    "dbrx": Family(
        defaults=_UNTIED | {"attn_config.kv_n_heads": 1}, norm="layernorm", norm_bias=False, moe=True,
        names={"hidden_size": "d_model", "num_hidden_layers": "n_layers", "num_attention_heads": "n_heads",
               "num_key_value_heads": "attn_config.kv_n_heads", "clip_qkv": "attn_config.clip_qkv",
               "rope_theta": "attn_config.rope_theta", "max_position_embeddings": "max_seq_len",
               "num_local_experts": "ffn_config.moe_num_experts",
               "num_experts_per_tok": "ffn_config.moe_top_k",
               "intermediate_size": "ffn_config.ffn_hidden_size",
               "hidden_act": "ffn_config.ffn_act_fn.name",
               "moe_normalize_expert_weights": "ffn_config.moe_normalize_expert_weights",
               "router_aux_loss_coef": "ffn_config.moe_loss_weight"},
        fixed={"moe_normalize_expert_weights": 1.0},
    ),
    "falcon": replace(_PLAIN, defaults=_TIED, dense_inner="ffn_hidden_size"),
    "gpt2": _GPT2,
    "gpt-sw3": _GPT2,
    "gpt_bigcode": replace(
        _GPT2, defaults=_TIED | {"num_key_value_heads": 1},
        fixed={"multi_query": True, "scale_attn_weights": True, "num_key_value_heads": 1},
    ),
    "gpt_neo": replace(
        _GPT2, qkv_bias=False, reach="listed", dense_inner="n_inner",
        names={"num_hidden_layers": "num_layers", "num_attention_heads": "num_heads",
               "layer_types": "attention_layers", "sliding_window": "window_size",
               "n_inner": "intermediate_size"},
    ),
    "gpt_neox": replace(
        _PLAIN, defaults=_UNTIED | {"attention_bias": True, "use_parallel_residual": True},
        qkv_bias="attention_bias", output_bias="attention_bias",
        names={"partial_rotary_factor": "rotary_pct", "rope_theta": "rotary_emb_base"},
    ),
    "gptj": _GPTJ,
    "jais2": replace(
        _PLAIN, defaults=_UNTIED | {"attention_bias": True, "mlp_bias": True}, qkv_bias="attention_bias",
        output_bias="attention_bias", ffn_bias="mlp_bias",
    ),
    "mpt": Family(
        defaults=_TIED | {"no_bias": True}, norm="layernorm", norm_bias=False, gated=False,
        dense_inner="n_inner", variants=("alibi",),
        fixed={"no_bias": True, "alibi": True, "qk_ln": False, "prefix_lm": False, "softmax_scale": None,
               "expansion_ratio": 4, "logit_scale": None},
        names={"hidden_size": "d_model", "num_hidden_layers": "n_layers", "num_attention_heads": "n_heads",
               "max_position_embeddings": "max_seq_len", "alibi": "attn_config.alibi",
               "qk_ln": "attn_config.qk_ln", "prefix_lm": "attn_config.prefix_lm",
               "softmax_scale": "attn_config.softmax_scale", "clip_qkv": "attn_config.clip_qkv"},
    ),
    "nanochat": Family(
        defaults=_UNTIED | {"attention_bias": False}, qkv_bias="attention_bias",
        output_bias="attention_bias", gated=False,
        variants=("bare-norms", "embedding-norm", "bare-head-norms", "head-norms-after-rotary"),
    ),
    "nemotron": replace(
        _PLAIN, defaults=_UNTIED | {"attention_bias": False, "mlp_bias": False}, qkv_bias="attention_bias",
        output_bias="attention_bias", ffn_bias="mlp_bias",
    ),
    "olmo": Family(
        defaults=_UNTIED | {"attention_bias": False}, qkv_bias="attention_bias",
        output_bias="attention_bias", norm="layernorm", norm_bias=False, variants=("bare-norms",),
    ),
    "opt": replace(
        _PLAIN, defaults=_TIED | {"enable_bias": True}, qkv_bias="enable_bias", output_bias="enable_bias",
        ffn_bias="enable_bias", learned_positions=True, dense_inner="ffn_dim", spare_positions=2,
        fixed={"do_layer_norm_before": True, "_remove_final_layer_norm": False,
               "layer_norm_elementwise_affine": True, "word_embed_proj_dim": "hidden_size"},
    ),
    "persimmon": replace(
        _PLAIN, defaults=_UNTIED | {"use_qk_norm": True}, qk_norm="head-bias",
        names={"use_qk_norm": "qk_layernorm"},
    ),
    "phi": replace(
        _PLAIN, defaults=_UNTIED, norms=1, variants=("parallel-blocks", "head-bias"),
        fixed={"qk_layernorm": False},
    ),
    "phimoe": Family(
        defaults=_UNTIED | {"attention_bias": False, "lm_head_bias": False}, qkv_bias="attention_bias",
        output_bias="attention_bias", norm="layernorm", moe=True, reach="all", variants=("sparse-mixer",),
    ),
    "stablelm": Family(
        defaults=_UNTIED | {"use_qkv_bias": False, "use_qk_norm": False}, qkv_bias="use_qkv_bias",
        norm="layernorm", qk_norm="each", names={"use_qk_norm": "qk_layernorm"},
    ),
}  # fmt: skip
"""Model type to what its code does."""
