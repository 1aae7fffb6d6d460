"""Embedding and head are one matrix where they are one in the library, or a note says what differs."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from planner.errors import InputError
from planner.inputs.hf_config import model_from_config
from planner.inputs.hf_types import WRAPPERS
from tests.torch.meta import shapes_alone

pytestmark = pytest.mark.torch

transformers = pytest.importorskip("transformers")
auto = pytest.importorskip("transformers.models.auto.modeling_auto")

HEARING = {
    *("audioflamingo3", "fun_asr_nano", "glmasr", "granite_speech", "granite_speech_plus", "musicflamingo"),
    *("qwen2_audio", "qwen3_asr", "vibevoice_asr", "voxtral"),
}
SEEING = {*auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES, *auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES}
KINDS = sorted((SEEING | HEARING) & {*WRAPPERS})
MAKERS = ("AutoModelForImageTextToText", "AutoModelForCausalLM", "AutoModelForSeq2SeqLM",
          "AutoModelForSpeechSeq2Seq", "AutoModelForMultimodalLM")  # fmt: skip
KEY = "tie_word_embeddings"


def tied(raw: dict[str, Any], known: dict[str, bool]) -> bool:
    """Whether the library makes one matrix of both, in a model of one layer on meta tensors.

    Of what is said in two places often only one counts: equal configs are built once, and ``known``.
    """
    said = json.loads(json.dumps({key: value for key, value in raw.items() if key != "model_type"}))
    config = transformers.AutoConfig.for_model(raw["model_type"], **said)
    config.text_config.num_hidden_layers = 1
    if getattr(config.text_config, "layer_types", None):
        config.text_config.layer_types = config.text_config.layer_types[:1]
    whole = config.to_json_string(use_diff=False)
    if whole not in known:
        known[whole] = built_tied(raw["model_type"], config)
    return known[whole]


def built_tied(kind: str, config: Any) -> bool:
    """Build the model with a head, by the first class that takes its config, and look."""
    for name in MAKERS:
        try:
            with shapes_alone():
                model = getattr(transformers, name).from_config(config)
        except (ValueError, AttributeError):
            continue
        head = model.get_output_embeddings()
        if head is None:
            pytest.skip(f"{name} makes {kind} without a head")
        return bool(model.get_input_embeddings().weight is head.weight)
    pytest.skip(f"transformers {transformers.__version__} does not build its own {kind}")


@pytest.mark.parametrize("kind", KINDS)
def test_an_import_ties_what_the_library_ties(kind: str) -> None:
    try:
        raw = json.loads(transformers.AutoConfig.for_model(kind).to_json_string(use_diff=False))
        model_from_config(raw, "config.json", kind)
    except Exception as error:
        pytest.skip(f"no default {kind}, or refused: {str(error)[:100]}")
    if not isinstance(raw.get("text_config"), dict) or "timm" in str(raw.get("vision_config")):
        pytest.skip("no part of its own that is a language model, or an encoder of another library")
    known: dict[str, bool] = {}
    for outer, inner in itertools.product((None, True, False), repeat=2):
        top = {key: value for key, value in raw.items() if key != KEY}
        text = {key: value for key, value in raw["text_config"].items() if key != KEY}
        top |= {} if outer is None else {KEY: outer}
        text |= {} if inner is None else {KEY: inner}
        try:
            found = model_from_config({**top, "text_config": text}, "config.json", kind)
        except InputError:
            continue
        try:
            library = tied({**top, "text_config": text}, known)
        except Exception as error:
            pytest.skip(f"transformers does not build its own default: {str(error)[:100]}")
        told = outer is None and any("transformers 5 makes" in note for note in found.notes)
        assert (library != found.model.tied_embeddings) == told, (outer, inner)
