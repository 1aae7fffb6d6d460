"""Models that Megatron-Bridge builds of layers of its own, which Megatron-core's arguments cannot say.

Read in Megatron-Bridge 067f987d: ``models/gemma`` (``gemma_provider.py``, ``gemma2_provider.py``,
``gemma3_provider.py``), ``models/mimo_v2_flash``, ``models/exaone``, ``models/ministral3``,
``models/common/te_layers.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isclose, sqrt
from types import MappingProxyType
from typing import Final

from planner.inputs.model import Attention, DenseFfn, ModelSpec
from planner.inputs.numerics import Router
from planner.runtimes.megatron_bridge.code import Code, Section
from planner.runtimes.megatron_bridge.gemma4 import GEMMA4
from planner.runtimes.megatron_bridge.own_parts import OwnLayers, base_of, mixers_of, norms_of, window_of
from planner.runtimes.megatron_bridge.vision import GROWN, family_of


def _is_gemma(model: ModelSpec, norms: int, heads: str = "none") -> bool:
    """Whether a model is dense, scales its embeddings by the root of their width and gates by tanh's GELU."""
    own = model.numerics
    if own.embedding_scale is None or own.activation != "gelu_tanh":
        return False
    scaled = isclose(own.embedding_scale, sqrt(model.hidden))
    mixers = mixers_of(model)
    plain = bool(mixers) and {mixer.qk_norm for mixer in mixers} == {heads} and not model.expert_kinds
    gated = all(ffn.gated for ffn in model.ffns)
    return scaled and plain and gated and norms_of(model) == {norms}


def _whole(value: float) -> bool:
    return isclose(value, round(value), rel_tol=1e-9)


def _is_gemma2(model: ModelSpec) -> bool:
    """Whether every other layer has a window, the first too, and the scale is that of a whole width."""
    if not _is_gemma(model, 4):
        return False
    scale = model.numerics.attention_scale
    windows = [mixer.window is not None for mixer in mixers_of(model)]
    turns = [place % 2 == 0 for place in range(model.num_layers)]
    return windows == turns and (scale is None or _whole(scale**-2))


def _is_gemma3(model: ModelSpec) -> bool:
    """Whether positions of layers with a window are not stretched, and those of the others by one factor."""
    scaling = model.numerics.rope_scaling
    linear = scaling is None or scaling.kind == "linear"
    bases = (model.numerics.rope_theta, model.numerics.local_rope_theta)
    if None in bases or not linear or not _is_gemma(model, 4, "head"):
        return False
    return {mixer.window is None for mixer in mixers_of(model)} == {False, True}


def _base_fields(model: ModelSpec) -> Section:
    return {"rotary_base": base_of(model.numerics.rope_theta)}


def _gemma2_fields(model: ModelSpec) -> Section:
    own, width = model.numerics, mixers_of(model)[0].head_dim
    return {
        "rotary_base": base_of(own.rope_theta),
        "window_size": (window_of(model) - 1, 0),
        "query_pre_attn_scalar": round(own.attention_scale**-2) if own.attention_scale else width,
        "attn_logit_softcapping": own.attention_softcap or 0.0,
        "final_logit_softcapping": own.logit_softcap or 0.0,
    }


def _gemma3_fields(model: ModelSpec) -> Section:
    own = model.numerics
    kinds = ["full_attention" if mixer.window is None else "sliding_attention" for mixer in mixers_of(model)]
    scale = own.attention_scale or mixers_of(model)[0].head_dim ** -0.5
    factor = own.rope_scaling.factor if own.rope_scaling else None
    return {
        "rotary_base": (base_of(own.local_rope_theta), base_of(own.rope_theta)),
        "window_size": window_of(model),
        "interleaved_attn_pattern": kinds,
        "softmax_scale": scale,
        "rope_scaling_factor": factor or 1.0,
    }


def _is_mimo(model: ModelSpec) -> bool:
    """Whether layers with a window have sinks and the others none, all of one kind alike."""
    own = model.numerics
    if None in (own.rope_theta, own.local_rope_theta):
        return False
    mixers = mixers_of(model)
    near, far = ({mixer for mixer in mixers if (mixer.window is None) == whole} for whole in (False, True))
    if len(near) != 1 or len(far) != 1:
        return False
    local, whole = near.pop(), far.pop()
    alike = local.model_copy(update={"window": None, "sinks": False, "kv_heads": whole.kv_heads})
    routed = model.expert_kinds and (own.router or Router()).expert_bias
    return local.sinks and alike == whole and bool(routed) and mixers[0].window is None


def _mimo_fields(model: ModelSpec) -> Section:
    own, mixers = model.numerics, mixers_of(model)
    near = next(mixer for mixer in mixers if mixer.window is not None)
    return {
        "rotary_base": (base_of(own.local_rope_theta), base_of(own.rope_theta)),
        "window_size": window_of(model),
        "hybrid_attention_pattern": [int(mixer.window is not None) for mixer in mixers],
        "full_attn_num_query_groups": mixers[0].kv_heads,
        "swa_num_query_groups": near.kv_heads,
        "v_head_dim": near.value_head_dim,
        "attention_value_scale": own.value_scale,
    }


def _is_wide_normed(model: ModelSpec) -> bool:
    """Whether every layer has experts, and norms of queries and keys over all heads at once."""
    if len(model.expert_kinds) != len(model.blocks) or model.prediction is not None:
        return False
    kinds = {(mixer.qk_norm, mixer.window, mixer.sinks, mixer.causal) for mixer in mixers_of(model)}
    return kinds == {("full", None, False, True)} and norms_of(model) == {2}


def _wide_normed_fields(model: ModelSpec) -> Section:
    return {
        "rotary_base": base_of(model.numerics.rope_theta),
        "transformer_layer_spec": Code("minimax_m2_layer_spec"),
    }


def _is_exaone4(model: ModelSpec) -> bool:
    """Whether every layer is dense and gated, with norms on results alone and norms of heads."""
    if model.variants != ("norms-after",) or model.norm != "rmsnorm":
        return False
    mixers, fed = mixers_of(model), all(isinstance(ffn, DenseFfn) and ffn.gated for ffn in model.ffns)
    return fed and {(mixer.qk_norm, mixer.qkv_bias, mixer.causal) for mixer in mixers} == {
        ("head", False, True)
    }


def _exaone4_fields(model: ModelSpec) -> Section:
    windowed = [int(mixer.window is not None) for mixer in mixers_of(model)]
    fields: Section = {
        "rotary_base": base_of(model.numerics.rope_theta),
        "transformer_layer_spec": Code("exaone4_layer_spec"),
    }
    near: Section = {"window_size": (window_of(model) - 1, 0), "window_attn_skip_freq": windowed}
    return fields | near if any(windowed) else fields


def _is_exaone_moe(model: ModelSpec) -> bool:
    """Whether an extra prediction layer is dense and whole where the others have experts.

    All else is Megatron-core's.
    """
    if model.prediction is None or not model.expert_kinds:
        return False
    block = model.blocks[model.prediction.block]
    whole = isinstance(block.mixer, Attention) and block.mixer.window is None and not block.mixer.rotary
    return whole and isinstance(block.ffn, DenseFfn) and len(mixers_of(model)) == model.num_layers


def _exaone_moe_fields(model: ModelSpec) -> Section:
    windows = [mixer.window or 0 for mixer in mixers_of(model)]
    router, extra = model.numerics.router or Router(), model.prediction.layers if model.prediction else 0
    fields: Section = {
        "rotary_base": base_of(model.numerics.rope_theta),
        "sliding_windows": windows,
        "layer_types": ["sliding_attention" if window else "full_attention" for window in windows],
        "mtp_layer_types": ["full_attention"] * extra,
        "mtp_sliding_windows": [0] * extra,
        "moe_z_loss_coeff": Code("None"),
        "moe_shared_expert_overlap": False,
    }
    if any(windows):
        fields |= {"window_size": (window_of(model) - 1, 0)}
        fields |= {"window_attn_skip_freq": [int(window > 0) for window in windows]}
    if router.aux_loss is None:
        fields |= {"moe_router_load_balancing_type": "none", "moe_aux_loss_coeff": 0.0}
    return fields


def _is_ministral3(model: ModelSpec) -> bool:
    return family_of(model) == "mistral3"


FLEX: Final = MappingProxyType({"attention": "flash-2", "attention_share": 0.86})
"""PyTorch's FlexAttention, which bounds scores: on an A100 90% of FlashAttention-2's rate forward and 85%
backward, of which backward is 2.5 times forward's work (H. He et al., "FlexAttention",
https://pytorch.org/blog/flexattention, 2024, "Performance"; pytorch/pytorch.github.io,
``_posts/2024-08-07-flexattention.md``). Of Hopper it prints only a rate against FlashAttention-3."""

UNFUSED: Final = MappingProxyType({"attention": "unfused"})
"""Megatron-core's own attention, which keeps all scores (``exaone4_provider.py``, ``core_attention``)."""

_GEMMA: Final = ("embedding_scale", "activation")

PROVIDERS: Final[Mapping[str, OwnLayers]] = {
    "gemma": OwnLayers(
        "gemma.gemma_provider", "GemmaModelProvider", lambda model: _is_gemma(model, 2), _GEMMA,
        _base_fields,
    ),
    "gemma2": OwnLayers(
        "gemma.gemma2_provider", "Gemma2ModelProvider", _is_gemma2,
        (*_GEMMA, "attention_scale", "attention_softcap", "logit_softcap"), _gemma2_fields,
        whole_sequence=True, traits=FLEX,
    ),
    "gemma3": OwnLayers(
        "gemma.gemma3_provider", "Gemma3ModelProvider", _is_gemma3,
        (*_GEMMA, "local_rope_theta", "rope_scaling"), _gemma3_fields,
    ),
    "gemma4": GEMMA4,
    "mimo_v2_flash": OwnLayers(
        "mimo_v2_flash.mimo_v2_flash_provider", "MiMoV2FlashModelProvider", _is_mimo,
        ("local_rope_theta", "value_scale"), _mimo_fields, whole_sequence=True, whole_groups=True,
        methods=("full",),
    ),
    "minimax_m2": OwnLayers(
        "gpt_provider", "GPTModelProvider", _is_wide_normed, (), _wide_normed_fields,
        traits=MappingProxyType({"norms": "in-product-own-heads"}),
        spec=("minimax_m2.minimax_m2_provider", "minimax_m2_layer_spec"),
    ),
    "exaone4": OwnLayers(
        "gpt_provider", "GPTModelProvider", _is_exaone4, (), _exaone4_fields, whole_sequence=True,
        traits=UNFUSED, spec=("exaone.exaone4.exaone4_provider", "exaone4_layer_spec"),
        variants=("norms-after",),
    ),
    "exaone_moe": OwnLayers(
        "exaone.exaone_moe.exaone_moe_provider", "ExaoneMoeModelProvider", _is_exaone_moe, (),
        _exaone_moe_fields,
    ),
    "mistral3": OwnLayers(
        "ministral3.ministral3_provider", "Ministral3ModelProvider", _is_ministral3, (), _base_fields,
        whole_sequence=True, methods=("full", "projector"), variants=(GROWN,),
    ),
}  # fmt: skip
"""Model types that have a provider with layers of its own."""
