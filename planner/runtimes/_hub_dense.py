"""Gemma, GLM-4, OLMo, OPT, Phi, Pythia, StableLM: layers of attention that other types of the hub have not.

The names of classes, keys and linear layers are those of transformers 5.24, ``models/<type>``; what a layer
keeps for backward was counted there (``tests/validate/test_hub_types.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from planner.inputs.model import Attention, DenseFfn, Experts, ModelSpec
from planner.runtimes._hub_numerics import hub_scaling
from planner.runtimes._hub_types import REGULAR, Fields, HubType

FP32_NORM: Final = {"unfused_norm_bytes": 6.0}
"""Bytes of an element that norms keep which multiply by their weight in fp32: the trait says which. [byte]"""

_NO_DROPOUT: Final[Fields] = {"attention_dropout": 0.0}


def _like(
    *,
    norm: str = "rmsnorm",
    bias: bool = False,
    variants: Iterable[str] = (),
    gated: bool = True,
    norms: int = 2,
    experts: bool = False,
    learned: bool = False,
) -> Callable[[ModelSpec], bool]:
    """Return the question whether a model has plain attention in all layers, and such norms and blocks."""
    wanted = (norm, bias, tuple(variants), learned)

    def is_like(model: ModelSpec) -> bool:
        found = (model.norm, model.norm_bias, model.variants, model.learned_positions)
        block = model.blocks[model.layers[0]]
        fed = isinstance(block.ffn, Experts if experts else DenseFfn) and block.ffn.gated == gated
        plain = isinstance(block.mixer, Attention) and block.mixer.window is None
        return found == wanted and fed and plain and block.norms == norms and len(set(model.layers)) == 1

    return is_like


def _mixer(model: ModelSpec) -> Attention:
    mixer = model.attentions[0]
    assert isinstance(mixer, Attention)
    return mixer


def _inner(model: ModelSpec) -> int:
    return model.ffns[0].inner


def _rotary(model: ModelSpec) -> Fields:
    """Return base, share and stretching of rotary positions, as transformers 5 writes them."""
    own = model.numerics
    parameters: Fields = {"rope_type": "default"}
    if own.rope_scaling is not None:
        parameters |= hub_scaling(own.rope_scaling)
    parameters |= {"rope_theta": own.rope_theta or 10000.0}
    if own.rope_fraction is not None:
        parameters |= {"partial_rotary_factor": own.rope_fraction}
    return {"rope_parameters": parameters}


def _gated(model: ModelSpec) -> Fields:
    """Return the keys of a gated feed-forward with root-mean-square norms."""
    own = model.numerics
    return _NO_DROPOUT | _rotary(model) | {
        "intermediate_size": _inner(model),
        "hidden_act": "gelu_pytorch_tanh" if own.activation == "gelu_tanh" else own.activation or "silu",
        "rms_norm_eps": own.norm_epsilon or 1e-6,
        "attention_bias": _mixer(model).qkv_bias,
    }  # fmt: skip


def _gemma(model: ModelSpec) -> Fields:
    fields = _gated(model)
    return fields | {"head_dim": _mixer(model).head_dim, "hidden_activation": fields["hidden_act"]}


def _glm4(model: ModelSpec) -> Fields:
    return _gated(model) | {"head_dim": _mixer(model).head_dim, "pad_token_id": None}


def _olmo(model: ModelSpec) -> Fields:
    return _gated(model) | {"clip_qkv": model.numerics.qkv_clip}


def _olmoe(model: ModelSpec) -> Fields:
    experts, router = model.expert_kinds[0], model.numerics.router
    fields = _olmo(model) | {
        "num_experts": experts.experts,
        "num_experts_per_tok": experts.topk,
        "norm_topk_prob": bool(router and router.normalize),
    }
    if router is None or router.aux_loss is None:
        return fields
    return fields | {"router_aux_loss_coef": router.aux_loss, "output_router_logits": bool(router.aux_loss)}


def _opt(model: ModelSpec) -> Fields:
    return _NO_DROPOUT | {
        "ffn_dim": _inner(model),
        "word_embed_proj_dim": model.hidden,
        "max_position_embeddings": (model.max_positions or 2) - 2,
        "activation_function": model.numerics.activation or "relu",
        "enable_bias": _mixer(model).qkv_bias,
        "do_layer_norm_before": True,
        "dropout": 0.0,
        "layerdrop": 0.0,
    }  # fmt: skip


def _phi(model: ModelSpec) -> Fields:
    return _NO_DROPOUT | _rotary(model) | {
        "intermediate_size": _inner(model),
        "hidden_act": "gelu_pytorch_tanh" if model.numerics.activation == "gelu_tanh" else "gelu",
        "layer_norm_eps": model.numerics.norm_epsilon or 1e-5,
        "resid_pdrop": 0.0,
        "embd_pdrop": 0.0,
    }  # fmt: skip


def _gpt_neox(model: ModelSpec) -> Fields:
    return _phi(model) | {
        "use_parallel_residual": "parallel-blocks" in model.variants,
        "attention_bias": _mixer(model).qkv_bias,
        "hidden_dropout": 0.0,
    }  # fmt: skip


def _stablelm(model: ModelSpec) -> Fields:
    return _gated(model) | {
        "layer_norm_eps": model.numerics.norm_epsilon or 1e-5,
        "use_qkv_bias": _mixer(model).qkv_bias,
        "qk_layernorm": _mixer(model).qk_norm != "none",
        "use_parallel_residual": False,
        "hidden_dropout": 0.0,
    }  # fmt: skip


_NEOX_LAYERS: Final = {
    "qkv": ("query_key_value",), "proj": ("attention.dense",), "fc1": ("dense_h_to_4h",),
    "fc2": ("dense_4h_to_h",),
}  # fmt: skip
_PARALLEL = ("parallel-blocks",)

DENSE: Final = {
    "gemma": HubType(
        "GemmaForCausalLM", "GemmaDecoderLayer", _like(), _gemma, REGULAR, FP32_NORM
    ),
    "glm4": HubType(
        "Glm4ForCausalLM", "Glm4DecoderLayer", _like(norms=4), _glm4, REGULAR | {"fc1": ("gate_up_proj",)}
    ),
    "olmo": HubType(
        "OlmoForCausalLM", "OlmoDecoderLayer", _like(norm="layernorm", variants=("bare-norms",)), _olmo,
        REGULAR, {"norm_reads_fp32": True},
    ),
    "olmo2": HubType(
        "Olmo2ForCausalLM", "Olmo2DecoderLayer", _like(variants=("norms-after",)), _gated, REGULAR, FP32_NORM
    ),
    "olmoe": HubType("OlmoeForCausalLM", "OlmoeDecoderLayer", _like(experts=True), _olmoe, {}, FP32_NORM),
    "opt": HubType(
        "OPTForCausalLM", "OPTDecoderLayer",
        _like(norm="layernorm", bias=True, gated=False, learned=True), _opt,
        {"qkv": REGULAR["qkv"], "proj": ("out_proj",), "fc1": ("fc1",), "fc2": ("fc2",)},
    ),
    "phi": HubType(
        "PhiForCausalLM", "PhiDecoderLayer",
        _like(norm="layernorm", bias=True, gated=False, norms=1, variants=(*_PARALLEL, "head-bias")), _phi,
        {"qkv": REGULAR["qkv"], "proj": ("dense",), "fc1": ("fc1",), "fc2": ("fc2",)},
    ),
    "gpt_neox": HubType(
        "GPTNeoXForCausalLM", "GPTNeoXLayer",
        _like(norm="layernorm", bias=True, gated=False, variants=_PARALLEL), _gpt_neox, _NEOX_LAYERS,
        {"chained_rope": "joined"},
    ),
    "stablelm": HubType(
        "StableLmForCausalLM", "StableLmDecoderLayer", _like(norm="layernorm", bias=True), _stablelm, REGULAR
    ),
}  # fmt: skip
"""Type to how it is written."""
