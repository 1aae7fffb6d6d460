"""Whether embedding and head are one matrix: a whole model and its language model may say different things.

What the classes of transformers 5.24 make of each is held by ``tests/torch/test_import_ties.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from planner.inputs.hf_fields import Config

KEY: Final = "tie_word_embeddings"

NOTHING: Final = frozenset({"audioflamingo3", "musicflamingo", "qwen2_audio", "vibevoice_asr", "voxtral"})
"""Types whose class ties nothing, whatever is said."""

INNER: Final = frozenset({"blip-2", "emu3", "instructblip", "instructblipvideo", "llama4"})
"""Types of which the language model's word counts."""

EITHER: Final = frozenset({
    "glm4v", "glm_ocr", "llava", "llava_next_video", "llava_onevision", "minimax_m3_vl",
    "paddleocr_vl", "qwen2_5_vl", "qwen2_vl", "video_llama_3",
})  # fmt: skip
"""Types that are tied where one of the two says so."""

TIED: Final = frozenset({
    "aya_vision", "cohere2_vision", "deepseek_vl", "deepseek_vl_hybrid", "fun_asr_nano", "gemma3", "gemma4",
    "gemma4_unified", "glmasr", "got_ocr2", "granite_docling", "granite_speech", "granite_speech_plus",
    "hunyuan_vl", "hyperclovax_vision_v2", "internvl", "janus", "kimi_k25", "lfm2_vl", "lfm3_vl",
    "lighton_ocr", "minicpm_ocr", "mistral3", "ovis2", "paddleocr_vl", "pp_chart2table", "qwen3_asr",
})  # fmt: skip
"""Types whose class is tied where the whole model says nothing."""

APART: Final = frozenset({
    "apertus1p5", "aria", "cosmos3_omni", "exaone4_5", "fuyu", "glm46v", "glmga", "granite4_vision",
    "idefics2", "idefics3", "llava_next",
    "minicpmv4_6", "minicpmv4_7", "qianfan_ocr", "qwen2_5_omni_thinker", "qwen3_5", "qwen3_5_moe",
    "qwen3_vl", "qwen3_vl_moe", "smolvlm", "video_llava", "vipllava",
})  # fmt: skip
"""Types whose class is not, then."""


def settle(config: Config, raw: Mapping[str, Any], text: Mapping[str, Any]) -> None:
    """Give a config the word that counts; a note tells where another was said, or is a class's own."""
    if "text_config" not in raw:
        return
    kind, outer, inner = str(raw.get("model_type")), raw.get(KEY), text.get(KEY)
    if kind in NOTHING:
        config.raw = dict(config.raw) | {KEY: False}
        if outer or inner:
            config.note(f"{KEY} is not read: the class of {kind} ties nothing")
    elif outer is None:
        _tell(config, kind)
    elif kind in INNER or (kind in EITHER and config.flag(KEY)):
        if outer != inner:
            config.note(f"{KEY} is not read of the whole model: for {kind} its text_config's word counts")
    elif outer != inner:
        config.raw = dict(config.raw) | {KEY: outer}
        if inner is not None:
            config.note(f"{KEY} is {outer}, as the whole model says, not as text_config does")


def _tell(config: Config, kind: str) -> None:
    """Note that a class takes another word than its language model's where the whole model says none."""
    tied = config.flag(KEY)
    if (tied and kind in APART) or (not tied and kind in TIED):
        taken, other = ("one matrix", "two") if tied else ("two matrices", "one")
        config.note(
            f"embedding and head are {taken}, as in text_config; transformers 5 makes {other} of them unless "
            f'weights are loaded that say otherwise: "{KEY}" beside text_config settles it'
        )
