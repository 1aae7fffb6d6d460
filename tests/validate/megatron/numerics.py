"""Numerics of a model as a configuration of Megatron-core has them: those derived, and those of the record.

The names are Megatron-core's (``transformer_config.py``); Megatron-LM has some of them among its arguments
alone, and Megatron-Bridge calls two otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from planner.inputs.model import Attention, Block, LatentAttention, ModelSpec
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
    "untied": ("untie_embeddings_and_output_weights",),
    "tied": ("share_embeddings_and_output_weights",),
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
            "moe_shared_expert_gate",
            "softmax_scale",
            "softmax_type",
            "window_size",
            "window_attn_skip_freq",
            "no_rope_freq",
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
    size, plain = found["window_size"], found["no_rope_freq"] or [0] * sources[0].num_layers
    assert isinstance(plain, list)
    windowed = _windowed(found["window_attn_skip_freq"], sources[0].num_layers)
    return found | {
        "activation_func": getattr(function, "__name__", str(function)),
        "ties": found["tied"] if found["untied"] is None else not found["untied"],
        "turned": [not there for there in plain],
        "windows": [size[0] + 1 if there else None for there in windowed]
        if isinstance(size, tuple | list)
        else [],
    }


def _windowed(said: object, layers: int) -> list[bool]:
    """Return which layers have a window: all but every Nth, or those that are told.

    References
    ----------
    .. [1] Megatron-LM, core/transformer/utils.py, ``is_layer_window_attention``.
    """
    if isinstance(said, list):
        return [bool(there) for there in said]
    return [not isinstance(said, int) or layer % said != 0 for layer in range(1, layers + 1)]


def wanted_numerics(model: ModelSpec) -> dict[str, object]:
    """Return the fields that the record of a model says, by Megatron-core's names."""
    own = model.numerics
    blocks = [model.blocks[name] for name in model.layers]
    latent = isinstance(blocks[0].mixer, LatentAttention)
    fields: dict[str, object] = {
        "normalization": "RMSNorm" if model.norm == "rmsnorm" else "LayerNorm",
        "rotary_base": own.rope_theta,
        "rotary_percent": own.rope_fraction,
        "layernorm_epsilon": own.norm_epsilon,
        "init_method_std": own.init_std,
        "llama3_scaling": (own.rope_scaling is not None and own.rope_scaling.kind == "llama3") or None,
        "softmax_scale": own.attention_scale,
        "ties": model.tied_embeddings,
    }
    fields |= _wanted_attention(blocks)
    if own.activation is not None:
        gated = blocks[0].ffn.gated
        fields |= {"activation_func": FUNCTIONS[own.activation], "gated_linear_unit": gated}
    if own.activation == "swiglu_oai":
        fields |= {"glu_linear_offset": 1.0, "activation_func_clamp_value": 7.0}
    if own.rope_scaling is not None:
        fields |= _wanted_scaling(own.rope_scaling, latent)
    if model.expert_kinds:
        fields |= _wanted_router(own.router or Router(), model)
    return {name: value for name, value in fields.items() if value is not None}


def _wanted_attention(blocks: list[Block]) -> dict[str, object]:
    """Return which layers see a window or have no rotary positions, and what softmax has beside keys."""
    mixers = [block.mixer for block in blocks if isinstance(block.mixer, Attention)]
    if len(mixers) < len(blocks):
        return {}
    windows = {mixer.window for mixer in mixers if mixer.window is not None}
    fields: dict[str, object] = {
        "softmax_type": "learnable" if mixers[0].sinks else "vanilla",
        "windows": [mixer.window for mixer in mixers] if windows else None,
    }
    turned = [mixer.rotary for mixer in mixers]
    return fields | ({"turned": turned} if any(turned) else {})


def _wanted_scaling(scaling: RopeScaling, latent: bool) -> dict[str, object]:
    """Return a scaling's fields; where the record is silent, what its kind means without them.

    References
    ----------
    .. [1] Hugging Face Transformers, ``modeling_rope_utils.py``, ``_compute_yarn_parameters``: beta 32 and 1,
       bounds rounded, and without two factors of its own the attention's is ``0.1 ln(factor) + 1``.
    """
    if scaling.kind == "llama3":
        return {"rope_scaling_factor": scaling.factor}
    if scaling.kind == "linear":
        return {"interpolation": scaling.factor}
    fields: dict[str, object] = {
        "rotary_scaling_factor": scaling.factor,
        "original_max_position_embeddings": scaling.original_positions,
        "beta_fast": scaling.beta_fast or 32.0,
        "beta_slow": scaling.beta_slow or 1.0,
        "mscale": 1.0 if scaling.mscale is None else scaling.mscale,
        "mscale_all_dim": scaling.mscale_all_dim or 0.0,
    }
    if latent:
        return fields | {"rope_type": "yarn"}
    named: dict[str, object] = {f"yarn_{name}": value for name, value in fields.items()}
    rounding = {"yarn_correction_range_round_to_int": scaling.truncate is not False}
    return named | rounding | {"position_embedding_type": "yarn"}


def _wanted_router(router: Router, model: ModelSpec) -> dict[str, object]:
    topk, gated = model.expert_kinds[0].topk, model.expert_kinds[0].shared_gate
    fields: dict[str, object] = {
        "moe_router_topk": topk,
        "moe_shared_expert_gate": gated,
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
