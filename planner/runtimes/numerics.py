"""What is known of a model beside its shape, as every runtime's run card says it."""

from __future__ import annotations

from typing import Final

from planner.inputs.model import Attention, ModelSpec
from planner.inputs.numerics import Router

RARE: Final = (
    "local_rope_theta", "rope_fraction", "attention_scale", "attention_softcap", "qkv_clip", "logit_softcap",
    "embedding_scale", "residual_scale", "logit_scale", "value_scale", "part_scales",
)  # fmt: skip
"""Fields of `Numerics` that models of runners with layers of their own have no place for."""


def unknown_numerics(model: ModelSpec) -> tuple[str, ...]:
    """Return for the run card what is not known, and so is left to the runtime."""
    own, mixers = model.numerics, model.attentions
    rotary = any(not isinstance(mixer, Attention) or mixer.rotary for mixer in mixers)
    router = own.router or Router()
    open_fields = {
        "rope_theta": rotary and own.rope_theta is None,
        "norm_epsilon": own.norm_epsilon is None,
        "init_std": own.init_std is None,
        "activation": own.activation is None,
        "router.score": bool(model.expert_kinds) and router.score is None,
        "router.aux_loss": bool(model.expert_kinds) and router.aux_loss is None and not router.expert_bias,
    }
    names = [name for name, there in open_fields.items() if there]
    if not names:
        return ()
    balance = " No balancing loss is written, and the price has balanced experts."
    return (
        f"Not known of {model.name}, so the runtime's default: {', '.join(names)}. Compare with the model's "
        f"own config, or import it with planner models import.{balance * ('router.aux_loss' in names)}",
    )
