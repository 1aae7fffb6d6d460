"""Every configuration of the installed transformers: imported with its code's parameters, or refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

from planner.errors import InputError
from planner.inputs.hf_config import ImportedModel, model_from_config
from planner.inputs.hf_types import WRAPPERS
from planner.inputs.model import Experts, ModelSpec

pytestmark = pytest.mark.torch

transformers = pytest.importorskip("transformers")
auto = pytest.importorskip("transformers.models.auto.modeling_auto")

CAUSAL = sorted(auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
SEEING = sorted(auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES)
OTHER_PARTS = ("vis", "mm_", "multi_modal", "projector", "image_newline", "connector", "aligner", "merger")
"""Starts of the names, in a vision-language model, of what is no part of the language model."""

BROKEN = {"hunyuan_v1_dense", "ministral"}
"""Types of which transformers 5.24 cannot build its own defaults."""


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
    if kind in BROKEN:
        pytest.skip(f"transformers {transformers.__version__} does not build its own default {kind}")
    with torch.device("meta"):
        return maker.from_config(config)


def idle(model: ModelSpec) -> int:
    """Return what the library allocates for experts that compute nothing: their gate and first product."""
    ffns = [model.blocks[name].ffn for name in model.layers]
    return sum(2 * one.zero_experts * one.inner * model.hidden for one in ffns if isinstance(one, Experts))


@pytest.mark.parametrize("kind", [kind for kind in CAUSAL if kind not in WRAPPERS])
def test_parameters_are_those_of_the_library_or_the_type_is_refused(kind: str) -> None:
    config, found = imported(kind)
    model = built(kind, config, transformers.AutoModelForCausalLM)
    assert found.model.params + idle(found.model) == sum(weights.numel() for weights in model.parameters())


@pytest.mark.parametrize("kind", sorted(set(SEEING) & set(WRAPPERS)))
def test_a_vision_language_model_is_whole_or_its_language_model_is(kind: str) -> None:
    """With its encoder where that is expressed, as in Qwen3-VL with experts; else without, and a note."""
    config, found = imported(kind)
    model = built(kind, config, transformers.AutoModelForImageTextToText)
    if found.model.encoder is not None:
        assert found.model.params == sum(weights.numel() for weights in model.parameters())
        return
    assert any("encoders are left out" in note for note in found.notes)
    weights = {name.removeprefix("model."): one.numel() for name, one in model.named_parameters()}
    spoken = sum(size for name, size in weights.items() if not name.startswith(OTHER_PARTS))
    assert found.model.params == spoken


def test_something_is_imported_and_something_is_refused() -> None:
    """A sweep that skipped everything would prove nothing."""
    taken = refused = 0
    for kind in CAUSAL:
        try:
            model_from_config(defaults(kind)[1], "config.json", kind)
        except (InputError, pytest.skip.Exception):
            refused += 1
        else:
            taken += 1
    assert taken >= 30
    assert refused >= 30
