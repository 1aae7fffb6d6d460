"""What Hugging Face modelling code does that ``config.json`` does not say, one record for each model type.

Read in huggingface/transformers v5.23.0, ``src/transformers/models/<type>/``; ``kimi_k2`` is ``deepseek_v3``
under another name, ``mimo`` is ``qwen2`` with extra prediction layers, ``internlm`` and ``internlm2`` are
``llama`` with biases, ``deepseek`` is ``deepseek_v2`` without latent attention, all in the code beside their
weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from planner.dataclasses import replace
from planner.inputs.hf_family import Family, SharedExperts

_UNTIED = {"tie_word_embeddings": False}
_TIED = {"tie_word_embeddings": True}
_NO_BIAS = {"attention_bias": False}
_WIDE = {"head_dim": 128}
"""Width of a head where a config says none, in types that do not take the hidden size over the heads."""

_LLAMA = Family(
    defaults=_UNTIED | _NO_BIAS | {"mlp_bias": False},
    qkv_bias="attention_bias",
    output_bias="attention_bias",
    ffn_bias="mlp_bias",
)
_QWEN2 = Family(
    defaults=_UNTIED | {"use_sliding_window": False, "max_window_layers": 28},
    qkv_bias=True,
    reach="flag",
)
_QWEN3_MOE = replace(
    _QWEN2,
    defaults=dict(_QWEN2.defaults) | _NO_BIAS,
    qkv_bias="attention_bias",
    output_bias="attention_bias",
    qk_norm="head",
)
_QWEN3 = replace(_QWEN3_MOE, defaults=dict(_QWEN3_MOE.defaults) | _WIDE)
_SPARSE_QWEN = {"decoder_sparse_step": 1, "mlp_only_layers": []}
_GEMMA = Family(
    defaults=_TIED | _NO_BIAS | {"head_dim": 256}, qkv_bias="attention_bias", output_bias="attention_bias"
)
_OLMO2 = Family(
    defaults=_UNTIED | _NO_BIAS,
    qkv_bias="attention_bias",
    output_bias="attention_bias",
    qk_norm="full",
    variants=("norms-after",),
)
_DEEPSEEK = Family(
    defaults=_UNTIED | _NO_BIAS | {"moe_layer_freq": 1, "q_lora_rank": 1536},
    moe=True,
    latent=True,
    shared=SharedExperts("n_shared_experts"),
    fixed={"mlp_bias": False},
)
_INDEX = {"index_n_heads": 64, "index_head_dim": 128, "index_topk": 2048}
_GLM = Family(
    defaults=_UNTIED | {"attention_bias": True, "num_key_value_heads": 2, "head_dim": 128},
    qkv_bias="attention_bias",
)
_GLM4V = Family(defaults=_UNTIED, norms=4)
_GLM_MOE = Family(
    defaults=_UNTIED | _NO_BIAS | {"first_k_dense_replace": 1, "use_qk_norm": False},
    qkv_bias="attention_bias",
    qk_norm="head",
    moe=True,
    shared=SharedExperts("n_shared_experts"),
)
_HUNYUAN = Family(
    defaults=_UNTIED | _NO_BIAS,
    qkv_bias="attention_bias",
    output_bias="attention_bias",
    qk_norm="head",
    variants=("head-norms-after-rotary",),
)
_ERNIE = Family(
    defaults=_TIED | {"use_bias": False, "head_dim": 128},
    qkv_bias="use_bias",
    output_bias="use_bias",
    ffn_bias="use_bias",
)
_APERTUS = Family(
    defaults=_UNTIED | _NO_BIAS,
    qkv_bias="attention_bias",
    output_bias="attention_bias",
    qk_norm="head",
    gated=False,
    activation_weights=2,
    fixed={"post_norm": False, "qk_norm": True},
    words={"hidden_act": "xielu"},
)
_MISTRAL = Family(defaults=_UNTIED, reach="all")


_GEMMA4 = replace(
    _GEMMA,
    defaults=dict(_GEMMA.defaults)
    | {
        "global_head_dim": 512,
        "sliding_window_pattern": 6,
        "sliding_window": 512,
        "num_experts": None,
        "vocab_size_per_layer_input": 262144,
        "num_kv_shared_layers": 0,
        "use_double_wide_mlp": False,
    },
    qk_norm="head",
    norms=4,
    reach="every",
    wide_full=True,
    variants=("value-norms",),
    shared=SharedExperts("intermediate_size"),
    router_bias=True,
    words={"use_bidirectional_attention": "vision"},
    reads=(
        "attention_k_eq_v",
        "enable_moe_block",
        "global_head_dim",
        "hidden_size_per_layer_input",
        "num_kv_shared_layers",
        "use_bidirectional_attention",
    ),
)


FAMILIES: Final[Mapping[str, Family]] = {
    "arcee": replace(_LLAMA, gated=False),
    "deepseek": replace(_DEEPSEEK, latent=False, qkv_bias="attention_bias", output_bias="attention_bias"),
    "deepseek_v2": _DEEPSEEK,
    "deepseek_v3": _DEEPSEEK,
    "deepseek_v32": replace(
        _DEEPSEEK, defaults=dict(_DEEPSEEK.defaults) | {"first_k_dense_replace": 3} | _INDEX, picks=True
    ),
    "glm_moe_dsa": replace(
        _DEEPSEEK,
        defaults=dict(_DEEPSEEK.defaults)
        | {"first_k_dense_replace": 3, "q_lora_rank": 2048, "index_n_heads": 32, "index_head_dim": 128}
        | {"index_topk": 2048, "indexer_rope_interleave": True},
        picks=True,
    ),
    "dots1": Family(
        defaults=_UNTIED | _NO_BIAS | {"use_sliding_window": True, "max_window_layers": 62},
        qkv_bias="attention_bias", output_bias="attention_bias", qk_norm="head", moe=True,
        shared=SharedExperts("n_shared_experts"), reach="flag",
    ),
    "ernie4_5": _ERNIE,
    "paddleocr_vl_text": _ERNIE,
    "gemma": _GEMMA,
    "gemma2": replace(
        _GEMMA, defaults=dict(_GEMMA.defaults) | {"sliding_window_pattern": 2}, norms=4, reach="every"
    ),
    "gemma3_text": replace(
        _GEMMA,
        defaults=dict(_GEMMA.defaults)
        | {
            "head_dim": 256,
            "max_position_embeddings": 131072,
            "num_attention_heads": 8,
            "num_key_value_heads": 4,
            "sliding_window_pattern": 6,
            "vocab_size": 262208,
        },
        qk_norm="head",
        norms=4,
        reach="every",
    ),
    "gemma4_text": _GEMMA4,
    "gemma4_unified_text": replace(
        _GEMMA4, defaults=dict(_GEMMA4.defaults) | {"sliding_window": 1024},
        reads=("attention_k_eq_v", "global_head_dim", "num_kv_shared_layers", "use_bidirectional_attention"),
    ),
    "glm": _GLM,
    "glm4": replace(_GLM, norms=4),
    "glm4v_text": replace(_GLM4V, qkv_bias=True),
    "glm_ocr_text": _GLM4V,
    "glm4_moe": _GLM_MOE,
    "glm4v_moe_text": replace(
        _GLM_MOE, defaults=dict(_GLM_MOE.defaults) | {"attention_bias": True}, qk_norm="none",
    ),
    "sarvam_moe": replace(_GLM_MOE, defaults=dict(_GLM_MOE.defaults) | {"use_qk_norm": True, "head_dim": 64}),
    "sarvam_mla": replace(_DEEPSEEK, defaults=_UNTIED | _NO_BIAS | {"first_k_dense_replace": 1}),
    "mistral4": replace(
        _DEEPSEEK, defaults=dict(_DEEPSEEK.defaults) | {"q_lora_rank": 1024}, variants=("scaled-queries",)
    ),
    "deepseek_ocr2_text": replace(
        _DEEPSEEK, latent=False, qkv_bias="attention_bias", output_bias="attention_bias"
    ),
    "glm4_moe_lite": replace(
        _DEEPSEEK, defaults=dict(_DEEPSEEK.defaults) | {"first_k_dense_replace": 1, "q_lora_rank": 768}
    ),
    "gpt_oss": Family(
        defaults=_UNTIED | {"attention_bias": True, "sliding_window_pattern": 2, "head_dim": 64},
        qkv_bias="attention_bias", output_bias="attention_bias", moe=True, expert_bias=True,
        router_bias=True, sinks=True, reach="every",
    ),
    "granite": _LLAMA,
    "granite4_vision_text": _LLAMA,
    "granite_docling_text": _LLAMA,
    "hunyuan_v1_dense": _HUNYUAN,
    "hunyuan_vl_text": _HUNYUAN,
    "emu3_text_model": _LLAMA,
    "exaone": replace(_LLAMA, names={"num_hidden_layers": "num_layers"}),
    "internlm3": replace(
        _LLAMA, defaults=dict(_LLAMA.defaults) | _WIDE, fixed={"bias": False, "qkv_bias": False},
    ),
    "iquestcoder": replace(_LLAMA, defaults=dict(_LLAMA.defaults) | _WIDE),
    "internlm": replace(_LLAMA, defaults=_UNTIED | {"bias": True}, qkv_bias="bias", output_bias="bias",
                        ffn_bias=False),
    "internlm2": replace(_LLAMA, defaults=_UNTIED | {"bias": True}, qkv_bias="bias", output_bias="bias",
                         ffn_bias=False),
    "kimi_k2": _DEEPSEEK,
    "laguna": Family(
        defaults=_UNTIED | _NO_BIAS | {"head_dim": 128, "num_key_value_heads": 8, "first_k_dense_replace": 1},
        qkv_bias="attention_bias", output_bias="attention_bias", qk_norm="head", moe=True,
        shared=SharedExperts("shared_expert_intermediate_size"), reach="listed", variants=("softplus-gates",),
        fixed={"moe_apply_router_weight_on_input": False, "moe_router_logit_softcapping": 0.0,
               "attention_bias": False},
        names={"routed_scaling_factor": "moe_routed_scaling_factor"},
    ),
    "llama": _LLAMA,
    "llama4_text": Family(
        defaults=_UNTIED | _NO_BIAS | {"interleave_moe_layer_step": 1, "no_rope_layer_interval": 4},
        qkv_bias="attention_bias", output_bias="attention_bias", moe=True,
        shared=SharedExperts("intermediate_size"),
        reach="chunk", dense_inner="intermediate_size_mlp",
    ),
    "longcat_flash": Family(
        defaults=_UNTIED | _NO_BIAS | {"q_lora_rank": 1536, "zero_expert_num": 256, "router_bias": False},
        moe=True, latent=True,
        shared=SharedExperts("ffn_hidden_size"), dense_inner="ffn_hidden_size", paired=True,
        fixed={"router_bias": False}, words={"zero_expert_type": "identity", "attention_method": "MLA"},
    ),
    "mimo": replace(
        _QWEN2, defaults=dict(_QWEN2.defaults) | {"attention_bias": True}, qkv_bias="attention_bias"
    ),
    "mimo_v2_flash": Family(defaults=_UNTIED | _NO_BIAS, qkv_bias="attention_bias", moe=True, reach="hybrid"),
    "minimax_m2": Family(
        defaults=_UNTIED | _WIDE, qk_norm="full", moe=True, shared=SharedExperts("shared_intermediate_size"),
    ),
    "minimax_m3_vl_text": Family(
        defaults=_UNTIED | _WIDE
        | {"index_n_heads": 4, "index_head_dim": 128, "index_block_size": 128, "index_topk_blocks": 16},
        qk_norm="head", moe=True, shared=SharedExperts("shared_intermediate_size"),
        dense_inner="dense_intermediate_size",
        reads=("index_head_dim", "sparse_attention_config"),
        fixed={"swiglu_alpha": 1.702, "swiglu_limit": 7.0, "attention_bias": False, "n_shared_experts": 1},
    ),
    "ministral": _MISTRAL,
    "mistral": _MISTRAL,
    "mixtral": Family(defaults=_UNTIED, moe=True, reach="all"),
    "olmo2": _OLMO2,
    "olmo3": replace(_OLMO2, defaults=dict(_OLMO2.defaults) | {"sliding_window_pattern": 4}, reach="every"),
    "olmo_hybrid": replace(
        _OLMO2, linear="gated-delta", variants=("norms-after-attention",),
        defaults=dict(_OLMO2.defaults) | {"full_attention_interval": 4, "linear_conv_kernel_dim": 4},
    ),
    "olmoe": replace(_OLMO2, moe=True, variants=()),
    "flex_olmo": replace(_OLMO2, moe=True),
    "phi3": Family(defaults=_UNTIED, reach="all"),
    "qwen2": _QWEN2,
    "qwen2_moe": replace(
        _QWEN2, defaults=dict(_QWEN2.defaults) | _SPARSE_QWEN | {"qkv_bias": True}, qkv_bias="qkv_bias",
        moe=True, shared=SharedExperts("shared_expert_intermediate_size", gate=True, least=1),
    ),
    "qwen3": _QWEN3,
    "qwen2_vl_text": _QWEN2,
    "qwen2_5_vl_text": _QWEN2,
    "qwen2_5_omni_text": _QWEN2,
    "qwen3_vl_text": _QWEN3,
    "qwen3_vl_moe_text": replace(_QWEN3_MOE, defaults=dict(_QWEN3_MOE.defaults) | _SPARSE_QWEN, moe=True),
    "qwen3_omni_moe_text": replace(_QWEN3_MOE, defaults=dict(_QWEN3_MOE.defaults) | _SPARSE_QWEN, moe=True),
    "qwen3_moe": replace(_QWEN3_MOE, defaults=dict(_QWEN3_MOE.defaults) | _SPARSE_QWEN, moe=True),
    "seed_oss": Family(
        defaults=_UNTIED | {"attention_bias": True, "attention_out_bias": False, "mlp_bias": False} | _WIDE,
        qkv_bias="attention_bias", output_bias="attention_out_bias", ffn_bias="mlp_bias",
    ),
    "smollm3": replace(
        _LLAMA, defaults=dict(_LLAMA.defaults) | _TIED | {"no_rope_layer_interval": 4}, reach="bare",
        fixed={"use_sliding_window": False},
    ),
    "solar_open": Family(
        defaults=_UNTIED | _NO_BIAS | {"head_dim": 128}, qkv_bias="attention_bias", moe=True,
        shared=SharedExperts("n_shared_experts"),
    ),
    "starcoder2": Family(
        defaults=_TIED | {"use_bias": True}, qkv_bias="use_bias", output_bias="use_bias", ffn_bias="use_bias",
        norm="layernorm", gated=False, reach="all",
    ),
    "afmoe": Family(
        defaults=_UNTIED | _WIDE | {"sliding_window_pattern": 4}, fixed={"attention_bias": False},
        qk_norm="head",
        norms=4, moe=True, shared=SharedExperts("num_shared_experts"),
        output_gate=True, reach="every", bare_full=True,
        names={"first_k_dense_replace": "num_dense_layers",
               "sliding_window_pattern": "global_attn_every_n_layers",
               "routed_scaling_factor": "route_scale"},
    ),
    "apertus": _APERTUS,
    "apertus1p5_text": replace(_APERTUS, fixed=dict(_APERTUS.fixed) | {"output_vocab_size": None}),
    "aria_text": replace(
        _LLAMA, moe=True,
        shared=SharedExperts("num_shared_experts"), ffn_bias=False, fixed={"mlp_bias": False},
        names={"num_local_experts": "moe_num_experts", "num_shared_experts": "moe_num_shared_experts"},
    ),
    "cosmos3_edge_text": replace(
        _LLAMA, defaults=dict(_LLAMA.defaults) | _WIDE, gated=False, fixed={"tie_word_embeddings": False},
    ),
    "cwm": Family(
        defaults=_UNTIED | _WIDE | {"mlp_bias": False}, reach="listed", ffn_bias="mlp_bias",
    ),
    "ernie4_5_moe": Family(
        defaults=_TIED | {"use_bias": False, "moe_layer_start_index": 1, "moe_layer_interval": 1}, moe=True,
        shared=SharedExperts("num_shared_experts"), fixed={"use_bias": False},
        names={"num_experts_per_tok": "moe_k", "num_local_experts": "moe_num_experts",
               "num_shared_experts": "moe_num_shared_experts", "decoder_sparse_step": "moe_layer_interval",
               "first_k_dense_replace": "moe_layer_start_index"},
    ),
    "exaone4": Family(
        defaults=_UNTIED | {"sliding_window_pattern": 4}, qk_norm="head", variants=("norms-after",),
        reach="every", bare_full=True,
    ),
    "exaone_moe": Family(
        defaults=_UNTIED | {"sliding_window_pattern": 4, "first_k_dense_replace": 1}, qk_norm="head",
        moe=True,
        shared=SharedExperts("num_shared_experts"), reach="every", bare_full=True, dense_prediction=True,
        fixed={"sliding_windows": None, "swiglu_limits": None, "mtp_layer_types": None,
               "mtp_share_layers": False},
    ),
    "flint": Family(
        defaults=_UNTIED | _NO_BIAS | _WIDE, qkv_bias="attention_bias", output_bias="attention_bias",
        qk_norm="head",
        moe=True, shared=SharedExperts("shared_expert_intermediate_size"), sinks=True, reach="listed",
        bare_full=True,
    ),
    "granitemoe": Family(
        defaults=_UNTIED | _NO_BIAS, qkv_bias="attention_bias", output_bias="attention_bias", moe=True,
    ),
    "granitemoeshared": Family(
        defaults=_UNTIED | _NO_BIAS | {"shared_intermediate_size": 0}, qkv_bias="attention_bias",
        output_bias="attention_bias", moe=True, shared=SharedExperts("shared_intermediate_size"),
    ),
    "helium": Family(defaults=_UNTIED | _NO_BIAS | {"mlp_bias": False, "head_dim": 128},
                     qkv_bias="attention_bias", ffn_bias="mlp_bias"),
    "hunyuan_v1_moe": replace(
        _HUNYUAN, moe=True, shared=SharedExperts("intermediate_size"),
        names={"moe_intermediate_size": "intermediate_size"},
    ),
    "hy_v3": Family(
        defaults=_UNTIED | _NO_BIAS | {"mlp_bias": False, "head_dim": 128, "first_k_dense_replace": 1},
        qkv_bias="attention_bias", output_bias="attention_bias", qk_norm="head", moe=True,
        shared=SharedExperts("num_shared_experts", least=1), fixed={"mlp_bias": False},
        names={"routed_scaling_factor": "router_scaling_factor"},
    ),
    "hyperclovax": _LLAMA,
    "mellum": Family(
        defaults=_UNTIED | _NO_BIAS | _WIDE, qkv_bias="attention_bias", output_bias="attention_bias",
        qk_norm="head",
        moe=True, reach="listed",
    ),
    "minicpm3": Family(
        defaults=_TIED | _NO_BIAS | {"mlp_bias": False, "q_lora_rank": 768}, latent=True,
        fixed={"mlp_bias": False},
    ),
    "ministral3": replace(_MISTRAL, defaults=_UNTIED | _WIDE, variants=("scaled-queries",)),
    "vaultgemma": replace(
        _GEMMA, defaults=dict(_GEMMA.defaults) | {"sliding_window_pattern": 2}, reach="every"
    ),
    "youtu": Family(defaults=_TIED | _NO_BIAS | {"q_lora_rank": 1536}, latent=True),
}  # fmt: skip
"""Model type to what its code does."""
