"""Types whose code lies beside their weights, as their authors publish them.

Some are a type of transformers under other keys, and are read as that one; two of InclusionAI are none.

Ling was read in inclusionAI/Ling ``models/modeling_bailing_moe.py``, and its second generation in the copy of
NVIDIA-NeMo/Megatron-Bridge 067f987d, ``src/megatron/bridge/models/bailing``; Kimi's projector in
vllm-project/vllm ``vllm/model_executor/models/kimi_vl.py``, InternViT's defaults in the configuration that
InternVL's checkpoints carry. What is read as a type of transformers has its parameters in v5.23.0
(``tests/torch/test_import_all.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from planner.dataclasses import replace
from planner.inputs.hf_family import Family, SharedExperts

Raw = Mapping[str, Any]

_LING: Final = Family(
    defaults={"tie_word_embeddings": False, "use_qkv_bias": False, "use_bias": True},
    qkv_bias="use_qkv_bias",
    output_bias="use_bias",
    ffn_bias=False,
    moe=True,
    shared=SharedExperts("num_shared_experts"),
    fixed={"norm_head": False, "norm_softmax": False},
)
FAMILIES: Final[Mapping[str, Family]] = {
    "bailing_moe": _LING,
    "bailing_moe_v2": replace(
        _LING,
        defaults=dict(_LING.defaults) | {"use_bias": False, "first_k_dense_replace": 1, "head_dim": 128},
        qk_norm="head",
        names={"scoring_func": "score_function"},
        fixed={"moe_shared_expert_intermediate_size": "moe_intermediate_size"},
    ),
}
"""Model type to what its code does."""

DEFAULTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "bailing_moe": {"rms_norm_eps": 1e-5, "norm_topk_prob": True},
    "bailing_moe_v2": {
        "rope_theta": 600000.0, "n_group": 8, "topk_group": 4, "routed_scaling_factor": 1.0,
    },
}  # fmt: skip
"""Values that change a model's function and that a config may leave out, by model type."""

ROUTERS: Final[Mapping[str, Mapping[str, Any]]] = {
    "bailing_moe": {"score": "softmax"},
    "bailing_moe_v2": {"score": "sigmoid", "expert_bias": True, "normalize": True},
}
"""What the code of a type does with the scores of its router."""


def as_library(raw: Raw) -> Raw:
    """Return a config as transformers would have it; one that it has already, or has nothing of, as it is."""
    reader = _READERS.get(str(raw.get("model_type")))
    return raw if reader is None else reader(raw)


def _ling(raw: Raw) -> Raw:
    """Return the second generation under a name of its own: its files say the first's."""
    second = "V2" in str(raw.get("architectures")) or raw.get("score_function") == "sigmoid"
    return {**raw, "model_type": "bailing_moe_v2"} if second else raw


def _lightning(raw: Raw) -> Raw:
    """Return MiniMax-Text-01 and M1 as ``minimax``, whose residuals are those of ``postnorm`` alone."""
    shared, each = raw.get("shared_intermediate_size"), raw.get("attn_type_list")
    own: dict[str, Any] = {"model_type": "minimax"}
    if isinstance(shared, list) and not any(shared):
        own["shared_intermediate_size"] = 0
    if isinstance(each, list) and not raw.get("layer_types"):
        own["layer_types"] = ["full_attention" if one else "linear_attention" for one in each]
    return {**raw, **own}


_TIED: Final = "tie_word_embeddings"


def _ties(text: Raw) -> dict[str, Any]:
    """Return what a language model says of its ends, which the whole model's class would overrule."""
    return {_TIED: text.get(_TIED, False)}


def _inner(raw: Raw, key: str) -> Raw | None:
    """Return the config of a part; nothing where there is none."""
    part = raw.get(key)
    return part if isinstance(part, Mapping) else None


_VIT: Final = {
    "image_size": 224, "hidden_size": 3200, "num_attention_heads": 25, "intermediate_size": 12800,
    "num_hidden_layers": 48, "norm_type": "rms_norm",
}  # fmt: skip
"""Defaults of ``InternVisionConfig`` that are not those of transformers' ``internvl_vision``."""


def _internvl(raw: Raw) -> Raw:
    """Return InternVL as ``internvl``: its language model and its encoder under other keys."""
    text, seen = _inner(raw, "llm_config"), _inner(raw, "vision_config")
    if text is None:
        return raw
    own = {key: value for key, value in raw.items() if key not in ("llm_config", _TIED)} | _ties(text)
    if seen is not None:
        seen = {
            **_VIT,
            **seen,
            "model_type": "internvl_vision",
            "attention_bias": seen.get("qkv_bias", False),
            "use_qk_norm": seen.get("qk_normalization", True),
            "use_absolute_position_embeddings": True,
        }
    return {**own, "model_type": "internvl", "text_config": text, "vision_config": seen}


_MOONVIT: Final = {
    "hidden_size": "vt_hidden_size", "num_attention_heads": "vt_num_attention_heads",
    "num_hidden_layers": "vt_num_hidden_layers", "intermediate_size": "vt_intermediate_size",
    "pos_emb_height": "init_pos_emb_height", "pos_emb_width": "init_pos_emb_width",
}  # fmt: skip
"""Keys of transformers, and those that the files of Kimi have."""


def _kimi(raw: Raw) -> Raw:
    """Return Kimi-VL, and Kimi K2.5 as it is published, with the keys of ``kimi_k25``."""
    seen = _inner(raw, "vision_config")
    if raw.get("model_type") == "kimi_vl":
        raw = {**_ties(_inner(raw, "text_config") or {}), **raw, "model_type": "kimi_k25"}
    if seen is None:
        return raw
    found = {new: seen[old] for new, old in _MOONVIT.items() if old in seen and new not in seen}
    kept = {key: value for key, value in seen.items() if key != "model_type"}
    return {**raw, "vision_config": kept | found}


def _deepseek_vl(raw: Raw) -> Raw:
    """Return DeepSeek-VL2 and DeepSeek-OCR: their language models, with latent attention or without."""
    text = _inner(raw, "language_config")
    if text is None:
        return raw
    latent = text.get("use_mla", True)
    kind = "deepseek_v2" if latent else "deepseek_ocr2_text"
    own = {key: value for key, value in raw.items() if key not in ("language_config", "model_type")}
    plain = {} if latent else dict.fromkeys(("v_head_dim", "q_lora_rank", "kv_lora_rank"))
    return {**own, "model_type": "deepseek_ocr2", "text_config": {**text, **plain, "model_type": kind}}


def _exaone(raw: Raw) -> Raw:
    """Return K-EXAONE with its list of layers with experts under its newer name."""
    each = raw.get("is_moe_layer")
    if not isinstance(each, list) or raw.get("mlp_layer_types"):
        return raw
    return {**raw, "mlp_layer_types": ["sparse" if one else "dense" for one in each]}


def _exaone45(raw: Raw) -> Raw:
    """Return EXAONE 4.5 with its language model under the name that transformers now gives it."""
    text = _inner(raw, "text_config") or {}
    first = text.get("model_type") == "exaone4_5_text"
    return {**raw, "text_config": {**text, "model_type": "exaone4"}} if first else raw


def _grok(raw: Raw) -> Raw:
    """Return Grok-2, whose file calls it ``git``, under its own name."""
    return {**raw, "model_type": "grok-2"} if "num_local_experts" in raw else raw


_READERS: Final[Mapping[str, Callable[[Raw], Raw]]] = {
    "bailing_moe": _ling,
    "minimax_text_01": _lightning,
    "minimax_m1": _lightning,
    "internvl_chat": _internvl,
    "kimi_vl": _kimi,
    "kimi_k25": _kimi,
    "deepseek_vl_v2": _deepseek_vl,
    "DeepseekOCR": _deepseek_vl,
    "exaone_moe": _exaone,
    "git": _grok,
    "exaone4_5": _exaone45,
}
"""How a type is turned into one of transformers."""
