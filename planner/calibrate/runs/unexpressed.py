"""Architectures and steps that the planner cannot express, as rows of a run table name them."""

from __future__ import annotations

import re
from typing import Final

from planner.inputs.hf_refused import REFUSED

_RECURRENT: Final = REFUSED["ssm_state_size"]
_LINEAR: Final = REFUSED["linear_attn_config"]
_INDEXED: Final = REFUSED["index_topk"]

NAMES: Final = tuple(
    (re.compile(pattern), meaning)
    for pattern, meaning in (
        (
            r"mamba|jamba|zamba|bamba|samba\b|falcon.?h1|\bplamo.?2|granite.?4.*(-h\b|hybrid|tiny|small)",
            _RECURRENT,
        ),
        (
            r"nemotron.?h\b|nemotron.?3\b|nemotron.?3[._ ]|nemotron.*nano.*(v2|9b|12b|30b)|phi-?4-mini-flash",
            _RECURRENT,
        ),
        (r"rwkv|retnet|recurrent.?gemma|griffin|hyena|xlstm|\blfm2?\b", _LINEAR),
        (
            r"qwen-?3-?next|qwen-?3\.5|qwen-?3-coder-next|kimi-?linear|minimax-?(01|text|m1)|ring-?.*linear",
            _LINEAR,
        ),
        (r"deepseek-?v3\.2|glm-?5", _INDEXED),
        (r"longcat", REFUSED["zero_expert_num"]),
        (r"deepseek-?v4", REFUSED["compress_ratios"]),
        (r"gemma-?3n", REFUSED["hidden_size_per_layer_input"]),
        (r"nemotron.*(super-?(v1|49b)|ultra-?(v1|253b)|51b)|puzzle|deci-?lm", REFUSED["block_configs"]),
        (r"\b(m|flan-?|by)?t5\b|\bul2\b|\bm?bart\b|whisper|nllb", REFUSED["is_encoder_decoder"]),
        (
            r"\bflux\b|\bflux[.-]?\d|stable.?diffusion|\bsdxl?\b|\bdit\b|\bwan-?2|hunyuan.?video|\bvit\b|resnet",
            "no language model",
        ),
        (
            r"qwen[23.]*[-_]?(5[-_]?)?vl|llava|internvl|paligemma|pixtral|idefics|\bmllama|vision|audio|omni\b",
            "an encoder of pictures or sound",
        ),
    )
)
"""Names of models in lower case, and what in them no model record has; published configurations say so."""

# Megatron's arguments are the same words, with dashes: megatron/training/arguments.py.
_KEYS: Final = tuple(
    (re.compile(rf"(?<![\w-]){key.replace('_', '[-_]')}=(?!(none|false|0)\b)"), meaning)
    for key, meaning in {
        **REFUSED,
        "hybrid_layer_pattern": _RECURRENT,
        "multi_latent_attention": "latent attention, for whose ranks a table has no columns",
        "experimental_attention_variant": _LINEAR,
        "rl_[a-z-]+": "generation of text between its steps",
    }.items()
)
_ANY_NAME, _ANY_KEY = (
    re.compile("|".join(f"(?:{pattern.pattern})" for pattern, _ in table)) for table in (NAMES, _KEYS)
)
"""One expression for each table, since most runs are none of it."""
_MODULES: Final = re.compile(r"modules?=\[[^]]*\bmamba\b")
"""Modules of a CUDA graph or of recompute, which tell what blocks there are."""


def unexpressed(model: str, notes: str, known: bool) -> str:
    """Return what of a run's model or step the planner cannot express, empty where it may.

    ``known``: whether the zoo has the model, whose record then says all.

    Examples
    --------
    >>> unexpressed("Nemotron-H 8B", "", False), unexpressed("nemotron4-15b", "", False)
    ('state-space layers', '')
    """
    if known:
        return ""
    name, said = model.lower().replace("_", "-"), notes.lower()
    if _ANY_NAME.search(name):
        return next(meaning for pattern, meaning in NAMES if pattern.search(name))
    if _MODULES.search(said):
        return _RECURRENT
    return (
        next(meaning for pattern, meaning in _KEYS if pattern.search(said)) if _ANY_KEY.search(said) else ""
    )
