"""Defaults of what changes a model's function, by model type: positions, norms, scales, routers.

Read in huggingface/transformers v5.23.0 and v5.24.0,
``src/transformers/models/<type>/configuration_*.py`` and, for what no key says, ``modeling_*.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_RMS_5: Final = {"rms_norm_eps": 1e-5}
_SOFTMAX: Final = {"score": "softmax"}
_SIGMOID: Final = {"score": "sigmoid", "expert_bias": True}
_GRANITE: Final = {"attention_multiplier": 1.0}
_ONE_GROUP: Final = {"n_group": 1, "topk_group": 1}

_GEMMA4: Final = {
    "rope_theta": 1e6, "hidden_activation": "gelu_pytorch_tanh", "attention_multiplier": 1.0,
}  # fmt: skip


DEFAULTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "longcat_flash": {"rope_theta": 1e7, **_RMS_5, "routed_scaling_factor": 6.0},
    "mixtral": {"rope_theta": 1e6, **_RMS_5, "router_aux_loss_coef": 0.001},
    "qwen2_moe": {"router_aux_loss_coef": 0.001, "norm_topk_prob": False},
    "qwen3_moe": {"router_aux_loss_coef": 0.001, "norm_topk_prob": False},
    "deepseek_v2": {"norm_topk_prob": False, "routed_scaling_factor": 1.0},
    "deepseek_v3": {"n_group": 8, "topk_group": 4, "routed_scaling_factor": 2.5, "norm_topk_prob": True},
    "glm_moe_dsa": {"n_group": 1, "topk_group": 1, "routed_scaling_factor": 2.5, "norm_topk_prob": True},
    "deepseek_v32": {"n_group": 8, "topk_group": 4, "routed_scaling_factor": 2.5, "norm_topk_prob": True},
    "kimi_k2": {"n_group": 8, "topk_group": 4, "routed_scaling_factor": 2.5, "norm_topk_prob": True},
    "gemma": {"hidden_act": "gelu_pytorch_tanh"},
    "gemma2": {
        "hidden_activation": "gelu_pytorch_tanh", "attn_logit_softcapping": 50.0,
        "final_logit_softcapping": 30.0, "query_pre_attn_scalar": 256,
    },
    "gemma3_text": {
        "rope_theta": 1e6, "rope_local_base_freq": 10000.0, "hidden_activation": "gelu_pytorch_tanh",
        "query_pre_attn_scalar": 256,
    },
    "gemma4_text": _GEMMA4,
    "gemma4_unified_text": _GEMMA4,
    "gpt_oss": {"rope_theta": 150000.0, **_RMS_5, "router_aux_loss_coef": 0.001},
    "olmo2": _RMS_5,
    "olmo3": {"rope_theta": 500000.0, **_RMS_5},
    "olmoe": {**_RMS_5, "router_aux_loss_coef": 0.01, "norm_topk_prob": False},
    "phi3": _RMS_5,
    "arcee": {**_RMS_5, "hidden_act": "relu2"},
    "ernie4_5": {**_RMS_5, "rope_theta": 500000.0},
    "hunyuan_v1_dense": _RMS_5,
    "dots1": _ONE_GROUP | {"routed_scaling_factor": 1.0, "norm_topk_prob": False},
    "glm4_moe_lite": _ONE_GROUP | _RMS_5 | {"routed_scaling_factor": 1.8, "norm_topk_prob": True},
    "solar_open": _ONE_GROUP
    | _RMS_5
    | {"rope_theta": 1e6, "routed_scaling_factor": 1.0, "norm_topk_prob": True},
    "glm4_moe": {
        **_RMS_5, "partial_rotary_factor": 0.5, "n_group": 1, "topk_group": 1, "routed_scaling_factor": 1.0,
        "norm_topk_prob": True,
    },
    "llama4_text": {"rope_theta": 500000.0, **_RMS_5, "router_aux_loss_coef": 0.001},
    "minimax_m2": {"rope_theta": 5e6, "router_aux_loss_coef": 0.001},
    "minimax_m3_vl_text": {"rope_theta": 5e6, "router_aux_loss_coef": 0.001, "routed_scaling_factor": 2.0},
    "starcoder2": {"initializer_range": 0.018042, "hidden_act": "gelu_pytorch_tanh"},
    "gpt2": {"hidden_act": "gelu_new"},
    "glm": {"rms_norm_eps": 1.5625e-07, "partial_rotary_factor": 0.5},
    "glm4": {"rms_norm_eps": 1.5625e-07, "partial_rotary_factor": 0.5},
    "deepseek": {"norm_topk_prob": False, "aux_loss_alpha": 0.001, "seq_aux": True},
    "opt": {"hidden_act": "relu"},
    "smollm3": {"rope_theta": 2000000.0},
    "afmoe": _RMS_5 | {"routed_scaling_factor": 1.0},
    "apertus": _RMS_5 | {"hidden_act": "xielu", "rope_theta": 12e6},
    "biogpt": {"layer_norm_eps": 1e-12, "hidden_act": "gelu"},
    "bloom": {"layer_norm_epsilon": 1e-5, "hidden_act": "gelu_new"},
    "codegen": {"hidden_act": "gelu_new"},
    "cohere": {"rope_theta": 500000.0, "layer_norm_eps": 1e-5, "logit_scale": 0.0625},
    "cohere2": {"layer_norm_eps": 1e-5, "logit_scale": 0.0625},
    "cohere2_moe": {"layer_norm_eps": 1e-5, "logit_scale": 0.0625, "norm_topk_prob": True,
                    "scoring_func": "softmax"},
    "cwm": _RMS_5 | {"rope_theta": 1e6},
    "dbrx": {"layer_norm_eps": 1e-5, "router_aux_loss_coef": 0.01},
    "ernie4_5_moe": _RMS_5 | {"rope_theta": 500000.0, "router_aux_loss_coef": 0.001},
    "exaone4": _RMS_5,
    "exaone_moe": _RMS_5 | _ONE_GROUP | {"routed_scaling_factor": 2.5, "norm_topk_prob": True},
    "falcon": {"hidden_act": "gelu"},
    "flex_olmo": {"rope_theta": 500000.0, "router_aux_loss_coef": 0.01, "norm_topk_prob": False},
    "flint": {"router_aux_loss_coef": 0.0005, "norm_topk_prob": True},
    "gpt_bigcode": {"hidden_act": "gelu_pytorch_tanh"},
    "gpt_neo": {"hidden_act": "gelu_new", "attention_multiplier": 1.0},
    "gpt_neox": {"layer_norm_eps": 1e-5, "hidden_act": "gelu", "partial_rotary_factor": 0.25},
    "gptj": {"hidden_act": "gelu_new"},
    "granite": _GRANITE,
    "granite4_vision_text": _GRANITE,
    "granite_docling_text": _RMS_5 | {
        "attention_multiplier": 0.015625, "embedding_multiplier": 12.0, "logits_scaling": 4.0,
        "residual_multiplier": 0.263,
    },
    "apertus1p5_text": _RMS_5 | {"hidden_act": "xielu", "rope_theta": 12e6},
    "cosmos3_edge_text": _RMS_5 | {"hidden_act": "relu2", "rope_theta": 1e8},
    "deepseek_ocr2_text": {"norm_topk_prob": False, "routed_scaling_factor": 1.0},
    "emu3_text_model": _RMS_5 | {"rope_theta": 1e6},
    "exaone": _RMS_5 | {"rope_theta": 500000.0},
    "glm4v_text": _RMS_5,
    "glm4v_moe_text": _ONE_GROUP | _RMS_5 | {
        "partial_rotary_factor": 0.5, "routed_scaling_factor": 1.0, "norm_topk_prob": True,
        "router_aux_loss_coef": 0.0001,
    },
    "glm_ocr_text": _RMS_5,
    "hunyuan_vl_text": _RMS_5,
    "internlm3": _RMS_5,
    "iquestcoder": _RMS_5,
    "mistral4": _ONE_GROUP | {"routed_scaling_factor": 1.0, "norm_topk_prob": True},
    "paddleocr_vl_text": _RMS_5 | {"rope_theta": 500000.0},
    "qwen2_5_omni_text": {"rope_theta": 1e6},
    "qwen3_omni_moe_text": {"rope_theta": 1e6, "router_aux_loss_coef": 0.001, "norm_topk_prob": True},
    "sarvam_mla": _ONE_GROUP | {"routed_scaling_factor": 2.5, "norm_topk_prob": True},
    "sarvam_moe": _ONE_GROUP | {
        "rope_theta": 8e6, "routed_scaling_factor": 2.5, "norm_topk_prob": True,
    },
    "granitemoe": _GRANITE | {"router_aux_loss_coef": 0.001},
    "granitemoeshared": _GRANITE | {"router_aux_loss_coef": 0.001},
    "helium": {"rms_norm_eps": 1e-8, "rope_theta": 100000.0},
    "hunyuan_v1_moe": _RMS_5,
    "hy_v3": _RMS_5 | {"rope_theta": 11158840.0, "routed_scaling_factor": 1.0},
    "jais2": {"layer_norm_eps": 1e-5, "hidden_act": "relu2"},
    "mellum": {"router_aux_loss_coef": 0.001, "norm_topk_prob": True},
    "minicpm3": _RMS_5,
    "ministral3": _RMS_5,
    "mpt": {"hidden_act": "gelu"},
    "nanochat": {"hidden_act": "relu2", "final_logit_softcapping": 15.0},
    "nemotron": {"hidden_act": "relu2", "norm_eps": 1e-5, "partial_rotary_factor": 0.5},
    "olmo": {"norm_eps": 1e-5},
    "persimmon": {"hidden_act": "relu2", "layer_norm_eps": 1e-5, "partial_rotary_factor": 0.5},
    "phi": {"hidden_act": "gelu_new", "layer_norm_eps": 1e-5, "partial_rotary_factor": 0.5},
    "phimoe": _RMS_5 | {"rope_theta": 1e6, "router_aux_loss_coef": 0.001},
    "vaultgemma": {
        "hidden_activation": "gelu_pytorch_tanh", "attn_logit_softcapping": 50.0,
        "final_logit_softcapping": 30.0, "query_pre_attn_scalar": 256,
    },
    "stablelm": {"layer_norm_eps": 1e-5, "partial_rotary_factor": 0.25},
    "qwen3_next": {
        "partial_rotary_factor": 0.25, "router_aux_loss_coef": 0.001, "norm_topk_prob": True,
    },
    "qwen3_5_text": {"partial_rotary_factor": 0.25},
    "qwen3_5_moe_text": {"partial_rotary_factor": 0.25, "router_aux_loss_coef": 0.001},
    "bamba": {**_RMS_5, "partial_rotary_factor": 0.5},
    "falcon_h1": _RMS_5,
    "granitemoehybrid": {"router_aux_loss_coef": 0.001},
    "kimi_linear": {**_RMS_5, "routed_scaling_factor": 2.446, "moe_renormalize": True},
    "minimax": {**_RMS_5, "rope_theta": 1e6, "router_aux_loss_coef": 0.001},
    "lfm2": {"norm_eps": 1e-5, "rope_theta": 1e6},
    "lfm3": {"norm_eps": 1e-5, "rope_theta": 1e6},
    "laguna": {"rope_theta": 500000.0, "router_aux_loss_coef": 0.001, "routed_scaling_factor": 1.0},
    "lfm2_moe": {"norm_eps": 1e-5, "rope_theta": 1e6, "routed_scaling_factor": 1.0, "norm_topk_prob": True},
    "jamba": {"router_aux_loss_coef": 0.001},
    "mamba": {"initializer_range": 0.1},
    "falcon_mamba": {"initializer_range": 0.1},
    "nemotron_h": {
        "mlp_hidden_act": "relu2", "n_group": 1, "topk_group": 1, "routed_scaling_factor": 1.0,
        "norm_topk_prob": True,
    },
}  # fmt: skip
"""Values of a type that are not those of ``COMMON``."""

COMMON: Final = {
    "rope_theta": 10000.0, "rms_norm_eps": 1e-6, "layer_norm_epsilon": 1e-5, "initializer_range": 0.02,
    "hidden_act": "silu",
}  # fmt: skip

_BY_ROUTER: Final[tuple[tuple[Mapping[str, Any], str], ...]] = (
    (_SOFTMAX | {"expert_bias": True, "normalize": False}, "longcat_flash"),
    (_SOFTMAX | {"normalize": True}, (
        "mixtral qwen3_vl_moe_text gemma4_text gpt_oss qwen3_5_moe_text granitemoehybrid minimax aria_text "
        "dbrx granitemoe granitemoeshared hunyuan_v1_moe"
    )),
    (_SOFTMAX, (
        "qwen2_moe qwen3_moe olmoe deepseek deepseek_v2 qwen3_next deepseek_ocr2_text mistral4 "
        "qwen3_omni_moe_text flex_olmo flint mellum"
    )),
    (_SIGMOID, (
        "deepseek_v3 deepseek_v32 glm_moe_dsa kimi_k2 glm4_moe dots1 glm4_moe_lite solar_open mimo_v2_flash "
        "kimi_linear nemotron_h glm4v_moe_text sarvam_mla sarvam_moe exaone_moe lfm2_moe"
    )),
    (_SIGMOID | {"normalize": True}, "minimax_m2 minimax_m3_vl_text afmoe hy_v3 laguna"),
    ({"score": "sigmoid", "normalize": False}, "llama4_text"),
    (_SOFTMAX | {"expert_bias": True, "normalize": True}, "ernie4_5_moe"),
    (_SOFTMAX | {"normalize": False}, "jamba"),
)  # fmt: skip

ROUTERS: Final = {kind: router for router, kinds in _BY_ROUTER for kind in kinds.split()}
"""What the code of a type does with the scores of its router, where no key says it."""

_BY_EPSILON: Final = (
    (("layer_norm_epsilon", "norm_epsilon"),
     "gpt2 gpt-sw3 opt starcoder2 gptj codegen bloom falcon gpt_bigcode gpt_neo mpt"),
    (("layer_norm_eps",),
     "stablelm biogpt cohere cohere2 cohere2_moe dbrx gpt_neox jais2 persimmon phi"),
    (("rms_norm_eps", "layer_norm_epsilon"), "exaone"),
    (("norm_eps",), "nemotron olmo lfm2 lfm2_moe lfm3"),
    (("layer_norm_epsilon",), "nemotron_h mamba2 mamba falcon_mamba"),
)  # fmt: skip

EPSILONS: Final = {kind: keys for keys, kinds in _BY_EPSILON for kind in kinds.split()}
"""Keys of what layer norms add, of types that do not say ``rms_norm_eps``."""
