"""The model types that are read, what each one's config chooses, and the types that wrap them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from planner.dataclasses import replace
from planner.inputs import hf_beside, hf_families, hf_masked, hf_other_families, hf_state_families
from planner.inputs.hf_family import ADJUSTED, Family
from planner.inputs.variants import Variant

FAMILIES: Final[Mapping[str, Family]] = {
    **hf_families.FAMILIES,
    **hf_other_families.FAMILIES,
    **hf_state_families.FAMILIES,
    **hf_masked.FAMILIES,
    **hf_beside.FAMILIES,
}
"""Model type to what its code does."""

Text = Mapping[str, Any]


def family_of(kind: str, text: Text) -> Family:
    """Return what the code of the model type ``kind`` does under the config ``text``."""
    family = FAMILIES[kind]
    return CHOICES[kind](family, text) if kind in CHOICES else family


def _where(there: object, name: Variant) -> tuple[Variant, ...]:
    return (name,) if there else ()


def _falcon(family: Family, text: Text) -> Family:
    """Return Falcon's first shape, its second with norms of their own for each side, or that before both."""
    new, side = text.get("new_decoder_architecture"), text.get("parallel_attn", True)
    one = text.get("multi_query", True) and not new
    apart = text.get("num_ln_in_parallel_attn") == 2 or (new and not text.get("num_ln_in_parallel_attn"))
    biased = bool(text.get("bias", False))
    return replace(
        family,
        defaults=dict(family.defaults) | ({"num_key_value_heads": 1} if one else {}),
        names={} if one else {"num_key_value_heads": "num_kv_heads"},
        qkv_bias=biased,
        output_bias=biased,
        ffn_bias=biased,
        dense_inner="ffn_hidden_size" if text.get("ffn_hidden_size") else "n_inner",
        norms=1 if side and not apart else 2,
        variants=(*_where(side, "parallel-blocks"), *_where(text.get("alibi"), "alibi")),
    )


def _stablelm(family: Family, text: Text) -> Family:
    side = bool(text.get("use_parallel_residual"))
    return replace(family, norms=1, variants=("parallel-blocks",)) if side else family


def _gpt_neox(family: Family, text: Text) -> Family:
    return replace(family, variants=_where(text.get("use_parallel_residual", True), "parallel-blocks"))


def _phimoe(family: Family, text: Text) -> Family:
    return replace(family, variants=(*family.variants, *_where(text.get("lm_head_bias"), "head-bias")))


def _hyperclovax(family: Family, text: Text) -> Family:
    return replace(family, norms=4 if text.get("use_post_norm") else 2)


def _llama4(family: Family, text: Text) -> Family:
    """Return it with its norms of queries and keys, and queries that grow in layers without positions."""
    normed: tuple[Variant, ...] = ("bare-head-norms", "head-norms-after-rotary")
    scaled = _where(text.get("attn_temperature_tuning", True), "scaled-queries")
    return replace(family, variants=(*(normed if text.get("use_qk_norm", True) else ()), *scaled))


def _olmo_hybrid(family: Family, text: Text) -> Family:
    """Return it without rotary positions where their base is null, and with states that may turn."""
    told = text.get("rope_parameters")
    turned = not isinstance(told, Mapping) or told.get("rope_theta", "the default") is not None
    signs = _where(text.get("linear_allow_neg_eigval", True), "negative-eigenvalues")
    return replace(family, bare=not turned, variants=(*family.variants, *signs))


def _lfm2(family: Family, text: Text) -> Family:
    """Return it with two thirds of the width that a config names, rounded up, unless it says not to."""
    said = text.get("block_ff_dim") or text.get("intermediate_size")
    if not text.get("block_auto_adjust_ff_dim", True) or not isinstance(said, int):
        return family
    factor, multiple = text.get("block_ffn_dim_multiplier", 1.0), text.get("block_multiple_of", 256)
    if not (isinstance(factor, int | float | None) and isinstance(multiple, int) and multiple > 0):
        return family
    width = int(2 * said / 3)
    width = multiple * -(-int(width if factor is None else factor * width) // multiple)
    return replace(family, defaults=dict(family.defaults) | {ADJUSTED: width})


def _gemma4(family: Family, text: Text) -> Family:
    """Return it with experts beside the dense feed-forward or without, and what turns in its wide heads.

    The weights by which the router scales its input count as a norm's.
    """
    told, sparse = text.get("rope_parameters"), bool(text.get("enable_moe_block"))
    whole = told.get("full_attention") if isinstance(told, Mapping) else None
    wide = not isinstance(whole, Mapping) or whole.get("rope_type") in (None, "proportional")
    norms = 4 + 4 * sparse + bool(text.get("hidden_size_per_layer_input", 256))
    variants = (*family.variants, *_where(sparse, "scaled-router"), *_where(wide, "wide-rotary"))
    return replace(family, moe=sparse, norms=norms, variants=variants)


def _gemma4_unified(family: Family, text: Text) -> Family:
    """Return Gemma 4's without experts and without inputs of layers' own, which its code has not."""
    return _gemma4(family, {**text, "hidden_size_per_layer_input": 0, "enable_moe_block": False})


def _laguna(family: Family, text: Text) -> Family:
    """Return it with a gate for each head, or for each element of the result."""
    by_head = text.get("gating", True) in (True, "per-head")
    return replace(family, head_gate=by_head, output_gate=not by_head)


def _lfm3(family: Family, text: Text) -> Family:
    """Return it with norms after its parts too, and what turns in its layers without a window."""
    told = text.get("rope_parameters")
    whole = told.get("full_attention") if isinstance(told, Mapping) else None
    wide = not isinstance(whole, Mapping) or whole.get("rope_type") == "proportional"
    norms = 4 if text.get("use_sandwich_norm", True) else 2
    return replace(family, norms=norms, variants=_where(wide, "wide-rotary"))


def _eurobert(family: Family, text: Text) -> Family:
    """Return it with a bias of its head where its feed-forwards have biases."""
    return replace(family, variants=(*family.variants, *_where(text.get("mlp_bias"), "head-bias")))


def _helium(family: Family, text: Text) -> Family:
    """Return it with heads that are together as wide as the model: its last product has that width."""
    hidden, heads = text.get("hidden_size"), text.get("num_attention_heads")
    if not (isinstance(hidden, int) and isinstance(heads, int) and heads > 0):
        return family
    return replace(family, fixed=dict(family.fixed) | {"head_dim": hidden // heads})


CHOICES: Final[Mapping[str, Callable[[Family, Text], Family]]] = {
    "eurobert": _eurobert, "falcon": _falcon, "gemma4_text": _gemma4, "gemma4_unified_text": _gemma4_unified,
    "gpt_neox": _gpt_neox, "helium": _helium, "hyperclovax": _hyperclovax, "laguna": _laguna, "lfm2": _lfm2,
    "lfm3": _lfm3, "llama4_text": _llama4, "olmo_hybrid": _olmo_hybrid, "phimoe": _phimoe,
    "stablelm": _stablelm,
}  # fmt: skip
"""Types whose config says which of several blocks they have."""

WRAPPERS: Final[Mapping[str, str]] = {
    "apertus1p5": "apertus1p5_text", "aria": "aria_text", "audioflamingo3": "qwen2", "aya_vision": "cohere2",
    "blip-2": "opt", "cohere2_vision": "cohere2", "cosmos3_edge": "cosmos3_edge_text",
    "cosmos3_omni": "qwen3_vl_text", "deepseek_ocr2": "deepseek_ocr2_text", "deepseek_vl": "llama",
    "deepseek_vl_hybrid": "llama", "emu3": "emu3_text_model", "exaone4_5": "exaone4", "fast_vlm": "qwen2",
    "fun_asr_nano": "qwen3", "fuyu": "persimmon", "glm46v": "glm4v_text", "glm4v": "glm4v_text",
    "glm4v_moe": "glm4v_moe_text", "glm_ocr": "glm_ocr_text", "glmga": "glm4v_text", "glmasr": "llama",
    "got_ocr2": "qwen2", "granite4_vision": "granite4_vision_text", "granite_docling": "granite_docling_text",
    "granite_speech": "granite", "granite_speech_plus": "granite", "hunyuan_vl": "hunyuan_vl_text",
    "hyperclovax_vision_v2": "hyperclovax", "idefics2": "mistral", "idefics3": "llama", "instructblip": "opt",
    "instructblipvideo": "opt", "internvl": "qwen2", "janus": "llama", "lfm2_vl": "lfm2", "lfm3_vl": "lfm3",
    "lighton_ocr": "qwen3", "llava": "llama", "llava_next_video": "llama", "minicpm_ocr": "qwen3_5_text",
    "minicpmv4_6": "qwen3_5_text", "minicpmv4_7": "qwen3_5_text", "musicflamingo": "qwen2",
    "nemo_speechlm": "nemotron_h", "nemotron_h_omni": "nemotron_h", "omniasr": "llama", "ovis2": "qwen2",
    "paddleocr_vl": "paddleocr_vl_text", "perception_lm": "llama", "phi4_multimodal": "phi3",
    "pp_chart2table": "qwen2", "qianfan_ocr": "qwen3", "qwen2_audio": "qwen2",
    "qwen2_5_omni_thinker": "qwen2_5_omni_text", "qwen3_asr": "qwen3",
    "qwen3_omni_moe_thinker": "qwen3_omni_moe_text", "smolvlm": "llama", "vibevoice_asr": "qwen2",
    "video_llama_3": "qwen2", "video_llava": "llama", "vipllava": "llama", "voxtral": "llama",
    "llava_next": "llama", "llava_onevision": "qwen2", "qwen2_vl": "qwen2_vl_text",
    "qwen2_5_vl": "qwen2_5_vl_text", "qwen3_vl": "qwen3_vl_text", "qwen3_vl_moe": "qwen3_vl_moe_text",
    "qwen3_5": "qwen3_5_text", "qwen3_5_moe": "qwen3_5_moe_text", "gemma3": "gemma3_text",
    "gemma4": "gemma4_text", "gemma4_unified": "gemma4_unified_text", "kimi_k25": "kimi_k2",
    "llama4": "llama4_text", "minimax_m3_vl": "minimax_m3_vl_text", "mistral3": "mistral",
}  # fmt: skip
"""Types of configs that hold the language model in ``text_config``, each with the type meant there."""

THINKERS: Final = ("qwen2_5_omni", "qwen3_omni_moe")
"""Types that hear, see and speak: what is trained is the ``thinker_config``, a type of its own."""
