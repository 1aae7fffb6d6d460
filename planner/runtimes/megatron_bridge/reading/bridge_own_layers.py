"""What a Python file of Megatron-Bridge says of a model whose layers are its provider's own.

Its fields become those of Megatron-core, and the record that is read from them gets what they leave out.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isclose, sqrt
from typing import Any, Final

from planner.inputs.hf_mixers import PREDICTED
from planner.runtimes.imports.python_fields import Fields
from planner.runtimes.megatron_bridge.own_kinds import PROVIDERS

KINDS: Final = {own.provider: kind for kind, own in PROVIDERS.items() if own.spec is None}
"""Classes of providers, and the types of model that they build."""

SPECS: Final = {own.spec[1]: kind for kind, own in PROVIDERS.items() if own.spec}
"""Functions that describe layers, and the types of model that have them."""

MODEL: Final = "ConfigContainer.model"
NORMS: Final = {"gemma2": 4, "gemma3": 4, "gemma4": 8}
"""Norms of a layer, where there are more than two."""

FULL, NEAR = "full_attention", "sliding_attention"

_SHAPE: Final = {
    "normalization": "RMSNorm", "gated_linear_unit": True, "add_bias_linear": False,
    "position_embedding_type": "rope",
}  # fmt: skip
_GEMMA: Final = _SHAPE | {
    "kv_channels": 256, "layernorm_epsilon": 1e-6, "share_embeddings_and_output_weights": True,
}  # fmt: skip
DEFAULTS: Final[Mapping[str, Fields]] = {
    "gemma": _GEMMA | {"rotary_base": 10000},
    "gemma2": _GEMMA | {
        "rotary_base": 10000, "window_size": (4095, 0), "query_pre_attn_scalar": 224,
        "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0,
    },
    "gemma3": _GEMMA | {
        "rotary_base": (10000, 1000000), "window_size": 512, "interleaved_attn_pattern": (5, 1),
        "qk_layernorm": True, "softmax_scale": 0.0625, "rope_scaling_factor": 1.0,
    },
    "gemma4": _SHAPE | {
        "rotary_base": (10000, 1000000), "window_size": 1024, "interleaved_attn_pattern": (5, 1),
        "kv_channels": 256, "num_query_groups": 8, "layernorm_epsilon": 1e-6, "qk_layernorm": True,
        "share_embeddings_and_output_weights": True, "softmax_scale": 1.0, "attention_k_eq_v": False,
        "global_head_dim": 512, "num_global_key_value_heads": 2, "global_rotary_percent": 0.25,
        "final_logit_softcapping": 30.0, "num_moe_experts": 128, "moe_router_topk": 8,
        "moe_ffn_hidden_size": 704, "moe_shared_expert_intermediate_size": 2112, "moe_layer_freq": 1,
        "moe_router_load_balancing_type": "aux_loss", "moe_aux_loss_coeff": 0.001,
    },
    "mimo_v2_flash": _SHAPE | {
        "rotary_base": (10000, 5000000), "window_size": 128, "full_attn_num_query_groups": 4,
        "swa_num_query_groups": 8, "v_head_dim": 128, "share_embeddings_and_output_weights": False,
    },
    "exaone_moe": _SHAPE | {
        "rotary_base": 1000000, "layernorm_epsilon": 1e-5, "kv_channels": 128, "qk_layernorm": True,
        "moe_router_pre_softmax": True, "moe_router_topk_scaling_factor": 2.5, "moe_router_dtype": "fp32",
        "moe_router_score_function": "sigmoid", "moe_router_enable_expert_bias": True,
        "moe_router_load_balancing_type": "global_aux_loss", "moe_aux_loss_coeff": 1e-2,
    },
    "mistral3": _SHAPE | {
        "rotary_base": 1000000, "layernorm_epsilon": 1e-5, "kv_channels": 128, "num_attention_heads": 32,
        "num_query_groups": 8, "position_embedding_type": "yarn", "yarn_rotary_scaling_factor": 16.0,
        "yarn_original_max_position_embeddings": 16384, "yarn_beta_fast": 32.0, "yarn_beta_slow": 1.0,
        "yarn_mscale": 1.0, "yarn_mscale_all_dim": 1.0, "yarn_correction_range_round_to_int": False,
    },
}  # fmt: skip
"""Fields of each class that a file may leave out (Megatron-Bridge 067f987d)."""

OWN: Final = (
    "interleaved_attn_pattern", "hybrid_attention_pattern", "query_pre_attn_scalar", "attn_logit_softcapping",
    "final_logit_softcapping", "rope_scaling_factor", "full_attn_num_query_groups", "swa_num_query_groups",
    "v_head_dim", "attention_value_scale", "softmax_scale", "sliding_windows", "layer_types",
    "mtp_layer_types", "mtp_sliding_windows", "global_head_dim", "num_global_key_value_heads",
    "global_rotary_percent", "attention_k_eq_v",
)  # fmt: skip
"""Fields that Megatron-core does not have, or that mean something else there."""


def kind_of(said: Fields) -> str:
    """Return the type of model that a file's provider builds of layers of its own; empty of any other."""
    spec = str(said.get(f"{MODEL}.transformer_layer_spec")).rpartition(".")[2]
    return SPECS.get(spec) or KINDS.get(str(said.get(MODEL)), "")


def core_layer_fields(said: Fields, fields: Fields) -> Fields:
    """Return the fields as Megatron-core's own provider would have them."""
    kind = kind_of(said)
    if not kind or PROVIDERS[kind].spec:  # the general provider's fields are Megatron-core's
        return fields
    whole = {**DEFAULTS[kind], **fields}
    base, window = whole.get("rotary_base"), whole.get("window_size")
    plain = {name: value for name, value in whole.items() if name not in OWN}
    plain["rotary_base"] = base[1] if isinstance(base, tuple | list) and len(base) == 2 else base
    if window is not None:
        plain["window_size"] = (window - 1, 0) if isinstance(window, int) else window
        plain["window_attn_skip_freq"] = _windowed(kind, whole)
    if kind == "mimo_v2_flash":
        plain["num_query_groups"] = whole["full_attn_num_query_groups"]
    return plain


def _windowed(kind: str, fields: Fields) -> list[int]:
    """Return for each layer whether it has a window."""
    found = fields.get("num_layers")
    layers = found if isinstance(found, int) else 0
    if kind == "gemma2":
        return [1 - place % 2 for place in range(layers)]
    if kind == "exaone_moe":
        return [int(window > 0) for window in fields.get("sliding_windows") or []]
    turned = kind in ("gemma3", "gemma4")
    pattern = fields.get("interleaved_attn_pattern" if turned else "hybrid_attention_pattern") or []
    if turned and len(pattern) == 2 and all(isinstance(many, int) for many in pattern):
        local, whole = pattern
        return [int(place % (local + whole) < local) for place in range(layers)]
    return [int(mark in (1, NEAR)) for mark in pattern]


def with_own_layers(said: Fields, fields: Fields, record: dict[str, Any]) -> dict[str, Any]:
    """Return a record with the norms, widths and numbers that Megatron-core's fields leave out."""
    kind = kind_of(said)
    if not kind:
        return record
    whole = {**DEFAULTS.get(kind, {}), **fields}
    own = {"mimo_v2_flash": _mimo, "minimax_m2": _wide_normed, "gemma4": _gemma4}
    mixers = own.get(kind, _same)(whole)
    blocks = {
        name: block
        | {"mixer": block["mixer"] | mixers[block["mixer"].get("window") is not None]}
        | {"norms": NORMS.get(kind, block.get("norms", 2))}
        | ({"ffn": block["ffn"] | {"router_bias": True}} if kind == "gemma4" else {})
        for name, block in record["blocks"].items()
    }
    if kind == "exaone_moe" and record.get("prediction"):
        blocks[PREDICTED] = _predicted(blocks, whole)
        record = record | {"prediction": record["prediction"] | {"block": PREDICTED}}
    numbers = {} if PROVIDERS[kind].spec else _numbers(kind, whole, int(record.get("hidden") or 1))
    variants = {"variants": [*PROVIDERS[kind].variants]} if PROVIDERS[kind].variants else {}
    return record | variants | {"blocks": blocks, "numerics": record["numerics"] | numbers}


def _predicted(blocks: Mapping[str, Any], fields: Fields) -> dict[str, Any]:
    """Return the block of an extra prediction layer: attention to all, and a feed-forward without experts."""
    whole: dict[str, Any] = next(one for one in blocks.values() if one["mixer"].get("window") is None)
    return whole | {"ffn": {"kind": "dense", "inner": fields["ffn_hidden_size"]}}


def _same(fields: Fields) -> tuple[dict[str, Any], dict[str, Any]]:
    return {}, {}


def _wide_normed(fields: Fields) -> tuple[dict[str, Any], dict[str, Any]]:
    return {"qk_norm": "full"}, {"qk_norm": "full"}


def _gemma4(fields: Fields) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what attention over the whole sequence has of its own; that in a window has the usual fields."""
    whole = {"kv_heads": fields["num_global_key_value_heads"], "head_dim": fields["global_head_dim"]}
    return whole | ({"projected": "queries-keys"} if fields["attention_k_eq_v"] else {}), {}


def _mimo(fields: Fields) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what attention over the whole sequence has of its own, and what attention in a window has."""
    width = {"v_head_dim": fields["v_head_dim"]}
    return width, width | {"kv_heads": fields["swa_num_query_groups"], "sinks": True}


def _numbers(kind: str, fields: Fields, hidden: int) -> dict[str, Any]:
    """Return the fields of `Numerics` that the provider's own say."""
    base, scale = fields.get("rotary_base"), fields.get("softmax_scale")
    if kind == "gemma2":
        scale = fields["query_pre_attn_scalar"] ** -0.5
    width = fields.get("kv_channels") or 1
    usual = isinstance(scale, float) and isclose(scale, width**-0.5)
    factor = fields.get("rope_scaling_factor") if kind == "gemma3" else None
    found = {
        "local_rope_theta": base[0] if isinstance(base, tuple | list) else None,
        "rope_scaling": {"kind": "linear", "factor": factor} if factor not in (None, 1, 1.0) else None,
        "attention_scale": None if usual else scale,
        "attention_softcap": fields.get("attn_logit_softcapping") or None,
        "logit_softcap": fields.get("final_logit_softcapping") or None,
        "value_scale": fields.get("attention_value_scale"),
    }
    if kind == "gemma4":
        found |= {"rope_fraction": fields.get("global_rotary_percent")}
    if kind.startswith("gemma"):
        found |= {"activation": "gelu_tanh", "embedding_scale": sqrt(hidden)}
    return {name: value for name, value in found.items() if value is not None}
