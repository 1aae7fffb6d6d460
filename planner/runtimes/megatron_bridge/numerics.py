"""A model's positions, norms, scales and router as fields of Bridge's model provider.

Read in Megatron-Bridge 067f987d: models/gpt_provider.py, mla_provider.py, transformer_config.py.
"""

from __future__ import annotations

from planner.inputs.model import LatentAttention, ModelSpec
from planner.inputs.numerics import RopeScaling, Router
from planner.runtimes.megatron_lm.architecture import Architecture
from planner.runtimes.megatron_lm.numerics import pre_softmax

Fields = dict[str, object]


def numeric_fields(model: ModelSpec, arch: Architecture) -> Fields:
    """Return the provider's fields of positions, norms and initialiser, as far as they are known."""
    own = model.numerics
    fields: Fields = {
        "rotary_base": own.rope_theta,
        "rotary_percent": own.rope_fraction,
        "layernorm_epsilon": own.norm_epsilon,
        "init_method_std": own.init_std,
        "softmax_scale": own.attention_scale,
    }
    if own.rope_theta is not None and own.rope_theta.is_integer():
        fields["rotary_base"] = int(own.rope_theta)
    if own.rope_scaling is not None:
        fields |= _scaling_fields(own.rope_scaling, isinstance(arch.mixer, LatentAttention))
    return {name: value for name, value in fields.items() if value is not None}


def _scaling_fields(scaling: RopeScaling, latent: bool) -> Fields:
    if scaling.kind == "llama3":
        return {"rope_scaling": True, "rope_scaling_factor": scaling.factor}
    if scaling.kind == "linear":
        return {"seq_len_interpolation_factor": scaling.factor}
    fields: Fields = {
        "rotary_scaling_factor": scaling.factor,
        "original_max_position_embeddings": scaling.original_positions,
        "beta_fast": scaling.beta_fast,
        "beta_slow": scaling.beta_slow,
        "mscale": scaling.mscale,
        "mscale_all_dim": scaling.mscale_all_dim,
    }
    if latent:
        return fields
    fields |= {"mscale": scaling.mscale or 1.0, "mscale_all_dim": scaling.mscale_all_dim or 0.0}
    fields |= {"beta_fast": scaling.beta_fast or 32.0, "beta_slow": scaling.beta_slow or 1.0}
    named = {f"yarn_{name}": value for name, value in fields.items()}
    return named | {"yarn_correction_range_round_to_int": scaling.truncate is not False}


def router_fields(model: ModelSpec, arch: Architecture) -> Fields:
    """Return the provider's fields of the router, its balancing loss among them, as far as they are known."""
    router = model.numerics.router or Router()
    if arch.experts is None:
        return {}
    biased = bool(router.expert_bias or (arch.biases != "all" and arch.experts.router_bias))
    balanced = router.aux_loss is not None
    fields: Fields = {
        "moe_router_score_function": "sigmoid" if biased else router.score,
        "moe_router_enable_expert_bias": biased or None,
        "moe_router_num_groups": router.groups if router.grouped else None,
        "moe_router_group_topk": (router.top_groups or 1) if router.grouped else None,
        "moe_router_topk_scaling_factor": router.scale,
        "moe_router_load_balancing_type": ("seq_aux_loss" if router.per_sequence else "aux_loss")
        if balanced
        else None,
        "moe_aux_loss_coeff": router.aux_loss,
    }
    known = {name: value for name, value in fields.items() if value is not None}
    return known | {"moe_router_pre_softmax": pre_softmax(arch, router, biased)}
