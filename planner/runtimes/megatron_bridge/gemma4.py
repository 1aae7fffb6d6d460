"""Gemma 4 with experts as Megatron-Bridge builds it: layers of two shapes, and norms about its experts.

Read in Megatron-Bridge 067f987d, ``models/gemma/gemma4_provider.py`` and ``modeling_gemma4.py``. Its products
of queries, keys and values are one: layers whose keys are values too keep the weights of values, which
nothing reads (``_get_tied_query_key_value_tensors``).
"""

from __future__ import annotations

from math import isclose, sqrt
from types import MappingProxyType
from typing import Final

from planner.inputs.model import Attention, ModelSpec
from planner.inputs.numerics import Router
from planner.inputs.variants import Variant
from planner.runtimes.megatron_bridge.code import Section
from planner.runtimes.megatron_bridge.own_parts import OwnLayers, base_of, mixers_of, norms_of, window_of

WHOLE: Final = "full_attention"
TIED: Final = ("queries-keys", "queries-keys-unread")
"""What layers project whose keys are values too, and what they project here."""

VARIANTS: Final[tuple[Variant, ...]] = ("value-norms", "scaled-router", "wide-rotary")


def _kinds(model: ModelSpec) -> tuple[set[Attention], set[Attention]]:
    """Return the attention of layers with a window, and of the others, with values of their own."""
    mixers = [mixer.model_copy(update={"projected": "queries-keys-values"}) for mixer in mixers_of(model)]
    return {one for one in mixers if one.window}, {one for one in mixers if not one.window}


def _is_gemma4(model: ModelSpec) -> bool:
    """Whether layers differ in window, key/value heads and their width alone, with the same experts."""
    if set(model.variants) != set(VARIANTS):
        return False
    own, (near, far) = model.numerics, _kinds(model)
    if {len(near), len(far), len(set(model.expert_kinds))} != {1}:
        return False
    local, whole = next(iter(near)), next(iter(far))
    shape = {"window": None, "kv_heads": whole.kv_heads, "head_dim": whole.head_dim}
    tied = {mixer.projected for mixer in mixers_of(model) if mixer.window is None}
    plain = local.model_copy(update=shape) == whole and whole.qk_norm == "head" and len(tied) == 1
    ffn, router = next(iter(model.expert_kinds)), own.router or Router()
    routed = ffn.gated and ffn.shared_inner and router.score == "softmax" and not router.grouped
    scaled = own.embedding_scale is not None and isclose(own.embedding_scale, sqrt(model.hidden))
    numbers = (own.rope_theta, own.local_rope_theta, own.rope_fraction, own.attention_scale)
    norms = norms_of(model) == {8} and model.prediction is None and model.layer_inputs is None
    gelu = own.activation == "gelu_tanh" and own.rope_scaling is None and None not in numbers
    return bool(plain and routed and scaled and norms and gelu and len(model.ffns) == len(model.blocks))


def _fields(model: ModelSpec) -> Section:
    own, (near, far) = model.numerics, _kinds(model)
    local, whole, mixers = next(iter(near)), next(iter(far)), mixers_of(model)
    kinds = [WHOLE if mixer.window is None else "sliding_attention" for mixer in mixers]
    fields: Section = {
        "rotary_base": (base_of(own.local_rope_theta), base_of(own.rope_theta)),
        "window_size": window_of(model),
        "interleaved_attn_pattern": kinds,
        "num_query_groups": local.kv_heads,
        "kv_channels": local.head_dim,
        "num_global_key_value_heads": whole.kv_heads,
        "global_head_dim": whole.head_dim,
        "global_rotary_percent": own.rope_fraction,
        "attention_k_eq_v": mixers[kinds.index(WHOLE)].projected in TIED,
        "softmax_scale": own.attention_scale,
        "final_logit_softcapping": own.logit_softcap or 0.0,
        "activation_func": None,
        "bias_activation_fusion": False,
        "moe_shared_expert_overlap": False,
    }
    if (own.router or Router()).aux_loss is None:
        fields |= {"moe_router_load_balancing_type": "none", "moe_aux_loss_coeff": 0.0}
    return fields


def _built(model: ModelSpec) -> ModelSpec:
    """Return a model with the weights of values that no layer reads."""
    blocks = {}
    for name, block in model.blocks.items():
        mixer = block.mixer
        if isinstance(mixer, Attention) and mixer.projected == "queries-keys":
            unread = mixer.model_copy(update={"projected": "queries-keys-unread"})
            block = block.model_copy(update={"mixer": unread})
        blocks[name] = block
    return model.model_copy(update={"blocks": blocks})


GEMMA4: Final = OwnLayers(
    "gemma.gemma4_provider", "Gemma4ModelProvider", _is_gemma4,
    (
        "embedding_scale", "activation", "local_rope_theta", "rope_fraction", "attention_scale",
        "logit_softcap",
    ),
    _fields, methods=("full",), variants=VARIANTS, built=_built,
    traits=MappingProxyType({"fused_activation": False}),
    plain=("fused_activation", "graphed", "overlaps_shared_expert"),
)  # fmt: skip
