"""Numerics of a model as a configuration of Megatron-core has them: those derived, and those of the record.

The names are Megatron-core's (``transformer_config.py``); Megatron-LM has some of them among its arguments
alone, and Megatron-Bridge calls two otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from planner.inputs.model import LatentAttention, ModelSpec
from planner.inputs.numerics import RopeScaling, Router

NAMES: dict[str, tuple[str, ...]] = {
    "rotary_base": ("rotary_base",),
    "rotary_percent": ("rotary_percent",),
    "layernorm_epsilon": ("layernorm_epsilon",),
    "normalization": ("normalization",),
    "init_method_std": ("init_method_std",),
    "position_embedding_type": ("position_embedding_type",),
    "llama3_scaling": ("use_rope_scaling", "rope_scaling"),
    "rope_scaling_factor": ("rope_scaling_factor",),
    "interpolation": ("rotary_seq_len_interpolation_factor", "seq_len_interpolation_factor"),
    **{
        name: (name,)
        for name in (
            "rope_type",
            "rotary_scaling_factor",
            "mscale",
            "mscale_all_dim",
            "original_max_position_embeddings",
            "beta_fast",
            "beta_slow",
            "yarn_rotary_scaling_factor",
            "yarn_original_max_position_embeddings",
            "yarn_beta_fast",
            "yarn_beta_slow",
            "yarn_mscale",
            "yarn_mscale_all_dim",
            "yarn_correction_range_round_to_int",
            "glu_linear_offset",
            "activation_func_clamp_value",
            "gated_linear_unit",
            "moe_router_score_function",
            "moe_router_enable_expert_bias",
            "moe_router_num_groups",
            "moe_router_group_topk",
            "moe_router_topk_scaling_factor",
            "moe_router_topk",
            "moe_router_pre_softmax",
            "moe_aux_loss_coeff",
            "moe_router_load_balancing_type",
        )
    },
}

FUNCTIONS = {
    "silu": "silu",
    "gelu": "gelu",
    "gelu_tanh": "gelu",
    "relu2": "squared_relu",
    "quick_gelu": "quick_gelu",
    "swiglu_oai": "quick_gelu",
}


def derived_numerics(*sources: Any) -> dict[str, object]:
    """Return what the first source that knows a name says of it."""

    def look(names: tuple[str, ...]) -> object:
        for source in sources:
            for name in names:
                if getattr(source, name, None) is not None:
                    return getattr(source, name)
        return None

    function: Callable[..., Any] = next(
        found for source in sources if (found := getattr(source, "activation_func", None)) is not None
    )
    found = {name: look(names) for name, names in NAMES.items()}
    return found | {"activation_func": getattr(function, "__name__", str(function))}


def wanted_numerics(model: ModelSpec) -> dict[str, object]:
    """Return the fields that the record of a model says, by Megatron-core's names."""
    own = model.numerics
    latent = isinstance(model.blocks[model.layers[0]].mixer, LatentAttention)
    fields: dict[str, object] = {
        "normalization": "RMSNorm" if model.norm == "rmsnorm" else "LayerNorm",
        "rotary_base": own.rope_theta,
        "rotary_percent": own.rope_fraction,
        "layernorm_epsilon": own.norm_epsilon,
        "init_method_std": own.init_std,
        "llama3_scaling": (own.rope_scaling is not None and own.rope_scaling.kind == "llama3") or None,
    }
    if own.activation is not None:
        gated = model.blocks[model.layers[0]].ffn.gated
        fields |= {"activation_func": FUNCTIONS[own.activation], "gated_linear_unit": gated}
    if own.activation == "swiglu_oai":
        fields |= {"glu_linear_offset": 1.0, "activation_func_clamp_value": 7.0}
    if own.rope_scaling is not None:
        fields |= _wanted_scaling(own.rope_scaling, latent)
    if own.router is not None and model.expert_kinds:
        fields |= _wanted_router(own.router, model)
    return {name: value for name, value in fields.items() if value is not None}


def _wanted_scaling(scaling: RopeScaling, latent: bool) -> dict[str, object]:
    if scaling.kind == "llama3":
        return {"rope_scaling_factor": scaling.factor}
    if scaling.kind == "linear":
        return {"interpolation": scaling.factor}
    fields: dict[str, object] = {
        "rotary_scaling_factor": scaling.factor,
        "original_max_position_embeddings": scaling.original_positions,
        "beta_fast": scaling.beta_fast,
        "beta_slow": scaling.beta_slow,
        "mscale": scaling.mscale,
        "mscale_all_dim": scaling.mscale_all_dim,
    }
    if latent:
        return fields | {"rope_type": "yarn"}
    named: dict[str, object] = {f"yarn_{name}": value for name, value in fields.items()}
    rounding = {"yarn_correction_range_round_to_int": scaling.truncate}
    return named | rounding | {"position_embedding_type": "yarn"}


def _wanted_router(router: Router, model: ModelSpec) -> dict[str, object]:
    topk = model.expert_kinds[0].topk
    fields: dict[str, object] = {
        "moe_router_topk": topk,
        "moe_router_score_function": router.score,
        "moe_router_enable_expert_bias": router.expert_bias,
        "moe_router_num_groups": router.groups if router.grouped else None,
        "moe_router_group_topk": router.top_groups if router.grouped else None,
        "moe_router_topk_scaling_factor": router.scale,
        "moe_aux_loss_coeff": router.aux_loss,
    }
    if router.aux_loss is not None:
        fields["moe_router_load_balancing_type"] = "seq_aux_loss" if router.per_sequence else "aux_loss"
    if router.score == "softmax" and router.normalize is not None and topk > 1 and not router.grouped:
        fields["moe_router_pre_softmax"] = not router.normalize
    return fields
