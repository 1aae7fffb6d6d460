"""Every configuration of the installed transformers: imported with its code's parameters, or refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from planner.errors import InputError
from planner.inputs.hf_beside import as_library
from planner.inputs.hf_config import ImportedModel, model_from_config
from planner.inputs.hf_seq2seq import READERS as SEQ2SEQ
from planner.inputs.hf_towers import HEARS
from planner.inputs.hf_types import WRAPPERS
from planner.inputs.model import Experts, ModelSpec
from planner.runtimes.hub.config import architecture, hub_config, layer_class
from tests.helpers import ROOT
from tests.torch.meta import shapes_alone
from tests.unit.test_beside_configs import INTERNVL, KIMI_VL, MINIMAX_01

pytestmark = pytest.mark.torch

transformers = pytest.importorskip("transformers")
auto = pytest.importorskip("transformers.models.auto.modeling_auto")

CAUSAL = sorted({*auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES} - {*SEQ2SEQ})
MASKED = sorted({*auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES} - {*SEQ2SEQ})
HALVES = sorted({*auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES, *SEQ2SEQ})
SEEING = sorted(auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES)
OTHER_PARTS = (
    *(
        "vis",
        "mm_",
        "multi_modal",
        "projector",
        "image_",
        "connector",
        "aligner",
        "merger",
        "audio",
        "encoder",
    ),
    *("qformer", "query_tokens", "language_projection", "high_res", "perceiver", "vqmodel", "generation_"),
    *(
        "acoustic_",
        "semantic_",
        "word_timestamp_",
        "embed_tokens_extend",
        "video_tower",
        "layernorm_before",
        "linear_",
        "view_",
        "layerwise",
        "spatial_",
    ),
)
"""Starts of the names, in a vision-language model, of what is no part of the language model."""

BROKEN = {
    *("hunyuan_v1_dense", "hunyuan_v1_moe", "hunyuan_vl", "ministral", "nemotron", "dbrx"),
    *("aya_vision", "emu3", "granite4_vision"),
}
"""Types of which transformers 5.24 cannot build its own defaults; small ones are in the unit tests."""

SMALL = json.loads((ROOT / "tests" / "unit" / "data" / "hf_small_configs.json").read_text())["cases"]
WRITTEN = [
    one["config"]
    for one in SMALL
    if one["config"]["model_type"] in ("lfm2", "lfm2_moe", "jamba", "falcon_h1", "granitemoehybrid")
]

CHECKED = json.loads((ROOT / "tests" / "unit" / "data" / "checked_configs.json").read_text())["models"]
SAID = [one["config"] for one in CHECKED if "model_type" in one["config"]]

BESIDE = [INTERNVL, KIMI_VL, MINIMAX_01]

HEARING = (
    *("fun_asr_nano", "glmasr", "granite_speech", "granite_speech_plus", "nemo_speechlm", "qwen2_audio"),
    *("qwen3_asr", "vibevoice_asr", "voxtral", "audioflamingo3", "musicflamingo"),
    "omniasr",
)
"""Types that hear and do not see."""

BARE = {"emu3", "fuyu"}
"""Types without an encoder: what of an image is in the vocabulary, or goes through one product."""

BALANCE = ("e_score_correction_bias", "expert_bias")
"""Ends of the names of what balances experts, a parameter in some types and none of the model's."""


def defaults(kind: str) -> tuple[Any, dict[str, Any]]:
    """Return the default configuration of a model type, as an object and as its file says it."""
    try:
        config = transformers.AutoConfig.for_model(kind)
    except Exception as error:
        pytest.skip(f"transformers makes no default {kind}: {error}")
    return config, json.loads(config.to_json_string(use_diff=False))


def imported(kind: str) -> tuple[Any, ImportedModel]:
    """Return the configuration and the model that is read from it; a refusal says why and ends the test."""
    config, raw = defaults(kind)
    try:
        return config, model_from_config(raw, "config.json", kind)
    except InputError as refusal:
        pytest.skip(f"refused: {refusal}")


def built(kind: str, config: Any, maker: Any) -> Any:
    """Return the library's own model on meta tensors."""
    if kind in BROKEN or "timm" in str(getattr(config, "vision_config", {})):
        pytest.skip(f"transformers {transformers.__version__} does not build its own default {kind}")
    with shapes_alone():
        return maker.from_config(config)


def weights_of(model: Any, spoken: bool = False) -> dict[str, int]:
    """Return the size of each tensor, shared ones once; ``spoken`` leaves out what is no language model's."""
    named = {name.removeprefix("model."): one.numel() for name, one in model.named_parameters()}
    kept = {name: size for name, size in named.items() if not name.endswith(BALANCE)}
    return {name: size for name, size in kept.items() if not (spoken and name.startswith(OTHER_PARTS))}


def used(model: Any, found: ModelSpec) -> float:
    """Return the parameters that a token uses: of tensors of all experts those that it is sent to."""
    shares = {one.experts: one.topk / one.experts for one in found.expert_kinds}
    share = next(iter(shares.values()), 1.0)
    sizes = weights_of(model, spoken=True)
    return sum(size * (share if ".experts." in name else 1.0) for name, size in sizes.items())


def idle(model: ModelSpec) -> int:
    """Return what the library allocates for experts that compute nothing: their gate and first product."""
    ffns = [model.blocks[name].ffn for name in model.layers]
    return sum(2 * one.zero_experts * one.inner * model.hidden for one in ffns if isinstance(one, Experts))


@pytest.mark.parametrize("kind", [kind for kind in CAUSAL if kind not in WRAPPERS])
def test_parameters_are_those_of_the_library_or_the_type_is_refused(kind: str) -> None:
    config, found = imported(kind)
    model = built(kind, config, transformers.AutoModelForCausalLM)
    sees = hasattr(config, "vision_config") or hasattr(config, "vq_config")
    assert found.model.params + idle(found.model) == sum(weights_of(model, spoken=sees).values())
    if kind != "longcat_flash":
        assert found.model.active_params == pytest.approx(used(model, found.model), rel=1e-12)


@pytest.mark.parametrize("kind", MASKED)
def test_a_model_that_fills_in_masks_has_the_parameters_of_the_library_or_is_refused(kind: str) -> None:
    config, found = imported(kind)
    assert found.model.fills_masks
    assert found.model.params == sum(
        weights_of(built(kind, config, transformers.AutoModelForMaskedLM)).values()
    )


@pytest.mark.parametrize("kind", SEEING)
def test_a_vision_language_model_is_whole_or_its_language_model_is(kind: str) -> None:
    """With its encoder where that is expressed, as in Qwen3-VL with experts; else without, and a note."""
    config, found = imported(kind)
    model = built(kind, config, transformers.AutoModelForImageTextToText)
    if found.model.encoder is not None:
        assert found.model.params == sum(weights_of(model).values())
        return
    alone = kind not in WRAPPERS or kind in BARE or getattr(config, "vision_config", None) is None
    assert alone or any("encoders are left out" in note for note in found.notes)
    assert found.model.params == sum(weights_of(model, spoken=True).values())


@pytest.mark.parametrize("kind", HEARING)
def test_a_model_that_hears_is_whole_or_its_language_model_is(kind: str) -> None:
    """Whisper's encoder is read; Conformers are left out."""
    config, found = imported(kind)
    known = kind in auto.MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES
    maker = transformers.AutoModelForMultimodalLM if known else transformers.AutoModelForSeq2SeqLM
    model = built(kind, config, maker)
    assert (found.model.encoder is not None) == (kind in HEARS)
    if found.model.encoder is not None:
        assert found.model.params == sum(weights_of(model).values())
        return
    assert any("encoders are left out" in note for note in found.notes)
    assert found.model.params == sum(weights_of(model, spoken=True).values())


@pytest.mark.parametrize("kind", [kind for kind in HALVES if kind not in WRAPPERS])
def test_an_encoder_decoder_has_the_parameters_of_the_library_or_is_refused(kind: str) -> None:
    config, found = imported(kind)
    maker = (
        transformers.AutoModelForSpeechSeq2Seq if kind == "whisper" else transformers.AutoModelForSeq2SeqLM
    )
    assert found.model.crosses
    assert found.model.params == sum(weights_of(built(kind, config, maker)).values())


SHAPES = (
    ("bart", {"encoder_layers": 3, "decoder_layers": 5, "encoder_ffn_dim": 512, "decoder_ffn_dim": 768}),
    ("mbart", {"d_model": 256, "decoder_attention_heads": 8, "scale_embedding": True}),
    ("t5", {"num_layers": 1, "num_decoder_layers": 3, "d_kv": 32}),
    ("t5", {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False, "d_ff": 1024}),
    ("mt5", {"tie_word_embeddings": False, "num_layers": 5}),
    ("umt5", {"num_layers": 3, "num_decoder_layers": 2}),
    ("plbart", {"decoder_layers": 2}),
    ("marian", {"vocab_size": 65001, "d_model": 512, "encoder_layers": 6, "activation_function": "swish"}),
    ("pegasus", {"vocab_size": 96103, "decoder_layers": 16, "scale_embedding": True}),
    ("m2m_100", {"vocab_size": 256206, "encoder_layers": 24, "max_position_embeddings": 512}),
    ("whisper", {"num_mel_bins": 128, "decoder_layers": 2, "vocab_size": 51866, "encoder_ffn_dim": 512}),
)


@pytest.mark.parametrize(("kind", "said"), SHAPES, ids=[f"{kind}-{len(said)}" for kind, said in SHAPES])
def test_an_encoder_decoder_of_another_shape_too(kind: str, said: dict[str, Any]) -> None:
    """A short file, as its authors write it, in place of all keys of the class."""
    config = transformers.AutoConfig.for_model(kind, **said)
    maker = (
        transformers.AutoModelForSpeechSeq2Seq if kind == "whisper" else transformers.AutoModelForSeq2SeqLM
    )
    found = model_from_config({"model_type": kind, **said}, "config.json", kind).model
    assert found.params == sum(weights_of(built(kind, config, maker)).values())


def test_of_a_model_that_speaks_too_the_thinker_is_read() -> None:
    """Qwen2.5-Omni's language model, whose own configuration is the same one; never refused."""
    config, raw = defaults("qwen2_5_omni")
    found = model_from_config(raw, "config.json", "qwen2_5_omni")
    with shapes_alone():
        thinker = transformers.Qwen2_5OmniThinkerForConditionalGeneration(config.thinker_config)
    assert any("the thinker alone" in note for note in found.notes)
    assert found.model.params == sum(weights_of(thinker, spoken=True).values())


@pytest.mark.parametrize("raw", BESIDE, ids=lambda raw: raw["model_type"])
def test_a_config_beside_its_code_is_a_type_of_the_library_too(raw: dict[str, Any]) -> None:
    """Under its keys the library builds the parameters that are read from the authors' file."""
    config = transformers.AutoConfig.for_model(**as_library(raw))
    seen = "vision_config" in raw
    maker = transformers.AutoModelForImageTextToText if seen else transformers.AutoModelForCausalLM
    with shapes_alone():
        whole = maker.from_config(config)
    assert sum(weights_of(whole).values()) == model_from_config(raw, "config.json", "m").model.params


@pytest.mark.parametrize("raw", WRITTEN, ids=lambda raw: raw["model_type"])
def test_hybrids_that_are_written_for_the_library_are_built_by_it(raw: dict[str, Any]) -> None:
    """The config of a script, as the library reads it: as many parameters, and the layers to shard exist."""
    model = model_from_config(raw, "config.json", "m").model
    kind = str(architecture(model))
    config = transformers.AutoConfig.for_model(**hub_config(model, 64))
    whole = built(kind, config, transformers.AutoModelForCausalLM)
    assert sum(weights_of(whole).values()) == model.params
    there = {type(one).__name__ for one in whole.modules()}
    assert set(layer_class(kind).split(",")) <= there


@pytest.mark.parametrize("raw", SAID, ids=lambda raw: raw["model_type"])
def test_models_of_the_zoo_are_built_from_their_authors_recipes(raw: dict[str, Any]) -> None:
    with shapes_alone():
        whole = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.for_model(**raw))
    assert sum(weights_of(whole).values()) == model_from_config(raw, "config.json", "m").model.params


def test_each_type_is_imported_or_refused_with_a_reason_of_its_own() -> None:
    """No type that generates text or fills in masks is unknown; one that skips all proves nothing."""
    taken, reasons = 0, {}
    for kind in sorted({*CAUSAL, *SEEING, *MASKED}):
        try:
            model_from_config(defaults(kind)[1], "config.json", kind)
        except InputError as refusal:
            reasons[kind] = str(refusal)
        except pytest.skip.Exception:
            continue
        else:
            taken += 1
    assert taken >= 179
    assert len(reasons) >= 90
    assert not [kind for kind, reason in reasons.items() if "expected one of" in reason]


@pytest.mark.parametrize("raw", SMALL, ids=[one["config"]["model_type"] for one in SMALL])
def test_what_a_config_leaves_out_is_what_its_class_sets(raw: dict[str, Any]) -> None:
    """Windows, kinds of layers and widths among them: a short config and all that the library makes of it."""
    said = dict(raw["config"])
    kind = said.pop("model_type")
    try:
        whole = json.loads(transformers.AutoConfig.for_model(kind, **said).to_json_string(use_diff=False))
    except Exception as error:
        pytest.skip(f"transformers makes no {kind} of it: {str(error)[:100]}")
    short, full = (
        model_from_config({**one, "model_type": kind}, "config.json", kind).model for one in (said, whole)
    )
    assert [short.blocks[name] for name in short.layers] == [full.blocks[name] for name in full.layers]
