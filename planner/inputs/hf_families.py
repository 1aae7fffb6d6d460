"""What Hugging Face modelling code does that ``config.json`` does not say, one record for each model type.

Read in huggingface/transformers v5.23.0, ``src/transformers/models/<type>/``; ``kimi_k2`` is ``deepseek_v3``
under another name, ``mimo`` is ``qwen2`` with extra prediction layers, ``internlm`` and ``internlm2`` are
``llama`` with biases, ``deepseek`` is ``deepseek_v2`` without latent attention, all in the code beside their
weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

Biased = bool | str
"""Whether there is a bias; text names the key of the config that says so."""

Reach = Literal["full", "all", "flag", "every", "chunk", "hybrid", "bare"]
"""Which layers see a window: none, all if there is a window, those from ``max_window_layers`` on if a flag is
set, all but each n-th, chunks in all but each n-th, or those of a list; ``bare``: none, and each n-th layer
has no rotary positions."""


@dataclass(frozen=True)
class Family:
    """One model type.

    Parameters
    ----------
    defaults : mapping
        Values of keys that a config may leave out, as the type's configuration class has them.
    qkv_bias, output_bias, ffn_bias : bool or str
        Biases of the attention's projections and the feed-forward.
    qk_norm : str
        Norms of queries and keys: ``none``, ``head`` for one head's width, ``full`` for all heads'.
    norms : int
        Norms of a block.
    norm : str
        ``rmsnorm``, or ``layernorm``, which has a bias.
    gated : bool
        Whether the feed-forward has a gate.
    moe, latent : bool
        Whether it has experts, and latent attention.
    expert_bias, router_bias, shared_gate, sinks : bool
        Whether experts and router have biases, the shared expert a gate, and the heads sinks.
    shared : tuple of str
        Keys of the shared experts: their number first where a number times the expert's width is meant.
    reach : str
        Which layers see a window.
    learned_positions : bool
        Whether positions are learned, not rotary.
    dense_inner : str
        Key of the feed-forward's width.
    spare_positions : int
        Rows of the table of learned positions beyond the longest sequence.
    linear : str
        Kind of the mixers that pass a state along, where there are any.
    single : bool
        Whether a layer is a mixer or a feed-forward alone.
    output_gate : bool
        Whether attention has an output gate.
    picks : bool
        Whether an indexer picks the keys of latent attention.
    paired : bool
        Whether a layer is two here: attention, a dense feed-forward and beside it experts on a shortcut, then
        attention and a dense feed-forward, after which the experts' result is added.
    fixed : mapping
        Keys that may have one value alone, another would be another architecture; text names the key whose
        value it is.
    words : mapping
        Keys that may have one word alone.
    """

    defaults: Mapping[str, Any] = field(default_factory=dict)
    qkv_bias: Biased = False
    output_bias: Biased = False
    ffn_bias: Biased = False
    qk_norm: Literal["none", "head", "full"] = "none"
    norms: int = 2
    norm: Literal["rmsnorm", "layernorm"] = "rmsnorm"
    gated: bool = True
    moe: bool = False
    latent: bool = False
    expert_bias: bool = False
    router_bias: bool = False
    shared_gate: bool = False
    sinks: bool = False
    shared: tuple[str, ...] = ()
    reach: Reach = "full"
    learned_positions: bool = False
    dense_inner: str = "intermediate_size"
    spare_positions: int = 0
    linear: str = ""
    single: bool = False
    output_gate: bool = False
    picks: bool = False
    paired: bool = False
    fixed: Mapping[str, bool | str | None] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)


_UNTIED = {"tie_word_embeddings": False}
_TIED = {"tie_word_embeddings": True}
_NO_BIAS = {"attention_bias": False}

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
_QWEN3 = replace(
    _QWEN2,
    defaults=dict(_QWEN2.defaults) | _NO_BIAS,
    qkv_bias="attention_bias",
    output_bias="attention_bias",
    qk_norm="head",
)
_SPARSE_QWEN = {"decoder_sparse_step": 1, "mlp_only_layers": []}
_GEMMA = Family(defaults=_TIED | _NO_BIAS, qkv_bias="attention_bias", output_bias="attention_bias")
_OLMO2 = Family(
    defaults=_UNTIED | _NO_BIAS, qkv_bias="attention_bias", output_bias="attention_bias", qk_norm="full"
)
_DEEPSEEK = Family(
    defaults=_UNTIED | _NO_BIAS | {"moe_layer_freq": 1, "q_lora_rank": 1536},
    moe=True,
    latent=True,
    shared=("n_shared_experts",),
)
_INDEX = {"index_n_heads": 64, "index_head_dim": 128, "index_topk": 2048}
_GLM = Family(
    defaults=_UNTIED | {"attention_bias": True, "num_key_value_heads": 2, "head_dim": 128},
    qkv_bias="attention_bias",
)
_MISTRAL = Family(defaults=_UNTIED, reach="all")

_SHARED_WIDTH = ("shared_expert_intermediate_size",)
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
    "arcee": replace(_LLAMA, gated=False),
    "bamba": Family(
        defaults=_UNTIED | _NO_BIAS | {"mlp_bias": False, "mamba_proj_bias": False},
        qkv_bias="attention_bias", output_bias="attention_bias", ffn_bias="mlp_bias", linear="mamba2",
    ),
    "granitemoehybrid": Family(
        defaults=_UNTIED | _NO_BIAS | {"mamba_proj_bias": False, "mamba_n_groups": 1, "mamba_d_conv": 4},
        qkv_bias="attention_bias", output_bias="attention_bias", moe=True,
        shared=("shared_intermediate_size",), dense_inner="shared_intermediate_size", linear="mamba2",
    ),
    "kimi_linear": Family(
        defaults=_UNTIED | _NO_BIAS | {"first_k_dense_replace": 1}, moe=True, latent=True,
        shared=("num_shared_experts", "n_shared_experts"), linear="kimi-delta",
    ),
    "minimax": Family(defaults=_UNTIED, moe=True, linear="lightning", fixed={"sliding_window": None}),
    "nemotron_h": Family(
        defaults=_UNTIED
        | {
            "mlp_bias": False, "use_bias": False, "num_key_value_heads": 8, "head_dim": 128, "n_groups": 8,
            "conv_kernel": 4, "chunk_size": 128, "ssm_state_size": 128,
        },
        ffn_bias="mlp_bias", gated=False, moe=True, shared=("moe_shared_expert_intermediate_size",),
        linear="mamba2", single=True, norms=1,
    ),
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
        shared=("n_shared_experts",), reach="flag",
    ),
    "ernie4_5": Family(
        defaults=_TIED | {"use_bias": False, "head_dim": 128}, qkv_bias="use_bias", output_bias="use_bias",
        ffn_bias="use_bias",
    ),
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
    "glm": _GLM,
    "glm4": replace(_GLM, norms=4),
    "glm4_moe": Family(
        defaults=_UNTIED | _NO_BIAS | {"first_k_dense_replace": 1, "use_qk_norm": False},
        qkv_bias="attention_bias",
        qk_norm="head",
        moe=True,
        shared=("n_shared_experts",),
    ),
    "glm4_moe_lite": replace(
        _DEEPSEEK, defaults=dict(_DEEPSEEK.defaults) | {"first_k_dense_replace": 1, "q_lora_rank": 768}
    ),
    "gpt2": Family(
        defaults=_TIED, qkv_bias=True, output_bias=True, ffn_bias=True, norm="layernorm", gated=False,
        learned_positions=True, dense_inner="n_inner",
    ),
    "gpt_oss": Family(
        defaults=_UNTIED | {"attention_bias": True, "sliding_window_pattern": 2},
        qkv_bias="attention_bias", output_bias="attention_bias", moe=True, expert_bias=True,
        router_bias=True, sinks=True, reach="every",
    ),
    "granite": _LLAMA,
    "hunyuan_v1_dense": Family(
        defaults=_UNTIED | _NO_BIAS, qkv_bias="attention_bias", output_bias="attention_bias", qk_norm="head",
    ),
    "internlm": replace(_LLAMA, defaults=_UNTIED | {"bias": True}, qkv_bias="bias", output_bias="bias",
                        ffn_bias=False),
    "internlm2": replace(_LLAMA, defaults=_UNTIED | {"bias": True}, qkv_bias="bias", output_bias="bias",
                         ffn_bias=False),
    "kimi_k2": _DEEPSEEK,
    "llama": _LLAMA,
    "llama4_text": Family(
        defaults=_UNTIED | _NO_BIAS | {"interleave_moe_layer_step": 1, "no_rope_layer_interval": 4},
        qkv_bias="attention_bias", output_bias="attention_bias", moe=True, shared=("intermediate_size",),
        reach="chunk", dense_inner="intermediate_size_mlp",
    ),
    "longcat_flash": Family(
        defaults=_UNTIED | _NO_BIAS | {"q_lora_rank": 1536, "zero_expert_num": 256, "router_bias": False},
        moe=True, latent=True, shared=("ffn_hidden_size",), dense_inner="ffn_hidden_size", paired=True,
        fixed={"router_bias": False}, words={"zero_expert_type": "identity", "attention_method": "MLA"},
    ),
    "mimo": replace(
        _QWEN2, defaults=dict(_QWEN2.defaults) | {"attention_bias": True}, qkv_bias="attention_bias"
    ),
    "mimo_v2_flash": Family(defaults=_UNTIED | _NO_BIAS, qkv_bias="attention_bias", moe=True, reach="hybrid"),
    "minimax_m2": Family(defaults=_UNTIED, qk_norm="full", moe=True, shared=("shared_intermediate_size",)),
    "ministral": _MISTRAL,
    "mistral": _MISTRAL,
    "mixtral": Family(defaults=_UNTIED, moe=True, reach="all"),
    "olmo2": _OLMO2,
    "olmo3": replace(_OLMO2, defaults=dict(_OLMO2.defaults) | {"sliding_window_pattern": 4}, reach="every"),
    "olmoe": replace(_OLMO2, moe=True),
    "opt": Family(
        defaults=_TIED | {"enable_bias": True}, qkv_bias="enable_bias", output_bias="enable_bias",
        ffn_bias="enable_bias", norm="layernorm", gated=False, learned_positions=True, dense_inner="ffn_dim",
        spare_positions=2,
        fixed={"do_layer_norm_before": True, "_remove_final_layer_norm": False,
               "layer_norm_elementwise_affine": True, "word_embed_proj_dim": "hidden_size"},
    ),
    "phi3": Family(defaults=_UNTIED, reach="all"),
    "qwen2": _QWEN2,
    "qwen2_moe": replace(
        _QWEN2, defaults=dict(_QWEN2.defaults) | _SPARSE_QWEN | {"qkv_bias": True}, qkv_bias="qkv_bias",
        moe=True, shared=("shared_expert_intermediate_size",), shared_gate=True,
    ),
    "qwen3": _QWEN3,
    "qwen2_vl_text": _QWEN2,
    "qwen2_5_vl_text": _QWEN2,
    "qwen3_vl_text": _QWEN3,
    "qwen3_vl_moe_text": replace(_QWEN3, defaults=dict(_QWEN3.defaults) | _SPARSE_QWEN, moe=True),
    "qwen3_5_text": _QWEN3_LINEAR,
    "qwen3_5_moe_text": replace(_QWEN3_LINEAR, moe=True, shared=_SHARED_WIDTH, shared_gate=True),
    "qwen3_next": replace(
        _QWEN3_LINEAR, defaults=dict(_QWEN3_LINEAR.defaults) | _SPARSE_QWEN, moe=True, shared=_SHARED_WIDTH,
        shared_gate=True,
    ),
    "qwen3_moe": replace(_QWEN3, defaults=dict(_QWEN3.defaults) | _SPARSE_QWEN, moe=True),
    "seed_oss": Family(
        defaults=_UNTIED | {"attention_bias": True, "attention_out_bias": False, "mlp_bias": False},
        qkv_bias="attention_bias", output_bias="attention_out_bias", ffn_bias="mlp_bias",
    ),
    "smollm3": replace(
        _LLAMA, defaults=dict(_LLAMA.defaults) | _TIED | {"no_rope_layer_interval": 4}, reach="bare",
        fixed={"use_sliding_window": False},
    ),
    "solar_open": Family(
        defaults=_UNTIED | _NO_BIAS | {"head_dim": 128}, qkv_bias="attention_bias", moe=True,
        shared=("n_shared_experts",),
    ),
    "stablelm": Family(
        defaults=_UNTIED | {"use_qkv_bias": False}, qkv_bias="use_qkv_bias", norm="layernorm",
        fixed={"use_parallel_residual": False, "qk_layernorm": False},
    ),
    "starcoder2": Family(
        defaults=_TIED | {"use_bias": True}, qkv_bias="use_bias", output_bias="use_bias", ffn_bias="use_bias",
        norm="layernorm", gated=False, reach="all",
    ),
}  # fmt: skip
"""Model type to what its code does."""

WRAPPERS: Final[Mapping[str, str]] = {
    "llava": "llama",
    "llava_next": "llama",
    "llava_onevision": "qwen2",
    "qwen2_vl": "qwen2_vl_text",
    "qwen2_5_vl": "qwen2_5_vl_text",
    "qwen3_vl": "qwen3_vl_text",
    "qwen3_vl_moe": "qwen3_vl_moe_text",
    "qwen3_5": "qwen3_5_text",
    "qwen3_5_moe": "qwen3_5_moe_text",
    "gemma3": "gemma3_text",
    "kimi_k25": "kimi_k2",
    "llama4": "llama4_text",
    "mistral3": "mistral",
}
"""Types of configs that hold the language model in ``text_config``, each with the type meant there."""

REFUSED: Final[Mapping[str, str]] = {
    "attn_output_gate": "an output gate in its attention",
    "attention_output_gate": "an output gate in its attention",
    "attn_res_block_size": "attention over the residuals of blocks",
    "attention_k_eq_v": "keys that are also values",
    "block_configs": "a block of its own for each layer, found by architecture search",
    "compress_ratios": "compressed keys and values",
    "enable_moe_block": "experts beside a dense feed-forward",
    "full_attention_interval": "linear attention",
    "global_head_dim": "heads of several widths",
    "hc_mult": "hyper-connections",
    "hybrid_override_pattern": "state-space layers",
    "hidden_size_per_layer_input": "embeddings for each layer",
    "index_head_dim": "an indexer that picks the keys",
    "index_topk": "an indexer that picks the keys",
    "layers_block_type": "state-space layers",
    "linear_attn_config": "linear attention",
    "linear_num_key_heads": "linear attention",
    "mamba_num_heads": "state-space layers",
    "moe_latent_size": "experts in a latent space",
    "num_kv_shared_layers": "keys and values shared between layers",
    "routed_expert_hidden_size": "experts in a latent space",
    "sparse_attention_config": "an indexer that picks the keys",
    "ssm_state_size": "state-space layers",
    "zero_expert_num": "experts that compute nothing",
    "use_head_wise_attn_gate": "an output gate in its attention",
    "is_encoder_decoder": "an encoder",
}
"""Keys that, where they are set, mean what the model record cannot express, each with what that is."""
