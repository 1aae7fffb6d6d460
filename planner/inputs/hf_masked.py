"""Model types that are trained to fill in masked tokens, and two decoders with the same ends.

Each token sees all others, or those within a window on both sides. Read in huggingface/transformers v5.23.0,
``src/transformers/models/<type>/``: the class ``...ForMaskedLM`` is meant, without the pooled first token.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from planner.dataclasses import replace
from planner.inputs.hf_family import Family

_TIED = {"tie_word_embeddings": True}
_HEAD: Final = "head-bias"
_LEARNED: Final = "absolute"

_BERT = Family(
    defaults=_TIED | {"type_vocab_size": 2},
    norm="layernorm", gated=False, qkv_bias=True, output_bias=True, ffn_bias=True, causal=False,
    learned_positions=True, token_types="type_vocab_size", head_product=True, final_norm=False,
    variants=("norms-on-sums", "embedding-norm", _HEAD),
    fixed={"is_decoder": False, "tie_word_embeddings": True}, words={"position_embedding_type": _LEARNED},
)  # fmt: skip
_ROBERTA = replace(_BERT, defaults=dict(_BERT.defaults) | {"pad_token_id": 1}, padded_positions=True)
_ROTARY = replace(_BERT, learned_positions=False, words={"position_embedding_type": "rotary"})
_MODERN = Family(
    defaults=_TIED | {"attention_bias": False, "mlp_bias": False}, qkv_bias="attention_bias",
    output_bias="attention_bias", ffn_bias="mlp_bias", norm="layernorm", norm_bias=False, causal=False,
    reach="listed", head_product=False, variants=("embedding-norm-first", _HEAD),
    fixed={"norm_bias": False, "decoder_bias": True, "classifier_bias": False, "sparse_prediction": False},
    words={"classifier_activation": "gelu"},
)  # fmt: skip

FAMILIES: Final[Mapping[str, Family]] = {
    "bert": _BERT,
    "camembert": _ROBERTA,
    "data2vec-text": _ROBERTA,
    "distilbert": replace(
        _BERT, defaults=_TIED | {"max_position_embeddings": 512}, token_types="", dense_inner="hidden_dim",
        fixed={"sinusoidal_pos_embds": False}, words={},
        names={"hidden_size": "dim", "num_hidden_layers": "n_layers", "num_attention_heads": "n_heads"},
    ),
    "ernie": replace(_BERT, fixed=dict(_BERT.fixed) | {"use_task_id": False}),
    "eurobert": Family(
        defaults={"tie_word_embeddings": False, "attention_bias": False, "mlp_bias": False},
        qkv_bias="attention_bias", output_bias="attention_bias", ffn_bias="mlp_bias", causal=False,
    ),
    "jina_embeddings_v3": replace(_ROTARY, defaults=_TIED | {"type_vocab_size": 1}),
    "megatron-bert": replace(_BERT, final_norm=True, variants=(_HEAD,)),
    "modernbert": _MODERN,
    "modernbert-decoder": replace(_MODERN, causal=True),
    "nomic_bert": replace(_ROTARY, gated=True, qkv_bias=False, output_bias=False, ffn_bias=False),
    "openai-gpt": Family(
        defaults=_TIED, norm="layernorm", gated=False, qkv_bias=True, output_bias=True, ffn_bias=True,
        learned_positions=True, dense_inner="n_inner", final_norm=False, variants=("norms-on-sums",),
    ),
    "roberta": _ROBERTA,
    "roberta-prelayernorm": replace(_ROBERTA, final_norm=True, variants=("embedding-norm", _HEAD)),
    "xlm-roberta": _ROBERTA,
    "xlm-roberta-xl": replace(
        _ROBERTA, defaults=dict(_ROBERTA.defaults) | {"type_vocab_size": 1}, final_norm=True,
        variants=(_HEAD,),
    ),
}  # fmt: skip
"""Model type to what its code does."""

REASONS: Final[dict[str, str]] = {
    "an encoder without a head, or a decoder beside one": "bert-generation",
    "one layer that all share": "albert",
    "keys and queries of relative positions": "deberta deberta-v2",
    "relative positions in buckets": "mpnet",
    "embeddings of another width than its layers": "electra rembert convbert mobilebert",
    "windows beside tokens that see all": "big_bird longformer",
    "rotary positions of queries and keys from sines of its own": "roformer",
    "embeddings of sounds and shapes of signs": "roc_bert",
    "an adapter for each language": "xmod",
    "norms after each part, and a head of its own (XLM)": "xlm flaubert",
    "biases of the feed-forward's last product alone": "gte",
    "a head that tells which residues touch": "esm esmc",
    "Fourier transforms in place of attention": "fnet",
    "sequences that get shorter from block to block": "funnel",
    "products in whole numbers": "ibert",
    "places on a page or in a table": "layoutlm tapas",
    "entities beside its tokens": "luke",
    "attention that is approximated": "mra nystromformer yoso",
    "latent rows that read the tokens": "perceiver",
    "convolutions in groups in place of products": "squeezebert",
    "images before tokens that are filled in": "modernvbert ultravbert",
    "an encoder of its own kind, not read yet": "neomme ultrabert",
}
"""What the model record does not have, and the types of encoders that need it."""

ADDED: Final[Mapping[str, Mapping[str, Any]]] = {
    **{kind: {"layer_norm_eps": 1e-12, "hidden_act": "gelu"} for kind in FAMILIES},
    "eurobert": {"rms_norm_eps": 1e-5},
    "jina_embeddings_v3": {"layer_norm_eps": 1e-5, "hidden_act": "gelu", "rope_theta": 20000.0},
    "modernbert": {"norm_eps": 1e-5, "hidden_activation": "gelu", "rope_theta": 160000.0},
    "modernbert-decoder": {"norm_eps": 1e-5, "hidden_activation": "gelu", "rope_theta": 160000.0},
    "nomic_bert": {"layer_norm_eps": 1e-12, "rope_theta": 1000.0},
    "openai-gpt": {"layer_norm_epsilon": 1e-5, "hidden_act": "gelu_new"},
    "xlm-roberta-xl": {"layer_norm_eps": 1e-5, "hidden_act": "gelu"},
}
"""Defaults of what changes a type's function: norms, activation, positions."""

EPSILON_KEYS: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(FAMILIES, ("layer_norm_eps",)),
    "eurobert": ("rms_norm_eps",),
    "modernbert": ("norm_eps",),
    "modernbert-decoder": ("norm_eps",),
    "openai-gpt": ("layer_norm_epsilon",),
}
"""Keys of what their norms add."""


def spelt_out(text: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a config with the keys of other types for windows and positions.

    ``local_attention`` counts the keys of both sides; of the decoder half of them lie before a token.

    References
    ----------
    .. [1] Hugging Face, Transformers v5.23.0, ``models/modernbert`` and ``modernbert_decoder``.
    """
    kind, layers = text.get("model_type"), text.get("num_hidden_layers", 22)
    if kind in ("nomic_bert", "jina_embeddings_v3") and text.get("position_embedding_type") == "rotary":
        return {**text, "position_embedding_type": None}
    if kind not in ("modernbert", "modernbert-decoder"):
        return text
    side = text.get("local_attention", 128)
    side = side // 2 if isinstance(side, int) else side
    whole = text.get("global_attn_every_n_layers", 3)
    own: dict[str, Any] = {"position_embedding_type": None}  # a key of BERT's that its code does not read
    own |= {"sliding_window": side if kind != "modernbert" else 2 * side + 1}
    counted = all(isinstance(one, int) and one > 0 for one in (whole, layers))
    if not text.get("layer_types") and counted and layers <= 10_000:
        own["layer_types"] = [
            "sliding_attention" if place % whole else "full_attention" for place in range(layers)
        ]
    old = {"rope_theta": "global_rope_theta", "rope_local_base_freq": "local_rope_theta"}
    own |= {new: text[key] for new, key in old.items() if key in text and new not in text}
    own.setdefault("rope_local_base_freq", text.get("rope_local_base_freq", 10000.0))
    return {**text, **own}
