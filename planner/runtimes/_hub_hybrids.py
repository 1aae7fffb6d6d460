"""Short convolutions and Mamba-1 beside attention as the ``config.json`` of LFM2 or Jamba.

What is written is read again, and taken where it is the model: an order of layers, say, that no period of
Jamba's gives, is refused. Both were built and trained for a step in transformers 5.24.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from planner.deferred import deferred
from planner.errors import InputError
from planner.inputs.mixers.mamba1 import Mamba1
from planner.inputs.mixers.short_conv import ShortConv
from planner.inputs.model import Attention, DenseFfn, Experts, ModelSpec
from planner.inputs.numerics import Numerics, said
from planner.remembered import remembered

with deferred():
    from planner.inputs import hf_config

Fields = dict[str, object]

CLASSES: Final = {"lfm2": "Lfm2ForCausalLM", "lfm2_moe": "Lfm2MoeForCausalLM", "jamba": "JambaForCausalLM"}
LAYERS: Final = {
    "lfm2": "Lfm2DecoderLayer",
    "lfm2_moe": "Lfm2MoeDecoderLayer",
    "jamba": "JambaAttentionDecoderLayer,JambaMambaDecoderLayer",
}
"""Classes of layers; Accelerate takes several names with a comma between them."""


@remembered(most=64)
def hybrid_architecture(model: ModelSpec) -> str | None:
    """Return the ``model_type`` that builds exactly the model's layers, if there is one."""
    kind = _kind(model)
    if not kind:
        return None
    try:
        again = hf_config.model_from_config(hybrid_config(model, kind, 1), "config.json", model.name).model
    except InputError:
        return None
    whole = [_built(one) for one in (model, again)]
    return kind if whole[0] == whole[1] else None


def _built(model: ModelSpec) -> tuple[object, ...]:
    blocks = [model.blocks[name] for name in model.layers]
    ends = (model.hidden, model.vocab, model.tied_embeddings, model.learned_positions, model.final_norm)
    return (*ends, model.norm, model.norm_bias, model.variants, model.prediction, model.encoder, blocks)


def _kind(model: ModelSpec) -> str:
    mixers = {type(mixer) for mixer in model.recurrents}
    if not all(isinstance(one, Attention) for one in model.attentions) or not model.attentions:
        return ""
    if not model.is_whole:
        return ""
    if mixers == {Mamba1}:
        return "jamba"
    return "" if mixers != {ShortConv} else "lfm2_moe" if model.expert_kinds else "lfm2"


def hybrid_unsaid(model: ModelSpec, kind: str) -> tuple[str, ...]:
    """Return the fields of the model's numerics that the architecture reads otherwise, or not at all."""
    config = hybrid_config(model, kind, 1)
    again = said(hf_config.model_from_config(config, "config.json", model.name).model.numerics)
    own = said(model.numerics)
    return tuple(f"numerics.{name} {value}" for name, value in own.items() if again.get(name) != value)


def hybrid_config(model: ModelSpec, kind: str, seq_len: int) -> Fields:
    """Return the ``config.json`` of a model for sequences of ``seq_len``."""
    blocks = [model.blocks[name] for name in model.layers]
    attends = [block.attention is not None for block in blocks]
    sparse = [isinstance(block.ffn, Experts) for block in blocks]
    attention, mixer = model.attentions[0], model.recurrents[0]
    dense = next((ffn for ffn in model.ffns if isinstance(ffn, DenseFfn)), None)
    experts = next(iter(model.expert_kinds), None)
    own = model.numerics
    fields: Fields = {
        "architectures": [CLASSES[kind]],
        "model_type": kind,
        "vocab_size": model.vocab,
        "tie_word_embeddings": model.tied_embeddings,
        "hidden_size": model.hidden,
        "num_hidden_layers": model.num_layers,
        "num_attention_heads": attention.heads,
        "num_key_value_heads": attention.kv_heads,
        "intermediate_size": dense.inner if dense else experts.inner if experts else 0,
        "max_position_embeddings": max(model.max_positions or 0, seq_len),
        "use_cache": False,
    }
    if own.init_std is not None:
        fields["initializer_range"] = own.init_std
    if experts:
        fields |= {"num_experts": experts.experts, "num_experts_per_tok": experts.topk}
    if isinstance(mixer, Mamba1):
        return fields | _jamba(mixer, attends, sparse, own, model.hidden)
    return fields | _lfm2(mixer, attends, sparse, own, experts)


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
