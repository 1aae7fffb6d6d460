"""Keys that many types of the hub write alike, and from which glance a model may be of one.

What is not known of a model is left out: the type's own default stands then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from planner.inputs.model import Attention, DenseFfn, ModelSpec
from planner.runtimes.hub.numerics import hub_scaling
from planner.runtimes.hub.types import Fields

FP32_NORM: Final = {"norms": "fp32-weighed"}
"""The trait of norms that multiply by their weight in fp32."""


def without(*keys: str) -> dict[str, str]:
    """Return the names of keys that a type has not."""
    return dict.fromkeys(keys, "")


NO_DROPOUT: Final[Fields] = {"attention_dropout": 0.0}
_WORDS: Final = {"gelu_tanh": "gelu_pytorch_tanh"}


def like(
    *,
    norm: str = "rmsnorm",
    bias: bool = False,
    variants: Iterable[str] = (),
    gated: bool = True,
    norms: int = 2,
    experts: bool = False,
    learned: bool = False,
    mixed: bool = False,
) -> Callable[[ModelSpec], bool]:
    """Return the question whether a model has plain attention in all layers, and such norms and blocks.

    Where they are ``mixed``, layers may differ, in windows or in what feeds forward.
    """
    wanted = (norm, bias, tuple(variants), learned)

    def is_like(model: ModelSpec) -> bool:
        found = (model.norm, model.norm_bias, model.variants, model.learned_positions)
        blocks = [model.blocks[name] for name in dict.fromkeys(model.layers)]
        fed = all(block.ffn is not None and block.ffn.gated == gated for block in blocks)
        plain = all(isinstance(block.mixer, Attention) and block.norms == norms for block in blocks)
        if found != wanted or not (fed and plain) or bool(model.expert_kinds) != experts:
            return False
        return mixed or (len(blocks) == 1 and mixer_of(model).window is None)

    return is_like


def mixer_of(model: ModelSpec) -> Attention:
    """Return the attention of the first kind of layer, of a model that has no other mixer."""
    mixer = model.attentions[0]
    assert isinstance(mixer, Attention)
    return mixer


def inner_of(model: ModelSpec) -> int:
    """Return the width of the dense feed-forward, or of an expert where there is none."""
    dense = [ffn.inner for ffn in model.ffns if isinstance(ffn, DenseFfn)]
    return (dense or [model.ffns[0].inner])[0]


def word_of(model: ModelSpec) -> str | None:
    """Return the activation as the hub spells it."""
    said = model.numerics.activation
    return _WORDS.get(said, said) if said else None


def known(**fields: object) -> Fields:
    """Return the fields that are known."""
    return {name: value for name, value in fields.items() if value is not None}


def positions(model: ModelSpec) -> Fields:
    """Return base and stretching of rotary positions."""
    own = model.numerics
    scaling = {} if own.rope_scaling is None else hub_scaling(own.rope_scaling)
    return {"rope_type": "default"} | scaling | known(rope_theta=own.rope_theta)


def rotary(model: ModelSpec) -> Fields:
    """Return them as transformers 5 writes them."""
    return {"rope_parameters": positions(model)}


def rotary_part(model: ModelSpec) -> Fields:
    """Return them for a type that can turn a part of each head: others' code knows no such key."""
    part = known(partial_rotary_factor=model.numerics.rope_fraction)
    return {"rope_parameters": positions(model) | part}


def windows(model: ModelSpec) -> Fields:
    """Return the window, and which layers have it."""
    mixers = [model.blocks[name].attention for name in model.layers]
    reaches = [mixer.window if mixer else None for mixer in mixers]
    kinds = ["sliding_attention" if reach else "full_attention" for reach in reaches]
    return {"layer_types": kinds, "sliding_window": next((reach for reach in reaches if reach), None)}


def gated_fields(model: ModelSpec) -> Fields:
    """Return the keys of a gated feed-forward with root-mean-square norms."""
    return NO_DROPOUT | rotary(model) | {
        "intermediate_size": inner_of(model),
        "attention_bias": mixer_of(model).qkv_bias,
    } | known(hidden_act=word_of(model), rms_norm_eps=model.numerics.norm_epsilon)  # fmt: skip


def headed(model: ModelSpec) -> Fields:
    """Return the same with the width of a head."""
    return gated_fields(model) | {"head_dim": mixer_of(model).head_dim}


def routed(model: ModelSpec) -> Fields:
    """Return the keys of what a router does, as most types spell them."""
    router = model.numerics.router
    if router is None:
        return {}
    fields = known(norm_topk_prob=router.normalize, routed_scaling_factor=router.scale)
    if router.groups:
        fields |= {"n_group": router.groups, "topk_group": router.top_groups}
    if router.aux_loss is not None:
        fields |= {"router_aux_loss_coef": router.aux_loss, "output_router_logits": bool(router.aux_loss)}
    return fields
