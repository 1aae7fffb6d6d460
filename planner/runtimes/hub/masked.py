"""BERT and its kin: models that are trained to fill in masked tokens, and the script that trains them.

Read in transformers 5.23, ``models/<type>``.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from planner.inputs.model import ModelSpec
from planner.inputs.workload import Workload
from planner.rules import Rule
from planner.runtimes.hub.fields import (
    gated_fields,
    inner_of,
    known,
    like,
    mixer_of,
    rotary,
    without,
    word_of,
)
from planner.runtimes.hub.types import Fields, HubType
from planner.runtimes.hub.windows import each_kind

_QUIET: Final[Fields] = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
_ALONE: Final = without("num_key_value_heads", "use_cache")
_HEAD: Final = "head-bias"
_AFTER: Final = ("norms-on-sums", "embedding-norm", _HEAD)
_layered = partial(like, norm="layernorm", bias=True, gated=False, learned=True)


def _bert(model: ModelSpec) -> Fields:
    padding = {"pad_token_id": model.spare_positions - 1} if model.spare_positions else {}
    return _QUIET | padding | {
        "intermediate_size": inner_of(model),
        "max_position_embeddings": model.position_rows,
        "type_vocab_size": model.token_types,
    } | known(hidden_act=word_of(model), layer_norm_eps=model.numerics.norm_epsilon)  # fmt: skip


def _distilbert(model: ModelSpec) -> Fields:
    return {
        "hidden_dim": inner_of(model),
        "max_position_embeddings": model.position_rows,
        "dropout": 0.0,
        "attention_dropout": 0.0,
    } | known(activation=word_of(model))


def _rotary_bert(model: ModelSpec) -> Fields:
    own = {"head_dim": mixer_of(model).head_dim, "max_position_embeddings": model.max_positions}
    return _bert(model) | rotary(model) | own


def _modern(model: ModelSpec) -> Fields:
    """Return the keys of ModernBERT, whose window counts the keys of both sides.

    The token that fills up sequences is the first one: the type's own is none of another vocabulary.
    """
    mixers = [model.blocks[name].attention for name in model.layers]
    reaches = [mixer.window if mixer else None for mixer in mixers]
    reach = next((one for one in reaches if one), 1)
    mixer = mixer_of(model)
    return each_kind(model) | {
        "pad_token_id": 0,
        "intermediate_size": inner_of(model),
        "layer_types": ["sliding_attention" if one else "full_attention" for one in reaches],
        "local_attention": 2 * reach if mixer.causal else reach - 1,
        "attention_bias": mixer.qkv_bias,
        "mlp_bias": model.ffns[0].bias,
    } | known(hidden_activation=word_of(model), norm_eps=model.numerics.norm_epsilon)  # fmt: skip


def _eurobert(model: ModelSpec) -> Fields:
    own = {"head_dim": mixer_of(model).head_dim, "mlp_bias": model.ffns[0].bias, "pad_token_id": None}
    return gated_fields(model) | own


def masked_rule(model: ModelSpec, work: Workload) -> Rule:
    """Return the rule that what fills in masks is trained whole: the script's adapters are decoders'."""
    return Rule(
        "masks-trained-whole",
        not model.fills_masks or work.method == "full",
        lambda: (
            f"method {work.method} for {model.name}, which fills in masked tokens",
            "full training",
            "--method full",
        ),
    )


MASKED: Final = {
    "bert": HubType("BertForMaskedLM", "BertLayer", _layered(variants=_AFTER), _bert, names=_ALONE),
    "roberta": HubType("RobertaForMaskedLM", "RobertaLayer", _layered(variants=_AFTER), _bert, names=_ALONE),
    "distilbert": HubType(
        "DistilBertForMaskedLM", "TransformerBlock", _layered(variants=_AFTER), _distilbert,
        names=_ALONE
        | {"hidden_size": "dim", "num_hidden_layers": "n_layers", "num_attention_heads": "n_heads"},
    ),
    "roberta-prelayernorm": HubType(
        "RobertaPreLayerNormForMaskedLM", "RobertaPreLayerNormLayer",
        _layered(variants=("embedding-norm", _HEAD)), _bert, names=_ALONE,
    ),
    "megatron-bert": HubType(
        "MegatronBertForMaskedLM", "MegatronBertLayer", _layered(variants=(_HEAD,)), _bert,
        traits={"attention": "unfused", "score_bytes": 2.0}, names=_ALONE,
    ),
    "xlm-roberta-xl": HubType(
        "XLMRobertaXLForMaskedLM", "XLMRobertaXLLayer", _layered(variants=(_HEAD,)), _bert, names=_ALONE,
    ),
    "nomic_bert": HubType(
        "NomicBertForMaskedLM", "NomicBertLayer", like(norm="layernorm", bias=True, variants=_AFTER),
        _rotary_bert, names=_ALONE,
    ),
    "jina_embeddings_v3": HubType(
        "JinaEmbeddingsV3ForMaskedLM", "JinaEmbeddingsV3Layer",
        like(norm="layernorm", bias=True, gated=False, variants=_AFTER), _rotary_bert, names=_ALONE,
    ),
    "modernbert": HubType(
        "ModernBertForMaskedLM", "ModernBertEncoderLayer",
        like(norm="layernorm", variants=("embedding-norm-first", _HEAD), mixed=True), _modern, names=_ALONE,
        traits={"rotary_chain": "packed"},
    ),
    "modernbert-decoder": HubType(
        "ModernBertDecoderForCausalLM", "ModernBertDecoderLayer",
        like(norm="layernorm", variants=("embedding-norm-first", _HEAD), mixed=True), _modern,
        names=without("num_key_value_heads"),
    ),
    "eurobert": HubType("EuroBertForMaskedLM", "EuroBertDecoderLayer", like(), _eurobert),
}  # fmt: skip
"""Type to how it is written."""
