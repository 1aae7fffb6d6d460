"""What a type's configuration class takes where a config leaves out a key that changes parameters.

Only what `planner.inputs.hf_family.Family` does not know: keys for which another, or none, would be read.
Read in huggingface/transformers v5.23.0, ``src/transformers/models/<type>/configuration_*.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_DEEPSEEK: Final = {"moe_intermediate_size": 2048, "n_shared_experts": 1}

ABSENT: Final[Mapping[str, Mapping[str, Any]]] = {
    "afmoe": {"num_shared_experts": 2, "num_dense_layers": 1, "moe_intermediate_size": 1408},
    "aria_text": {"moe_num_shared_experts": 2},
    "bamba": {"num_key_value_heads": 8},
    "cohere2_moe": {"head_dim": 128},
    "cwm": {"num_key_value_heads": 8},
    "deepseek_v2": {"moe_intermediate_size": 1407, "n_shared_experts": 2},
    "deepseek_v3": _DEEPSEEK | {"first_k_dense_replace": 3},
    "deepseek_v32": _DEEPSEEK,
    "dots1": {"num_key_value_heads": 32, "moe_intermediate_size": 1408},
    "ernie4_5": {"num_key_value_heads": 2},
    "ernie4_5_moe": {
        "num_key_value_heads": 4, "moe_num_shared_experts": 2, "moe_layer_start_index": 1,
        "moe_intermediate_size": 1536,
    },
    "exaone4": {"num_key_value_heads": 32},
    "exaone_moe": {"num_key_value_heads": 32, "num_shared_experts": 1, "moe_intermediate_size": 1024},
    "falcon_h1": {"num_key_value_heads": 8, "projectors_bias": False, "mamba_proj_bias": False},
    "flint": {
        "num_key_value_heads": 4, "shared_expert_intermediate_size": 1024, "mlp_only_layers": [0, 1],
        "moe_intermediate_size": 512,
    },
    "gemma": {"num_key_value_heads": 16},
    "gemma2": {"num_key_value_heads": 4},
    "gemma4_text": {"num_key_value_heads": 4, "sliding_window": 512, "hidden_size_per_layer_input": 256},
    "gemma4_unified_text": {"num_key_value_heads": 4},
    "glm4_moe": {"num_key_value_heads": 8, "moe_intermediate_size": 1408, "n_shared_experts": 1},
    "glm4_moe_lite": {"moe_intermediate_size": 1536, "n_shared_experts": 1},
    "glm_moe_dsa": _DEEPSEEK,
    "glm4v_text": {"num_key_value_heads": 2},
    "gpt_oss": {"num_key_value_heads": 8},
    "granitemoehybrid": {"shared_intermediate_size": 1024, "num_local_experts": 8},
    "helium": {"num_key_value_heads": 20, "head_dim": 128},
    "hy_v3": {"num_key_value_heads": 8, "moe_intermediate_size": 1536},
    "hyperclovax": {"use_post_norm": True},
    "internlm3": {"num_key_value_heads": 2},
    "iquestcoder": {"num_key_value_heads": 8},
    "jamba": {"num_key_value_heads": 8, "num_experts": 16, "expert_layer_period": 2},
    "kimi_linear": {"moe_intermediate_size": 1024, "num_experts": 256, "num_shared_experts": 1},
    "laguna": {"moe_intermediate_size": 512, "shared_expert_intermediate_size": 512},
    "lfm2": {"num_key_value_heads": 8},
    "lfm2_moe": {
        "num_key_value_heads": 8, "num_experts": 32, "moe_intermediate_size": 1792, "num_dense_layers": 2,
    },
    "lfm3": {"num_key_value_heads": 4},
    "llama4_text": {"num_key_value_heads": 8, "head_dim": 128},
    "mamba": {"state_size": 16, "expand": 2},
    "mamba2": {"n_groups": 8},
    "mellum": {"num_key_value_heads": 4, "moe_intermediate_size": 896},
    "mimo_v2_flash": {
        "num_key_value_heads": 4, "head_dim": 192, "v_head_dim": 128, "moe_intermediate_size": 2048,
        "sliding_window": 129,
    },
    "minimax": {"num_local_experts": 8, "num_key_value_heads": 8},
    "minimax_m2": {"num_key_value_heads": 8},
    "minimax_m3_vl_text": {"shared_intermediate_size": 3072},
    "ministral": {"num_key_value_heads": 8},
    "ministral3": {"num_key_value_heads": 8},
    "mistral": {"num_key_value_heads": 8},
    "mixtral": {"num_key_value_heads": 8},
    "nemotron_h": {"mamba_head_dim": 64, "moe_intermediate_size": 7688},
    "phimoe": {"num_key_value_heads": 8},
    "qwen2": {"num_key_value_heads": 32},
    "qwen2_5_vl_text": {"num_key_value_heads": 8},
    "qwen2_moe": {"num_key_value_heads": 16, "moe_intermediate_size": 1408},
    "qwen2_vl_text": {"num_key_value_heads": 8},
    "qwen3": {"num_key_value_heads": 32},
    "qwen3_5_moe_text": {"num_key_value_heads": 2},
    "qwen3_5_text": {"num_key_value_heads": 4},
    "qwen3_moe": {"num_key_value_heads": 4, "moe_intermediate_size": 768},
    "qwen3_next": {"num_experts": 512, "moe_intermediate_size": 512, "num_key_value_heads": 2},
    "qwen3_vl_text": {"num_key_value_heads": 32},
    "sarvam_mla": {"n_shared_experts": 1, "moe_intermediate_size": 2048},
    "sarvam_moe": {"num_key_value_heads": 4, "n_shared_experts": 1, "moe_intermediate_size": 1024},
    "seed_oss": {"num_key_value_heads": 8},
    "solar_open": {"num_key_value_heads": 8, "n_shared_experts": 1},
    "stablelm": {"num_key_value_heads": 32},
    "starcoder2": {"num_key_value_heads": 2},
    "vaultgemma": {"num_key_value_heads": 4},
}  # fmt: skip
"""Type to what its class takes for a key that is not there; ``null`` is a value."""


_SIZES: Final = (
    "num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size", "vocab_size",
    "max_position_embeddings",
)  # fmt: skip

SIZES: Final[Mapping[str, tuple[int, ...]]] = {
    "cohere2": (40, 8192, 64, 22528, 256000, 8192),
    "exaone4": (32, 4096, 32, 16384, 102400, 2048),
    "gemma": (28, 3072, 16, 24576, 256000, 8192),
    "gemma2": (26, 2304, 8, 9216, 256000, 8192),
    "gemma3_text": (26, 2304, 8, 9216, 262208, 131072),
    "glm4v_text": (40, 4096, 32, 13696, 151552, 32768),
    "granite": (32, 4096, 32, 11008, 32000, 2048),
    "hyperclovax": (32, 4096, 32, 11008, 32000, 2048),
    "lfm2": (32, 2560, 32, 12288, 65536, 128000),
    "llama": (32, 4096, 32, 11008, 32000, 2048),
    "mistral": (32, 4096, 32, 14336, 32000, 131072),
    "phi3": (32, 3072, 32, 8192, 32064, 4096),
    "qwen2": (32, 4096, 32, 22016, 151936, 32768),
    "qwen2_5_vl_text": (80, 8192, 64, 29568, 152064, 32768),
    "qwen2_vl_text": (80, 8192, 64, 29568, 152064, 32768),
    "qwen3": (32, 4096, 32, 22016, 151936, 32768),
    "qwen3_5_text": (32, 4096, 16, 12288, 248320, 32768),
    "qwen3_vl_text": (32, 4096, 32, 22016, 151936, 128000),
}
"""Type to its class's sizes, which older releases left out of the part of a config that is the language model
(LLaVA 1.5, say). A config that is a language model alone has to say them. [-]"""


def filled(kind: str, text: Mapping[str, Any], inside: bool) -> tuple[Mapping[str, Any], list[str]]:
    """Return a config with what its class takes for keys that are not there, and a note for each.

    It is ``inside`` where it is the language model of a config that has encoders too.

    Examples
    --------
    >>> filled("qwen2", {"hidden_size": 896}, inside=False)[0]
    {'hidden_size': 896, 'num_key_value_heads': 32}
    """
    known = dict(zip(_SIZES, SIZES.get(kind, ()), strict=False)) if inside else {}
    known |= ABSENT.get(kind, {})
    taken = {key: value for key, value in known.items() if key not in text}
    said = [f"{key} is absent: {value}, the default of the model type" for key, value in taken.items()]
    return dict(text) | taken, said
