"""BLOOM, Falcon, GPT-J, GPT-Neo, MPT, StarCoder, Command-R, Nemotron: layer norms, layers by their own keys.

Read in transformers 5.23, ``models/<type>``.
"""

from __future__ import annotations

from functools import partial
from itertools import groupby
from typing import Final

from planner.inputs.model import ModelSpec
from planner.runtimes.hub.fields import (
    NO_DROPOUT,
    gated_fields,
    inner_of,
    known,
    like,
    mixer_of,
    rotary,
    rotary_part,
    without,
    word_of,
)
from planner.runtimes.hub.types import REGULAR, Fields, HubType

_GPT: Final = {"hidden_size": "n_embd", "num_hidden_layers": "n_layer", "num_attention_heads": "n_head"}
_MOSAIC: Final = {
    "hidden_size": "d_model", "num_hidden_layers": "n_layers", "num_attention_heads": "n_heads",
    "max_position_embeddings": "max_seq_len",
}  # fmt: skip
_QUIET: Final[Fields] = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}


def _epsilon(model: ModelSpec) -> Fields:
    return known(layer_norm_epsilon=model.numerics.norm_epsilon)


def _bloom(model: ModelSpec) -> Fields:
    return NO_DROPOUT | _epsilon(model) | {"hidden_dropout": 0.0}


def _falcon(model: ModelSpec) -> Fields:
    mixer, block = mixer_of(model), model.blocks[model.layers[0]]
    beside = "parallel-blocks" in model.variants
    one = mixer.kv_heads == 1
    new = not one and mixer.kv_heads != mixer.heads
    return NO_DROPOUT | rotary(model) | _epsilon(model) | {
        "new_decoder_architecture": new,
        "multi_query": one,
        "num_kv_heads": mixer.kv_heads,
        "parallel_attn": beside,
        "num_ln_in_parallel_attn": block.norms if beside and new else None,
        "alibi": "alibi" in model.variants,
        "bias": mixer.qkv_bias,
        "ffn_hidden_size": inner_of(model),
        "hidden_dropout": 0.0,
    } | known(activation=model.numerics.activation)  # fmt: skip


def _gptj(model: ModelSpec) -> Fields:
    share = model.numerics.rope_fraction or 1.0
    return _QUIET | _epsilon(model) | {
        "n_inner": inner_of(model),
        "n_positions": model.max_positions,
        "rotary_dim": round(share * mixer_of(model).head_dim),
    } | known(activation_function=word_of(model))  # fmt: skip


def _gpt_neo(model: ModelSpec) -> Fields:
    mixers = [model.blocks[name].attention for name in model.layers]
    words = ["local" if mixer and mixer.window else "global" for mixer in mixers]
    windows = [mixer.window for mixer in mixers if mixer and mixer.window]
    return NO_DROPOUT | _epsilon(model) | {
        "intermediate_size": inner_of(model),
        "attention_layers": words,
        "attention_types": [[[word], len(list(run))] for word, run in groupby(words)],
        "window_size": windows[0] if windows else 256,
        "max_position_embeddings": model.max_positions,
        "resid_dropout": 0.0,
        "embed_dropout": 0.0,
    } | known(activation_function=word_of(model))  # fmt: skip


def _mpt(model: ModelSpec) -> Fields:
    clip = known(clip_qkv=model.numerics.qkv_clip)
    return _epsilon(model) | {
        "attn_config": {"alibi": True, "attn_pdrop": 0, "qk_ln": False, "prefix_lm": False} | clip,
        "expansion_ratio": inner_of(model) // model.hidden,
        "no_bias": True,
        "resid_pdrop": 0.0,
        "emb_pdrop": 0.0,
    }  # fmt: skip


def _bigcode(model: ModelSpec) -> Fields:
    return _QUIET | _epsilon(model) | {
        "multi_query": True,
        "n_inner": inner_of(model),
        "n_positions": model.max_positions,
    } | known(activation_function=word_of(model))  # fmt: skip


def _cohere(model: ModelSpec) -> Fields:
    own = model.numerics
    numbers = known(layer_norm_eps=own.norm_epsilon, logit_scale=own.logit_scale)
    return gated_fields(model) | numbers | {"use_qk_norm": mixer_of(model).qk_norm != "none"}


def _nemotron(model: ModelSpec) -> Fields:
    return gated_fields(model) | rotary_part(model) | known(norm_eps=model.numerics.norm_epsilon) | {
        "head_dim": mixer_of(model).head_dim,
        "mlp_bias": model.ffns[0].bias,
    }  # fmt: skip


_JOINED: Final = {"fc1": ("dense_h_to_4h",), "fc2": ("dense_4h_to_h",)}
_BLOOM: Final = _JOINED | {"qkv": ("query_key_value",), "proj": ("self_attention.dense",)}
_OUT: Final = REGULAR | {"proj": ("out_proj",)}
_SIDE: Final = ("parallel-blocks",)
_ALONE: Final = without("num_key_value_heads")
_layered = partial(like, norm="layernorm", bias=True, gated=False)


def _is_falcon(model: ModelSpec) -> bool:
    return any(_layered(variants=_SIDE, norms=norms)(model) for norms in (1, 2))


def _is_nemotron(model: ModelSpec) -> bool:
    """Whether it may be, not StarCoder2: by the activation, which alone tells them apart."""
    return model.numerics.activation == "relu2" and _layered()(model)


OLDER: Final = {
    "bloom": HubType(
        "BloomForCausalLM", "BloomBlock", _layered(variants=("alibi", "embedding-norm")), _bloom, _BLOOM,
        names=_GPT | _ALONE | without("max_position_embeddings") | {"hidden_size": "hidden_size"},
    ),
    "falcon": HubType(
        "FalconForCausalLM", "FalconDecoderLayer", _is_falcon, _falcon, _BLOOM,
        names={"num_key_value_heads": "num_kv_heads"}, native=False,
    ),
    "gptj": HubType(
        "GPTJForCausalLM", "GPTJBlock", _layered(variants=(*_SIDE, "head-bias"), norms=1), _gptj,
        _OUT | {"fc1": ("fc_in",), "fc2": ("fc_out",)}, names=_GPT | _ALONE, native=False,
    ),
    "gpt_neo": HubType(
        "GPTNeoForCausalLM", "GPTNeoBlock", _layered(learned=True, mixed=True), _gpt_neo,
        _OUT | {"fc1": ("c_fc",), "fc2": ("c_proj",)}, native=False,
        names=_ALONE | {"num_hidden_layers": "num_layers", "num_attention_heads": "num_heads"},
    ),
    "mpt": HubType(
        "MptForCausalLM", "MptBlock", like(norm="layernorm", gated=False, variants=("alibi",)), _mpt,
        {"qkv": ("Wqkv",), "proj": ("out_proj",), "fc1": ("up_proj",), "fc2": ("down_proj",)},
        names=_MOSAIC | _ALONE,
    ),
    "gpt_bigcode": HubType(
        "GPTBigCodeForCausalLM", "GPTBigCodeBlock", _layered(learned=True), _bigcode,
        {"qkv": ("c_attn",), "proj": ("attn.c_proj",), "fc1": ("c_fc",), "fc2": ("mlp.c_proj",)},
        names=_GPT | _ALONE,
    ),
    "cohere": HubType(
        "CohereForCausalLM", "CohereDecoderLayer", like(norm="layernorm", variants=_SIDE, norms=1), _cohere,
        REGULAR, {"norms": "fp32-layer-norm"}, names=without("rms_norm_eps"),
    ),
    "nemotron": HubType(
        "NemotronForCausalLM", "NemotronDecoderLayer", _is_nemotron, _nemotron,
        REGULAR | {"fc1": ("up_proj",)}, names=without("rms_norm_eps"),
    ),
}  # fmt: skip
"""Type to how it is written."""
