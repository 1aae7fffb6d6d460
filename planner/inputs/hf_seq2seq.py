"""Encoder-decoders of Hugging Face configs: an encoder, and a decoder whose layers attend to its result.

Read in huggingface/transformers v5.23.0, ``src/transformers/models/<type>/``: bart, plbart, mbart, marian,
pegasus, m2m_100, t5, mt5, umt5 and whisper, the class ``...ForConditionalGeneration`` (``MarianMTModel``);
defaults are those of their configurations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from planner.errors import InputError, Problem
from planner.inputs.build import build
from planner.inputs.hf_keys import Keys, near_misses
from planner.inputs.hf_numerics import ACTIVATIONS
from planner.inputs.hf_towers import whisper_layers
from planner.inputs.hf_vision_parts import Fields, Vision, attention_of, block_of
from planner.inputs.model import ModelSpec

USUAL_SOURCE: Final = 512
"""Tokens of a source where positions have no table: those of T5's own training (C. Raffel et al.,
arXiv:1910.10683, sec. 3.1.2). [element]"""

SOURCE: Final = "n_positions"
"""Key that no code reads, of how long sources are: T5's checkpoints have it, and files written from here."""

TIES: Final = (
    "the class ties the head to the table whatever tie_word_embeddings says; one that is loaded from weights "
    "with a head of their own, such as Flan-T5's, stays apart: {more:,} parameters more than here"
)
"""What is told of a T5 that says false (transformers 5.23, ``T5Config.__post_init__``; ``modeling_utils.py``,
``tie_weights``: two tables with different values are not tied)."""

_NOISE: Final = ("dropout", "attention_dropout", "activation_dropout", "dropout_rate", "encoder_layerdrop",
                 "decoder_layerdrop")  # fmt: skip


def is_seq2seq(raw: Mapping[str, Any]) -> bool:
    """Whether a config is that of an encoder-decoder which is read."""
    return str(raw.get("model_type")) in READERS and raw.get("is_encoder_decoder", True) is True


def seq2seq_from_config(raw: Mapping[str, Any], where: str, name: str) -> tuple[ModelSpec, tuple[str, ...]]:
    """Return the encoder-decoder that a config describes, and what its reader assumed.

    Raises `InputError` if a field is no whole number above zero, or says what the record cannot express.
    """
    faults: list[tuple[str, str]] = []
    keys = Keys(raw, set())
    record = READERS[str(raw["model_type"])](Vision(keys, faults, keys))
    tied = keys.get("tie_word_embeddings")
    expected = "a whole number above zero, or a value of the type that is expressed exactly"
    problems = [Problem(f"{where}: {key}", value, expected) for key, value in faults]
    for wrong, meant in near_misses(raw, keys.asked, _NOISE):
        problems.append(Problem(f"{where}: {wrong}", "no key that is read", meant))
    if problems:
        raise InputError(problems)
    tokens = record["encoder"]["patches"]
    notes = [
        f"the encoder reads {tokens:,} rows for each sequence (encoder.patches), the decoder as many tokens "
        "as --seq-len says"
    ]
    if tied is False and str(raw["model_type"]).endswith("t5"):
        more = int(record["vocab"]) * int(record["hidden"])
        notes.append(TIES.format(more=more))
    if "sine-positions" in record.get("variants", ()) and record["learned_positions"]:
        notes.append("tables of sines count as the class counts them, with states, though they do not learn")
    noise = [f"{key} {raw[key]}"[:60] for key in _NOISE if raw.get(key)]
    if noise:
        notes.append(f"{', '.join(noise)}: not read, since dropout and noise belong to the run")
    whole = {"name": name, "note": "; ".join(notes), **record}
    return build(ModelSpec, whole, where), tuple(notes)


def _decoding(mixer: Fields, more: Fields) -> Fields:
    """Return attention of a decoder's tokens to those before them, without rotary positions."""
    return {**mixer, "causal": True, "rotary": False, **more}


def _reading(mixer: Fields) -> Fields:
    return {**mixer, "causal": False, "rotary": False}


def _word(config: Vision, key: str, default: str) -> str:
    """Return an activation as the record spells it."""
    said = config.raw.get(key, default)
    if said not in ACTIVATIONS:
        config.faults.append((key, repr(said)[:40]))
    return ACTIVATIONS.get(str(said), "gelu")


def _fixed(config: Vision, key: str, wanted: object) -> None:
    """Note a fault where a key has another value than the one that is expressed."""
    if config.raw.get(key, wanted) != wanted:
        config.faults.append((key, repr(config.raw[key])[:40]))


def _number(config: Vision, key: str, default: float) -> float:
    value = config.raw.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        config.faults.append((key, repr(value)[:40]))
        return default
    return float(value)


class _Halves:
    """Widths of BART's kind of config: a side of its own for encoder and decoder."""

    def __init__(self, config: Vision, hidden: int, heads: int, inner: int, layers: int) -> None:
        self.hidden = config.whole("d_model", hidden)
        self.heads, self.inner, self.layers = (
            {side: config.whole(f"{side}_{word}", default) for side in ("encoder", "decoder")}
            for word, default in (("attention_heads", heads), ("ffn_dim", inner), ("layers", layers))
        )

    def attention(self, config: Vision, side: str) -> Fields:
        """Return the attention of a side, as that of an encoder."""
        return attention_of(config, self.heads[side], self.hidden)

    def record(self, config: Vision, keys: Fields) -> Fields:
        """Return the decoder; ``keys`` say what is other than usual of its attention."""
        mixer = self.attention(config, "decoder") | keys
        block = block_of(_decoding(mixer, {}), self.inner["decoder"])
        block |= {"cross": _reading(mixer), "norms": 3}
        scale = math.sqrt(self.hidden) if config.raw.get("scale_embedding") else None
        return {
            "hidden": self.hidden,
            "tied_embeddings": config.raw.get("tie_word_embeddings", True) is True,
            "learned_positions": True,
            "norm": "layernorm",
            "norm_bias": True,
            "blocks": {"decoder": block},
            "layers": f"{self.layers['decoder']} decoder",
            "numerics": {
                "norm_epsilon": 1e-5,
                "init_std": _number(config, "init_std", 0.02),
                "activation": _word(config, "activation_function", "gelu"),
                **({"embedding_scale": scale} if scale else {}),
            },
        }


_BART: Final = (1024, 16, 4096, 12)
"""Widths, heads, feed-forward's width and layers that a config may leave out."""


def _bart(config: Vision, before: bool = False, usual: tuple[int, int, int, int] = _BART) -> Fields:
    """Return BART, with norms on sums, or mBART, whose norms stand ``before`` its parts and at the end.

    Without ``tie_word_embeddings`` the class has four tables, of which it uses three.
    """
    _fixed(config, "tie_word_embeddings", True)
    halves = _Halves(config, *usual)
    rows = config.whole("max_position_embeddings", 1024)
    block = block_of(_reading(halves.attention(config, "encoder")), halves.inner["encoder"])
    return halves.record(config, {}) | {
        "vocab": config.whole("vocab_size", 50265),
        "max_positions": rows,
        "spare_positions": 2,
        "variants": ["embedding-norm"] if before else ["norms-on-sums", "embedding-norm"],
        "final_norm": before,
        "encoder": {
            "name": "source",
            "hidden": halves.hidden,
            "norms": 1 + before,
            "blocks": {"source": block},
            "layers": f"{halves.layers['encoder']} source",
            "positions": rows + 2,
            "patches": config.whole(SOURCE, rows),
        },
    }


def _sines(config: Vision, usual: Mapping[str, Any], before: bool = True, table: bool = True) -> Fields:
    """Return a kind of BART whose positions are sines, with no norm after the embedding.

    Their ``table`` counts as parameters where the class has one, and does not learn.
    """
    raw = {**usual, **config.raw}
    record = _bart(Vision(raw, config.faults, config.raw), before)
    _fixed(config, "share_encoder_decoder_embeddings", True)
    if config.raw.get("decoder_vocab_size") not in (None, raw["vocab_size"]):
        config.faults.append(("decoder_vocab_size", repr(config.raw["decoder_vocab_size"])[:40]))
    encoder = {name: value for name, value in record["encoder"].items() if table or name != "positions"}
    rows = {"positions": record["max_positions"]} if table else {}
    return record | {
        "spare_positions": 0,
        "learned_positions": table,
        "variants": ["sine-positions"] if before else ["norms-on-sums", "sine-positions"],
        "encoder": encoder | {"norms": int(before)} | rows,
    }


def _whisper(config: Vision) -> Fields:
    """Return Whisper: clips of 30 seconds, of which the encoder sees 1,500 rows; keys have no bias."""
    halves = _Halves(config, 384, 6, 1536, 4)
    sides = (halves.layers["encoder"], halves.hidden, halves.heads["encoder"], halves.inner["encoder"])
    encoder = whisper_layers(Vision({"num_mel_bins": 80, **config.raw}, config.faults, config.raw), *sides)
    heard = encoder["blocks"]["audio"]
    encoder["blocks"]["audio"] = heard | {"mixer": _reading(heard["mixer"])}
    return halves.record(config, {"key_bias": False}) | {
        "vocab": config.whole("vocab_size", 51865),
        "max_positions": config.whole("max_target_positions", 448),
        "encoder": encoder,
    }


def _t5(config: Vision, usual: Mapping[str, Any], every: bool = False, scaled: bool | None = None) -> Fields:
    """Return T5: no biases, scores that are not scaled, a table of their biases by distance in each half.

    Where ``every`` layer has a table, each makes biases of its own (umT5).

    The code ties the head to the table whatever ``tie_word_embeddings`` says, which tells T5 alone whether
    the head's input is ``scaled`` (``T5Config.__post_init__``); mT5's never is, umT5's always.
    """
    config = Vision({**usual, **config.raw}, config.faults, config.raw)
    hidden, heads, width = (config.whole(key, 1) for key in ("d_model", "num_heads", "d_kv"))
    layers = config.whole("num_layers", 1)
    deep = layers if config.raw.get("num_decoder_layers") is None else config.whole("num_decoder_layers", 1)
    kind = str(config.raw["feed_forward_proj"])
    gated, word = kind.startswith("gated-"), kind.removeprefix("gated-")
    if word not in ACTIVATIONS:
        config.faults.append(("feed_forward_proj", repr(kind)[:40]))
    mixer = {"kind": "attention", "heads": heads, "kv_heads": heads, "head_dim": width}
    first = {"distances": config.whole("relative_attention_num_buckets", 32)}
    rest = first if every else {}
    inner = config.whole("d_ff", 1)
    readers, writers = (
        {name: block_of(turn(mixer, more), inner, gated, bias=False) for name, more in named.items()}
        for turn, named in (
            (lambda one, more: _reading(one) | more, {"source-first": first, "source": rest}),
            (_decoding, {"first": first, "decoder": rest}),
        )
    )
    writers = {name: block | {"cross": _reading(mixer), "norms": 3} for name, block in writers.items()}
    if scaled is None:
        scaled = config.raw.get("tie_word_embeddings", True) is not False
    return {
        "hidden": hidden,
        "vocab": config.whole("vocab_size", 1),
        "tied_embeddings": True,
        "variants": ["distance-biases"],
        **_in_order(writers, deep),
        "numerics": {
            "norm_epsilon": _number(config, "layer_norm_epsilon", 1e-6),
            "activation": ACTIVATIONS.get("gelu_new" if kind == "gated-gelu" else word, "relu"),
            "attention_scale": 1.0,
            **({"logit_scale": hidden**-0.5} if scaled else {}),
        },
        "encoder": {
            "name": "source",
            "hidden": hidden,
            "norm": "rmsnorm",
            "norm_bias": False,
            "norms": 1,
            **_in_order(readers, layers),
            "patches": config.whole(SOURCE, USUAL_SOURCE),
        },
    }


_M2M: Final = {"vocab_size": 128112, "scale_embedding": True, "activation_function": "relu"}
_T5: Final = {
    "d_model": 512, "num_heads": 8, "d_kv": 64, "d_ff": 2048, "num_layers": 6, "vocab_size": 32128,
    "feed_forward_proj": "relu",
}  # fmt: skip
_MT5: Final = _T5 | {
    "num_heads": 6, "d_ff": 1024, "num_layers": 8, "vocab_size": 250112, "feed_forward_proj": "gated-gelu",
}  # fmt: skip


def _in_order(blocks: Mapping[str, Fields], layers: int) -> Fields:
    """Return blocks, of which the first stands once, in their order."""
    first, rest = blocks
    if layers == 1:
        return {"blocks": {first: blocks[first]}, "layers": f"1 {first}"}
    return {"blocks": dict(blocks), "layers": f"1 {first}, {layers - 1} {rest}"}


READERS: Final[Mapping[str, Callable[[Vision], Fields]]] = {
    "bart": _bart,
    "mbart": lambda config: _bart(config, before=True),
    "plbart": lambda config: _bart(
        Vision({"scale_embedding": True, "vocab_size": 50005, **config.raw}, config.faults, config.raw),
        usual=(768, 12, 3072, 6),
    ),
    "marian": lambda config: _sines(config, {"vocab_size": 58101}, before=False),
    "pegasus": lambda config: _sines(config, {"vocab_size": 50265}),
    "m2m_100": lambda config: _sines(config, _M2M, table=False),
    "t5": lambda config: _t5(config, _T5),
    "mt5": lambda config: _t5(config, _MT5, scaled=False),
    "umt5": lambda config: _t5(config, _MT5, every=True, scaled=True),
    "whisper": _whisper,
}
"""How an encoder-decoder of a model type is read."""
