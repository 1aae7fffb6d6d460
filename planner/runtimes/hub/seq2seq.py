"""T5, BART and mBART: an encoder, and a decoder that attends to its result.

Read in transformers 5.23, ``models/t5``, ``bart`` and ``mbart``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from planner.inputs.encoder import Encoder
from planner.inputs.hf_seq2seq import SOURCE
from planner.inputs.model import Block, ModelSpec
from planner.runtimes.hub.fields import FP32_NORM, inner_of, known, mixer_of, without, word_of
from planner.runtimes.hub.types import Fields, HubType

_QUIET: Final[Fields] = {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0}


def _encoder(model: ModelSpec) -> Encoder:
    if model.encoder is None:
        raise AssertionError("an encoder-decoder without an encoder")
    return model.encoder


def _of_text(norm: str, variants: tuple[str, ...], model: ModelSpec) -> bool:
    """Whether it is an encoder-decoder of text with such norms and variants."""
    reads = model.crosses and _encoder(model).stem is None
    return reads and (model.norm, model.variants) == (norm, variants)


def _first(encoder: Encoder) -> tuple[Block, int, int]:
    """Return the first layer of an encoder, its heads and the width of its feed-forward."""
    block = encoder.blocks[encoder.layers[0]]
    heads = block.attention.heads if block.attention else 0
    return block, heads, block.ffn.inner if block.ffn else 0


def _bart(model: ModelSpec) -> Fields:
    encoder, scale = _encoder(model), model.numerics.embedding_scale
    _, heads, inner = _first(encoder)
    return _QUIET | {
        "is_encoder_decoder": True,
        "encoder_layers": len(encoder.layers),
        "encoder_attention_heads": heads,
        "encoder_ffn_dim": inner,
        "decoder_attention_heads": mixer_of(model).heads,
        "decoder_ffn_dim": inner_of(model),
        "max_position_embeddings": model.max_positions,
        "scale_embedding": scale is not None,
        **({} if encoder.patches == model.max_positions else {SOURCE: encoder.patches}),
    } | known(activation_function=model.numerics.activation)  # fmt: skip


def _t5(model: ModelSpec) -> Fields:
    """Return the keys of T5; of both spellings of GELU by tanh that which is one kernel."""
    encoder, own, mixer = _encoder(model), model.numerics, mixer_of(model)
    first, _, _ = _first(encoder)
    gated = first.ffn is not None and first.ffn.gated
    return {
        "is_encoder_decoder": True,
        "num_layers": len(encoder.layers),
        "num_decoder_layers": model.num_layers,
        "d_kv": mixer.head_dim,
        "d_ff": inner_of(model),
        "relative_attention_num_buckets": mixer.distances,
        SOURCE: encoder.patches,
        "feed_forward_proj": f"{'gated-' * gated}{word_of(model)}",
        "dropout_rate": 0.0,
        "tie_word_embeddings": own.logit_scale is not None,
    } | known(layer_norm_epsilon=own.norm_epsilon)


def _halves(network: str, layers: str, variants: tuple[str, ...]) -> HubType:
    names = without("num_key_value_heads", "num_attention_heads") | {
        "hidden_size": "d_model", "num_hidden_layers": "decoder_layers", "initializer_range": "init_std",
    }  # fmt: skip
    may_be: Callable[[ModelSpec], bool] = partial(_of_text, "layernorm", variants)
    return HubType(network, layers, may_be, _bart, names=names, notes=NOTES)


NOTES: Final = (
    "Of each block of DATA_PATH the encoder reads the first SOURCE_LEN tokens, and the decoder goes on from "
    "them: change Reader.batches in train.py for pairs of your own.",
)

SEQ2SEQ: Final = {
    "t5": HubType(
        "T5ForConditionalGeneration", "T5Block", partial(_of_text, "rmsnorm", ("distance-biases",)), _t5,
        traits={"attention": "unfused", "score_bytes": 2.0, **FP32_NORM}, notes=NOTES,
        names=without("num_key_value_heads", "max_position_embeddings", "num_hidden_layers")
        | {"hidden_size": "d_model", "num_attention_heads": "num_heads"},
    ),
    "bart": _halves(
        "BartForConditionalGeneration", "BartEncoderLayer,BartDecoderLayer",
        ("norms-on-sums", "embedding-norm"),
    ),
    "mbart": _halves(
        "MBartForConditionalGeneration", "MBartEncoderLayer,MBartDecoderLayer", ("embedding-norm",)
    ),
}  # fmt: skip
"""Type to how it is written."""
