"""Mixers without attention as the ``config.json`` of LFM2, Jamba, Falcon-H1 or Granite 4.

An order of layers that no period of Jamba's gives, say, is read back otherwise and so refused. The first
three were built and trained for a step in transformers 5.24, Granite 4 was built in 5.23.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from planner.deferred import deferred
from planner.inputs.mixers.gated_delta import GatedDelta
from planner.inputs.mixers.mamba1 import Mamba1
from planner.inputs.mixers.mamba2 import Mamba2
from planner.inputs.mixers.short_conv import ShortConv
from planner.inputs.model import Attention, DenseFfn, Experts, ModelSpec
from planner.inputs.numerics import Numerics, said
from planner.runtimes.hub.types import REGULAR, Fields, HubType

with deferred():
    from planner.inputs import hf_numerics


def _with(mixer: type, experts: bool | None = None) -> Callable[[ModelSpec], bool]:
    """Return the question whether a model has such mixers beside plain attention, and such feed-forwards."""

    def has(model: ModelSpec) -> bool:
        plain = model.attentions and all(isinstance(one, Attention) for one in model.attentions)
        fed = experts is None or bool(model.expert_kinds) == experts
        return bool(plain) and fed and model.is_whole and {type(one) for one in model.recurrents} == {mixer}

    return has


def _hybrid(model: ModelSpec) -> Fields:
    blocks = [model.blocks[name] for name in model.layers]
    attends = [block.attention is not None for block in blocks]
    sparse = [isinstance(block.ffn, Experts) for block in blocks]
    dense = next((ffn for ffn in model.ffns if isinstance(ffn, DenseFfn)), None)
    experts = next(iter(model.expert_kinds), None)
    fields: Fields = {"intermediate_size": dense.inner if dense else experts.inner if experts else 0}
    if experts:
        fields |= {"num_experts": experts.experts, "num_experts_per_tok": experts.topk}
    mixer = model.recurrents[0]
    if isinstance(mixer, Mamba2):
        return fields | _falcon(mixer, model)
    if isinstance(mixer, Mamba1):
        return fields | _jamba(mixer, attends, sparse, model.numerics, model.hidden)
    return fields | _lfm2(mixer, attends, sparse, model.numerics, experts)


def _lfm2(
    mixer: object, attends: Sequence[bool], sparse: Sequence[bool], own: Numerics, experts: Experts | None
) -> Fields:
    router = own.router
    fields: Fields = {
        "block_auto_adjust_ff_dim": False,
        "conv_L_cache": getattr(mixer, "conv_kernel", 0),
        "conv_bias": getattr(mixer, "bias", False),
        "layer_types": ["full_attention" if one else "conv" for one in attends],
        "norm_eps": own.norm_epsilon or 1e-5,
        "rope_parameters": {"rope_type": "default", "rope_theta": own.rope_theta or 1e6},
    }
    if experts:
        normal = router.normalize if router else None
        fields |= {"moe_intermediate_size": experts.inner, "num_dense_layers": sparse.index(True)}
        fields |= {"routed_scaling_factor": (router.scale if router else None) or 1.0}
        fields |= {} if normal is None else {"norm_topk_prob": normal}
    return fields


def _falcon(mixer: Mamba2, model: ModelSpec) -> Fields:
    own, attention = model.numerics, model.attentions[0]
    scales = said(own.part_scales) if own.part_scales else {}
    biased = isinstance(attention, Attention) and attention.qkv_bias
    return {
        "head_dim": attention.value_head_dim,
        "hidden_act": own.activation or "silu",
        "rms_norm_eps": own.norm_epsilon or 1e-5,
        "rope_parameters": {"rope_type": "default", "rope_theta": own.rope_theta or 1e4},
        "attention_bias": biased,
        "mlp_bias": any(ffn.bias for ffn in model.ffns),
        "mamba_d_ssm": mixer.heads * mixer.head_dim,
        "mamba_n_heads": mixer.heads,
        "mamba_d_head": mixer.head_dim,
        "mamba_n_groups": mixer.groups,
        "mamba_d_state": mixer.state,
        "mamba_d_conv": mixer.conv_kernel,
        "mamba_chunk_size": mixer.chunk,
        "mamba_conv_bias": mixer.conv_bias,
        "mamba_proj_bias": mixer.bias,
        "projectors_bias": mixer.bias,
        "mamba_rms_norm": mixer.gated_norm,
        "mamba_norm_before_gate": False,
        "embedding_multiplier": own.embedding_scale or 1.0,
        "lm_head_multiplier": own.logit_scale or 1.0,
        **{
            hf_numerics.PARTS[name]: list(value) if isinstance(value, tuple) else value
            for name, value in scales.items()
        },
    }


def _jamba(
    mixer: Mamba1, attends: Sequence[bool], sparse: Sequence[bool], own: Numerics, hidden: int
) -> Fields:
    router, (period, offset) = own.router, _period(attends)
    expert_period, expert_offset = _period(sparse) if any(sparse) else (1, 0)
    loss = router.aux_loss if router else None
    fields: Fields = {
        "hidden_act": own.activation or "silu",
        "rms_norm_eps": own.norm_epsilon or 1e-6,
        "attn_layer_period": period,
        "attn_layer_offset": offset,
        "expert_layer_period": expert_period,
        "expert_layer_offset": expert_offset,
        "mamba_d_state": mixer.state,
        "mamba_d_conv": mixer.conv_kernel,
        "mamba_expand": mixer.inner // hidden,
        "mamba_dt_rank": mixer.step_rank,
        "mamba_conv_bias": mixer.conv_bias,
        "mamba_proj_bias": mixer.bias,
    }
    if not any(sparse):
        fields |= {"num_experts": 1, "num_experts_per_tok": 1}
    return (
        fields if loss is None else fields | {"router_aux_loss_coef": loss, "output_router_logits": loss > 0}
    )


def _period(there: Sequence[bool]) -> tuple[int, int]:
    """Return the distance of the first two layers that have something, and the number of the first."""
    places = [place for place, one in enumerate(there) if one]
    return (places[1] - places[0] if len(places) > 1 else len(there)), places[0]


def _is_falcon_h1(model: ModelSpec) -> bool:
    return _with(Mamba2)(model) and all(block.beside for block in model.blocks.values())


def _is_granite(model: ModelSpec) -> bool:
    return _with(Mamba2)(model) and not any(block.beside for block in model.blocks.values())


def _granite(model: ModelSpec) -> Fields:
    """Return the keys of Granite 4: layers of Mamba-2 or attention, experts beside a shared one or none."""
    own, mixer, attention = model.numerics, model.recurrents[0], model.attentions[0]
    assert isinstance(mixer, Mamba2)
    assert isinstance(attention, Attention)
    experts = next(iter(model.expert_kinds), None)
    dense = next((ffn for ffn in model.ffns if isinstance(ffn, DenseFfn)), None)
    loss = own.router.aux_loss if own.router else None
    fields: Fields = {
        "layer_types": ["attention" if model.blocks[name].attention else "mamba" for name in model.layers],
        "position_embedding_type": "rope" if attention.rotary else "nope",
        "attention_bias": attention.qkv_bias,
        "hidden_act": own.activation or "silu",
        "rms_norm_eps": own.norm_epsilon or 1e-5,
        "attention_multiplier": own.attention_scale or attention.head_dim**-0.5,
        "embedding_multiplier": own.embedding_scale or 1.0,
        "residual_multiplier": own.residual_scale or 1.0,
        "logits_scaling": 1 / (own.logit_scale or 1.0),
        "shared_intermediate_size": dense.inner if dense else experts.shared_inner if experts else 0,
        "intermediate_size": experts.inner if experts else dense.inner if dense else 0,
        "num_local_experts": experts.experts if experts else 0,
        "num_experts_per_tok": experts.topk if experts else 0,
        "mamba_n_heads": mixer.heads,
        "mamba_d_head": mixer.head_dim,
        "mamba_n_groups": mixer.groups,
        "mamba_d_state": mixer.state,
        "mamba_d_conv": mixer.conv_kernel,
        "mamba_expand": mixer.heads * mixer.head_dim // model.hidden,
        "mamba_chunk_size": mixer.chunk,
        "mamba_conv_bias": mixer.conv_bias,
        "mamba_proj_bias": mixer.bias,
    }
    if attention.rotary:
        fields["rope_parameters"] = {"rope_type": "default", "rope_theta": own.rope_theta or 1e4}
    return (
        fields if loss is None else fields | {"router_aux_loss_coef": loss, "output_router_logits": loss > 0}
    )


HYBRIDS: Final = {
    "granitemoehybrid": HubType(
        "GraniteMoeHybridForCausalLM", "GraniteMoeHybridDecoderLayer", _is_granite, _granite, REGULAR,
    ),
    "falcon_h1": HubType("FalconH1ForCausalLM", "FalconH1DecoderLayer", _is_falcon_h1, _hybrid, REGULAR),
    "lfm2": HubType("Lfm2ForCausalLM", "Lfm2DecoderLayer", _with(ShortConv, False), _hybrid, REGULAR),
    "lfm2_moe": HubType(
        "Lfm2MoeForCausalLM", "Lfm2MoeDecoderLayer", _with(ShortConv, True), _hybrid, REGULAR
    ),
    "jamba": HubType(
        "JambaForCausalLM", "JambaAttentionDecoderLayer,JambaMambaDecoderLayer", _with(Mamba1), _hybrid,
        REGULAR,
    ),
}  # fmt: skip
"""Type to how it is written."""


PACKAGES: Final = {GatedDelta: "flash-linear-attention and causal-conv1d",
                   Mamba1: "mamba-ssm and causal-conv1d", Mamba2: "mamba-ssm and causal-conv1d",
                   ShortConv: "causal-conv1d"}  # fmt: skip
"""What holds the kernels of a mixer, without which transformers runs plain PyTorch in their place."""


def kernel_notes(model: ModelSpec) -> tuple[str, ...]:
    """Return for the run card which packages the price takes to be there."""
    needed = sorted({PACKAGES[type(one)] for one in model.recurrents if type(one) in PACKAGES})
    return tuple(
        f"Install {names}: without their kernels transformers falls back to plain PyTorch, which is correct, "
        "many times slower and keeps more, and no price here is for it."
        for names in needed
    )
