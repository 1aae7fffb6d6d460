"""A model's positions, norms, scales and router as keys of a Hugging Face ``config.json``."""

from __future__ import annotations

from typing import Final

from planner.inputs.model import ModelSpec
from planner.inputs.numerics import Numerics, RopeScaling, Router, said, without_place
from planner.runtimes.numerics import RARE

Fields = dict[str, object]

_ROUTERS = {
    "mixtral": Router(score="softmax", normalize=True),
    "qwen3_moe": Router(score="softmax"),
    "deepseek_v3": Router(score="sigmoid", expert_bias=True),
}
"""What the code of an architecture does with scores, whatever its config says."""

MULTIPLIERS = ("attention_scale", "embedding_scale", "residual_scale", "logit_scale")
"""Fields of `Numerics` that Granite has keys for, and no other architecture written here."""

CANNOT = tuple(name for name in RARE if name not in MULTIPLIERS)
"""Fields of `Numerics` that no architecture written here has a key for."""


def multipliers(own: Numerics) -> tuple[str, ...]:
    """Return Granite's multipliers among a model's known numbers."""
    return tuple(name for name in MULTIPLIERS if getattr(own, name) is not None)


def granite_scales(own: Numerics, head_dim: int) -> Fields:
    """Return Granite's multipliers: all four, since its defaults are 1, that of attention too.

    References
    ----------
    .. [1] transformers 5, models/granite/modeling_granite.py, ``GraniteAttention`` (whose scale replaces that
       of the width of a head), ``GraniteDecoderLayer``, ``GraniteModel``, ``GraniteForCausalLM``.
    """
    return {
        "attention_multiplier": own.attention_scale or head_dim**-0.5,
        "embedding_multiplier": own.embedding_scale or 1.0,
        "residual_multiplier": own.residual_scale or 1.0,
        "logits_scaling": 1.0 / (own.logit_scale or 1.0),
    }


def hub_numerics(model: ModelSpec, kind: str) -> Fields:
    """Return the keys of what is known, for the architecture ``kind``."""
    own = model.numerics
    epsilon = "layer_norm_epsilon" if kind == "gpt2" else "rms_norm_eps"
    fields: Fields = {epsilon: own.norm_epsilon, "initializer_range": own.init_std}
    if kind != "gpt2":
        scaling = None if own.rope_scaling is None else hub_scaling(own.rope_scaling)
        fields |= {"rope_theta": own.rope_theta, "rope_scaling": scaling}
    return {key: value for key, value in fields.items() if value is not None} | _router(model, kind)


def hub_scaling(scaling: RopeScaling) -> Fields:
    """Return the keys of stretched positions."""
    fields = said(scaling)
    fields["rope_type"] = fields.pop("kind")
    if "original_positions" in fields:
        fields["original_max_position_embeddings"] = fields.pop("original_positions")
    return {key: list(value) if isinstance(value, tuple) else value for key, value in fields.items()}


def _router(model: ModelSpec, kind: str) -> Fields:
    router = model.numerics.router
    if router is None or kind not in _ROUTERS:
        return {}
    fields: Fields = {}
    if kind != "mixtral" and router.normalize is not None:
        fields["norm_topk_prob"] = router.normalize
    if kind == "deepseek_v3":
        fields |= {"n_group": router.groups or 1, "topk_group": router.top_groups or 1}
        return fields | {"routed_scaling_factor": router.scale or 1.0} | _loss(router, "aux_loss_alpha")
    balanced = bool(router.aux_loss)
    return fields | _loss(router, "router_aux_loss_coef") | {"output_router_logits": balanced}


def _loss(router: Router, key: str) -> Fields:
    sequence: Fields = {"seq_aux": True} if router.per_sequence else {}
    return {} if router.aux_loss is None else {key: router.aux_loss} | sequence


UNBALANCED: Final = {"deepseek_v3": "DeepSeek-V3", "glm4_moe": "GLM-4.5"}
"""Architectures without a balancing loss."""


def unbalanced(model: ModelSpec, kind: str) -> tuple[str, ...]:
    """Return for the run card what an architecture leaves out of the balance of experts.

    References
    ----------
    .. [1] transformers 5.23, models/deepseek_v3/modeling_deepseek_v3.py and models/glm4_moe: biases are a
       buffer of zeros that nothing moves, and the loss is that of the tokens alone.
    """
    if kind not in UNBALANCED:
        return ()
    router = model.numerics.router or Router()
    form = " over each sequence" if router.per_sequence else ""
    own = f", the model's of {router.aux_loss:g}{form} included," if router.aux_loss else ""
    named = f"adds no balancing loss{own}"
    return (
        f"transformers' {UNBALANCED[kind]} {named} and moves none of the experts' biases: nothing keeps the "
        "experts in balance, and the price has balanced experts.",
    )


def unsaid(model: ModelSpec, kind: str) -> tuple[str, ...]:
    """Return the fields of the model's numerics that the architecture ``kind`` has no key for."""
    own = model.numerics
    cannot = CANNOT if kind == "granite" else (*CANNOT, *MULTIPLIERS)
    found = without_place(own, cannot)
    if own.activation not in (None, "gelu_tanh" if kind == "gpt2" else "silu"):
        found.append(f"numerics.activation {own.activation}")
    router, wanted = own.router or Router(), _ROUTERS.get(kind, Router())
    for name, value in said(wanted).items():
        if getattr(router, name) not in (None, value):
            found.append(f"numerics.router.{name} {getattr(router, name)}")
    if kind != "deepseek_v3":
        found += ["numerics.router.per_sequence"] if router.aux_loss and router.per_sequence else []
        found += [f"numerics.router.groups {router.groups}"] if router.grouped else []
        found += [f"numerics.router.scale {router.scale}"] if router.scale not in (None, 1.0) else []
        found += ["numerics.router.expert_bias"] if router.expert_bias else []
    return tuple(found)
