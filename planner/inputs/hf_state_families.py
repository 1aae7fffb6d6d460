"""Model types with mixers that pass a state along: delta nets, state spaces, short convolutions.

Read in huggingface/transformers v5.23.0 and v5.24.0, ``src/transformers/models/<type>/``; ``kimi_linear`` in
the code beside its weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from planner.dataclasses import replace
from planner.inputs.hf_family import Family, SharedExperts

_UNTIED = {"tie_word_embeddings": False}
_TIED = {"tie_word_embeddings": True}
_NO_BIAS = {"attention_bias": False}
_SPARSE_QWEN = {"decoder_sparse_step": 1, "mlp_only_layers": []}
_LFM2 = Family(
    defaults=_TIED | {"conv_L_cache": 3, "conv_bias": False}, qk_norm="head", linear="short-conv",
    names={"tie_word_embeddings": "tie_embedding", "attn_layer_indices": "full_attn_idxs",
           "intermediate_size": "block_ff_dim"},
)  # fmt: skip
_MAMBA = Family(
    defaults=_TIED | {"state_size": 16, "conv_kernel": 4, "use_bias": False, "step_norms": "none"},
    linear="mamba1", single=True, recurrent_alone=True, norms=1,
)  # fmt: skip
_GATED_EXPERT = SharedExperts("shared_expert_intermediate_size", gate=True, least=1)
_QWEN3_LINEAR = Family(
    defaults=_UNTIED
    | {
        "full_attention_interval": 4, "head_dim": 256, "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_num_key_heads": 16,
        "linear_num_value_heads": 32,
    },
    qk_norm="head", linear="gated-delta", output_gate=True,
    fixed={"attention_bias": False, "attn_output_gate": True},
)  # fmt: skip

FAMILIES: Final[Mapping[str, Family]] = {
    "bamba": Family(
        defaults=_UNTIED | _NO_BIAS | {"mlp_bias": False, "mamba_proj_bias": False},
        qkv_bias="attention_bias", output_bias="attention_bias", ffn_bias="mlp_bias", linear="mamba2",
    ),
    "falcon_h1": Family(
        defaults=_UNTIED
        | _NO_BIAS
        | {"mlp_bias": False, "mamba_proj_bias": False, "mamba_n_groups": 1, "mamba_d_conv": 4,
           "mamba_rms_norm": False, "mamba_norm_before_gate": True},
        qkv_bias="attention_bias", output_bias="attention_bias", ffn_bias="mlp_bias", linear="mamba2",
        beside=True, fixed={"projectors_bias": "mamba_proj_bias"},
        names={"logit_scale": "lm_head_multiplier"},
    ),
    "granitemoehybrid": Family(
        defaults=_UNTIED | _NO_BIAS | {"mamba_proj_bias": False, "mamba_n_groups": 1, "mamba_d_conv": 4},
        qkv_bias="attention_bias", output_bias="attention_bias", moe=True,
        shared=SharedExperts("shared_intermediate_size"), dense_inner="shared_intermediate_size",
        linear="mamba2",
    ),
    "kimi_linear": Family(
        defaults=_UNTIED | _NO_BIAS | {"first_k_dense_replace": 1}, moe=True, latent=True,
        shared=SharedExperts("num_shared_experts", other="n_shared_experts"), linear="kimi-delta",
        names={"use_full_rank_gate": "linear_attn_config.use_full_rank_gate"},
        fixed={"use_full_rank_gate": False, "mla_use_output_gate": False},
    ),
    "minimax": Family(
        defaults=_UNTIED, moe=True, linear="lightning",
        fixed={"sliding_window": None, "postnorm": True, "shared_intermediate_size": 0},
    ),
    "nemotron_h": Family(
        defaults=_UNTIED
        | {
            "mlp_bias": False, "use_bias": False, "num_key_value_heads": 8, "head_dim": 128, "n_groups": 8,
            "conv_kernel": 4, "chunk_size": 128, "ssm_state_size": 128,
        },
        ffn_bias="mlp_bias", gated=False, moe=True,
        shared=SharedExperts("moe_shared_expert_intermediate_size", least=1),
        linear="mamba2", single=True, norms=1, narrow=True,
    ),
    "qwen3_5_text": _QWEN3_LINEAR,
    "qwen3_5_moe_text": replace(
        _QWEN3_LINEAR, moe=True, shared=_GATED_EXPERT,
    ),
    "qwen3_next": replace(
        _QWEN3_LINEAR, defaults=dict(_QWEN3_LINEAR.defaults) | _SPARSE_QWEN, moe=True, shared=_GATED_EXPERT,
    ),
    "lfm2": _LFM2,
    "lfm3": Family(
        defaults=_TIED
        | {"conv_L_cache": 7, "conv_bias": False, "attention_bias": False, "head_dim": 128,
           "use_attention_gate": True, "use_sandwich_norm": True},
        fixed={"attention_bias": False}, qk_norm="head", linear="short-conv", windows=True,
        head_gate="use_attention_gate",
    ),
    "lfm2_moe": replace(
        _LFM2, moe=True, dense_inner="intermediate_size",
        names={"tie_word_embeddings": "tie_embedding", "attn_layer_indices": "full_attn_idxs",
               "first_k_dense_replace": "num_dense_layers"},
    ),
    "mamba": _MAMBA,
    "falcon_mamba": replace(_MAMBA, defaults=dict(_MAMBA.defaults) | {"step_norms": "bare"}),
    "jamba": Family(
        defaults=_UNTIED
        | {"mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2, "mamba_proj_bias": False,
           "attn_layer_period": 8, "attn_layer_offset": 4, "expert_layer_period": 2,
           "expert_layer_offset": 1, "step_norms": "weights"},
        moe=True, linear="mamba1", bare=True, fixed={"sliding_window": None},
        names={"decoder_sparse_step": "expert_layer_period"},
    ),
    "mamba2": Family(
        defaults=_UNTIED | {"n_groups": 8, "state_size": 128, "conv_kernel": 4, "chunk_size": 256,
                            "num_heads": 128, "head_dim": 64, "use_bias": False},
        linear="mamba2", single=True, recurrent_alone=True, norms=1,
        names={"mamba_num_heads": "num_heads", "mamba_head_dim": "head_dim", "ssm_state_size": "state_size"},
    ),
}  # fmt: skip
"""Model type to what its code does."""
