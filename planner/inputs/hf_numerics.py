"""What a ``config.json`` says beside shapes: positions, norms, scales, router, initialiser.

A key that is absent has the value of the type's configuration class, as in transformers' own models. Read in
huggingface/transformers v5.23.0, ``src/transformers/models/<type>/configuration_*.py`` and, for what no key
says, ``modeling_*.py``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from planner.inputs.hf_fields import Config

_FLOAT = "a number above 0"
_RMS_5: Final = {"rms_norm_eps": 1e-5}
_SOFTMAX: Final = {"score": "softmax"}
_SIGMOID: Final = {"score": "sigmoid", "expert_bias": True}
_ONE_GROUP: Final = {"n_group": 1, "topk_group": 1}

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
    "starcoder2": {"initializer_range": 0.018042, "hidden_act": "gelu_pytorch_tanh"},
    "gpt2": {"hidden_act": "gelu_new"},
    "glm": {"rms_norm_eps": 1.5625e-07, "partial_rotary_factor": 0.5},
    "glm4": {"rms_norm_eps": 1.5625e-07, "partial_rotary_factor": 0.5},
    "deepseek": {"norm_topk_prob": False, "aux_loss_alpha": 0.001, "seq_aux": True},
    "opt": {"hidden_act": "relu"},
    "smollm3": {"rope_theta": 2000000.0},
    "stablelm": {"layer_norm_eps": 1e-5, "partial_rotary_factor": 0.25},
    "qwen3_next": {
        "partial_rotary_factor": 0.25, "router_aux_loss_coef": 0.001, "norm_topk_prob": True,
    },
    "qwen3_5_text": {"partial_rotary_factor": 0.25},
    "qwen3_5_moe_text": {"partial_rotary_factor": 0.25, "router_aux_loss_coef": 0.001},
    "bamba": {**_RMS_5, "partial_rotary_factor": 0.5},
    "granitemoehybrid": {"router_aux_loss_coef": 0.001},
    "kimi_linear": {**_RMS_5, "routed_scaling_factor": 2.446, "moe_renormalize": True},
    "minimax": {**_RMS_5, "rope_theta": 1e6, "router_aux_loss_coef": 0.001},
    "nemotron_h": {
        "mlp_hidden_act": "relu2", "n_group": 1, "topk_group": 1, "routed_scaling_factor": 1.0,
        "norm_topk_prob": True,
    },
}  # fmt: skip
"""Values of a type that are not those of ``_COMMON``."""

_COMMON: Final = {
    "rope_theta": 10000.0, "rms_norm_eps": 1e-6, "layer_norm_epsilon": 1e-5, "initializer_range": 0.02,
    "hidden_act": "silu",
}  # fmt: skip

_ROUTERS: Final[Mapping[str, Mapping[str, Any]]] = {
    "longcat_flash": _SOFTMAX | {"expert_bias": True, "normalize": False},
    "mixtral": _SOFTMAX | {"normalize": True},
    "qwen2_moe": _SOFTMAX,
    "qwen3_vl_moe_text": _SOFTMAX | {"normalize": True},
    "qwen3_moe": _SOFTMAX,
    "olmoe": _SOFTMAX,
    "gpt_oss": _SOFTMAX | {"normalize": True},
    "deepseek": _SOFTMAX,
    "deepseek_v2": _SOFTMAX,
    "deepseek_v3": _SIGMOID,
    "deepseek_v32": _SIGMOID,
    "glm_moe_dsa": _SIGMOID,
    "kimi_k2": _SIGMOID,
    "glm4_moe": _SIGMOID,
    "dots1": _SIGMOID,
    "glm4_moe_lite": _SIGMOID,
    "solar_open": _SIGMOID,
    "minimax_m2": _SIGMOID | {"normalize": True},
    "mimo_v2_flash": _SIGMOID,
    "llama4_text": {"score": "sigmoid", "normalize": False},
    "qwen3_next": _SOFTMAX,
    "qwen3_5_moe_text": _SOFTMAX | {"normalize": True},
    "granitemoehybrid": _SOFTMAX | {"normalize": True},
    "kimi_linear": _SIGMOID,
    "minimax": _SOFTMAX | {"normalize": True},
    "nemotron_h": _SIGMOID,
}
"""What the code of a type does with the scores of its router, where no key says it."""

_EPSILONS: Final = {
    **dict.fromkeys(("gpt2", "opt", "starcoder2"), ("layer_norm_epsilon", "norm_epsilon")),
    "stablelm": ("layer_norm_eps",),
    "nemotron_h": ("layer_norm_epsilon",),
}
"""Keys of what layer norms add, of types that do not say ``rms_norm_eps``."""

_ACTIVATIONS: Final = {
    "silu": "silu", "swish": "silu", "gelu": "gelu", "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_new": "gelu_tanh", "gelu_fast": "gelu_tanh", "relu": "relu", "relu2": "relu2",
    "quick_gelu": "quick_gelu",
}  # fmt: skip

_ROPE_KINDS: Final = {"su": "longrope"} | {
    kind: kind for kind in ("linear", "dynamic", "yarn", "llama3", "longrope")
}
_ROPE_KEYS: Final = {
    "factor": "factor",
    "original_positions": "original_max_position_embeddings",
    "low_freq_factor": "low_freq_factor",
    "high_freq_factor": "high_freq_factor",
    "beta_fast": "beta_fast",
    "beta_slow": "beta_slow",
    "mscale": "mscale",
    "mscale_all_dim": "mscale_all_dim",
    "attention_factor": "attention_factor",
    "truncate": "truncate",
    "short_factor": "short_factor",
    "long_factor": "long_factor",
}
_SCALES: Final = {
    "attention_softcap": "attn_logit_softcapping",
    "logit_softcap": "final_logit_softcapping",
    "attention_scale": "attention_multiplier",
    "embedding_scale": "embedding_multiplier",
    "residual_scale": "residual_multiplier",
}


def numerics(config: Config, kind: str, rotary: bool, sparse: bool) -> dict[str, Any]:
    """Return the fields of `Numerics` for a config of the model type ``kind``; faults go to ``config``."""
    own = _Keys(config, {**_COMMON, **DEFAULTS.get(kind, {})})
    record: dict[str, Any] = {
        "norm_epsilon": own.number(*_EPSILONS.get(kind, ("rms_norm_eps", "layernorm_epsilon"))),
        "init_std": own.number("initializer_range", "init_std"),
        "activation": _activation(own, kind),
    }
    record |= _positions(own) if rotary else {}
    record |= {field: own.number(key) for field, key in _SCALES.items()}
    logits, width = own.number("logits_scaling"), own.number("query_pre_attn_scalar")
    if logits:
        record["logit_scale"] = 1 / logits
    if width:
        record["attention_scale"] = width**-0.5
    if kind.startswith("gemma"):
        record["embedding_scale"] = math.sqrt(config.whole("hidden_size"))
    if sparse:
        record["router"] = _router(own, kind)
    ones = ("embedding_scale", "residual_scale", "logit_scale")
    return {
        key: value for key, value in record.items() if value is not None and not (key in ones and value == 1)
    }


class _Keys:
    """Keys of a config with the type's own defaults, which are not notes."""

    def __init__(self, config: Config, defaults: Mapping[str, Any]) -> None:
        self.config, self.defaults = config, defaults

    def value(self, *names: str) -> Any:
        """The first of ``names`` that is set, else the default of the first, else nothing."""
        raw = self.config.raw
        found = next((raw[name] for name in names if raw.get(name) is not None), None)
        absent = not any(name in raw for name in names)
        return self.defaults.get(names[0]) if found is None and absent else found

    def number(self, *names: str) -> float | None:
        """A number above 0, or nothing; anything else is a fault."""
        return self.checked(names[0], self.value(*names))

    def checked(self, name: str, value: Any) -> float | None:
        """``value`` if it is a finite number above 0, or a fault under ``name``."""
        if value is None:
            return None
        plain = isinstance(value, int | float) and not isinstance(value, bool)
        if not plain or not math.isfinite(value) or not 0 < value <= 1e15:
            self.config.fault(name, repr(value), _FLOAT)
            return None
        return float(value)


def _activation(own: _Keys, kind: str) -> str | None:
    if kind == "gpt_oss":
        return "swiglu_oai"
    if kind == "nemotron_h":
        return _ACTIVATIONS.get(str(own.value("mlp_hidden_act")))
    said = own.value("hidden_activation", "hidden_act", "activation_function") or own.value("hidden_act")
    known = _ACTIVATIONS.get(str(said))
    if known is None:
        own.config.fault("hidden_act", repr(said), f"one of {', '.join(_ACTIVATIONS)}")
    return known


def _positions(own: _Keys) -> dict[str, Any]:
    """Base, share and stretching of rotary positions, under the keys of transformers 4 or of 5."""
    raw = own.config.raw
    told = raw.get("rope_parameters")
    each = told if isinstance(told, dict) else {}
    if isinstance(each.get("full_attention"), dict):
        near, each = each.get("sliding_attention"), each["full_attention"]
        local = near.get("rope_theta") if isinstance(near, dict) else None
    else:
        local = own.value("rope_local_base_freq", "swa_rope_theta")
    old = raw.get("rope_scaling")
    scaling = old if isinstance(old, dict) else each
    theta = own.checked("rope_theta", each.get("rope_theta", own.value("rope_theta")))
    share = own.checked(
        "partial_rotary_factor", each.get("partial_rotary_factor", own.value("partial_rotary_factor"))
    )
    if share is None and (turned := own.checked("rotary_dim", raw.get("rotary_dim"))) is not None:
        share = turned / _head_width(own)
    local = own.checked("rope_local_base_freq", local)
    if share is not None and share > 1:
        own.config.fault("partial_rotary_factor", share, "at most 1")
        share = None
    return {
        "rope_theta": theta,
        "local_rope_theta": None if local == theta else local,
        "rope_fraction": None if share == 1 else share,
        "rope_scaling": _scaling(own, scaling),
    }


def _head_width(own: _Keys) -> float:
    """Width of a head, of which ``rotary_dim`` says how much has positions (MiniMax-M2, GPT-J)."""
    said = own.number("head_dim")
    hidden, heads = own.number("hidden_size", "n_embd"), own.number("num_attention_heads", "n_head")
    return said or ((hidden or 1.0) / (heads or 1.0))


def _scaling(own: _Keys, said: Mapping[str, Any]) -> dict[str, Any] | None:
    word = str(said.get("rope_type", said.get("type", "default")))
    if word in ("default", "mrope") or not said:
        return None
    if word not in _ROPE_KINDS:
        own.config.fault("rope_scaling", word[:40], f"one of default, {', '.join(_ROPE_KINDS)}")
        return None
    found = {field: said[key] for field, key in _ROPE_KEYS.items() if said.get(key) is not None}
    if "original_positions" not in found and _ROPE_KINDS[word] == "longrope":
        found["original_positions"] = own.config.raw.get("original_max_position_embeddings")
    return {"kind": _ROPE_KINDS[word]} | {key: value for key, value in found.items() if value is not None}


def _router(own: _Keys, kind: str) -> dict[str, Any]:
    record = dict(_ROUTERS.get(kind, {}))
    score = own.value("scoring_func")
    if score in ("softmax", "sigmoid"):
        record["score"] = score
    elif score is not None:
        own.config.fault("scoring_func", repr(score), "softmax or sigmoid")
    grouped = own.value("topk_method") not in ("greedy", None) or kind != "deepseek_v2"
    groups = own.config.whole("n_group", otherwise=int(own.defaults.get("n_group", 1)))
    if grouped and groups > 1:
        record["groups"] = groups
        record["top_groups"] = own.config.whole(
            "topk_group", otherwise=int(own.defaults.get("topk_group", 1))
        )
    normal = own.value("moe_renormalize" if kind == "kimi_linear" else "norm_topk_prob")
    if isinstance(normal, bool) and "normalize" not in record:
        record["normalize"] = normal
    scale = own.number("routed_scaling_factor")
    loss = own.value("router_aux_loss_coef", "aux_loss_alpha")
    record |= {} if scale in (None, 1) else {"scale": scale}
    record |= (
        {} if loss is None else {"aux_loss": 0.0 if loss == 0 else own.checked("router_aux_loss_coef", loss)}
    )
    if own.value("seq_aux") is True and record.get("aux_loss"):
        record["per_sequence"] = True
    return {key: value for key, value in record.items() if value is not None}
