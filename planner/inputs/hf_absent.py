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
    "falcon_h1": {"projectors_bias": False, "mamba_proj_bias": False},
    "flint": {
        "num_key_value_heads": 4, "shared_expert_intermediate_size": 1024, "mlp_only_layers": [0, 1],
        "moe_intermediate_size": 512,
    },
    "gemma": {"num_key_value_heads": 16},
    "gemma4_text": {"num_key_value_heads": 4, "sliding_window": 512, "hidden_size_per_layer_input": 256},
    "glm4_moe": {"moe_intermediate_size": 1408, "n_shared_experts": 1},
    "glm4_moe_lite": {"moe_intermediate_size": 1536, "n_shared_experts": 1},
    "glm_moe_dsa": _DEEPSEEK,
    "granitemoehybrid": {"shared_intermediate_size": 1024, "num_local_experts": 8},
    "helium": {"num_key_value_heads": 20, "head_dim": 128},
    "hy_v3": {"moe_intermediate_size": 1536},
    "hyperclovax": {"use_post_norm": True},
    "internlm3": {"num_key_value_heads": 2},
    "jamba": {"num_experts": 16, "expert_layer_period": 2},
    "kimi_linear": {"moe_intermediate_size": 1024, "num_experts": 256, "num_shared_experts": 1},
    "laguna": {"moe_intermediate_size": 512, "shared_expert_intermediate_size": 512},
    "lfm2_moe": {"num_experts": 32, "moe_intermediate_size": 1792, "num_dense_layers": 2},
    "lfm3": {"num_key_value_heads": 4},
    "llama4_text": {"head_dim": 128},
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
    "nemotron_h": {"mamba_head_dim": 64, "moe_intermediate_size": 7688},
    "qwen2": {"num_key_value_heads": 32},
    "qwen2_moe": {"num_key_value_heads": 16, "moe_intermediate_size": 1408},
    "qwen3": {"num_key_value_heads": 32},
    "qwen3_5_moe_text": {"num_key_value_heads": 2},
    "qwen3_moe": {"moe_intermediate_size": 768},
    "qwen3_next": {"num_experts": 512, "moe_intermediate_size": 512, "num_key_value_heads": 2},
    "sarvam_mla": {"n_shared_experts": 1, "moe_intermediate_size": 2048},
    "sarvam_moe": {"num_key_value_heads": 4, "n_shared_experts": 1, "moe_intermediate_size": 1024},
    "solar_open": {"n_shared_experts": 1},
    "stablelm": {"num_key_value_heads": 32},
    "starcoder2": {"num_key_value_heads": 2},
    "vaultgemma": {"num_key_value_heads": 4},
}  # fmt: skip
"""Type to what its class takes for a key that is not there; ``null`` is a value."""


def filled(kind: str, text: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[str]]:
    """Return a config with what its class takes for keys that are not there, and a note for each.

    Examples
    --------
    >>> filled("qwen2", {"hidden_size": 896})[0]
    {'hidden_size': 896, 'num_key_value_heads': 32}
    """
    taken = {key: value for key, value in ABSENT.get(kind, {}).items() if key not in text}
    said = [f"{key} is absent: {value}, the default of the model type" for key, value in taken.items()]
    return dict(text) | taken, said
