"""What a Python file of Megatron-Bridge says of images: the library's own encoder, and how many there are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from planner.dataclasses import replace
from planner.errors import Problem
from planner.inputs.build import build
from planner.inputs.hf_vision_parts import USUAL_PATCHES
from planner.inputs.load import load_model
from planner.inputs.model import ModelSpec
from planner.inputs.vision_configs import encoder_record, with_encoder
from planner.runtimes.imports.python_fields import Fields
from planner.runtimes.imports.sheet import Imported
from planner.runtimes.imports.zoo import same_parts

MODEL: Final = "ConfigContainer.model."
CONFIGS: Final = {
    ("vision_config", "Qwen2_5_VLVisionConfig"): "qwen2_5_vl",
    ("vision_config", "Qwen3VLVisionConfig"): "qwen3_vl",
    ("vision_config", "Qwen3_5VisionConfig"): "qwen3_5",
    ("hf_config.vision_config", "PixtralVisionConfig"): "mistral3",
}
"""Where the config of an encoder stands, its class, and the model types that have it."""

PARTS: Final = ("language_model", "vision_model", "vision_projection")
"""What the library freezes by a field each."""

PATCH: Final = 16
"""Points along a side of a patch of Qwen3.5's. [-]"""

ABOUT_IMAGES: Final = (
    "vision_config", "hf_config", "mrope_section", "scatter_embedding", "freeze_vision_", "freeze_language_",
)  # fmt: skip
"""Starts of the fields of a model that are about images."""


def family_of(said: Fields) -> str:
    """Return the model type whose encoder the file builds; empty where it builds none that is known."""
    found = (kind for (place, name), kind in CONFIGS.items() if said.get(f"{MODEL}{place}") == name)
    return next(found, "")


def language_fields(said: Fields, fields: Fields) -> Fields:
    """Return the fields of the language model alone; positions turn as without images where there is none."""
    if not family_of(said):
        return fields
    kept = {name: value for name, value in fields.items() if not name.startswith(ABOUT_IMAGES)}
    return kept | ({"position_embedding_type": "rope"} if "mrope_section" in fields else {})


def with_images(
    said: Fields, found: Imported, record: Mapping[str, Any], where: str
) -> tuple[Imported, dict[str, Any]]:
    """Return what was found with the number of images and what is frozen, and the record with its encoder.

    Images are those of the smoke run's made-up data; where there is none, one image of the usual size.
    """
    family = family_of(said)
    if not family:
        return found, dict(record)
    start = f"{MODEL}{next(place for (place, _), kind in CONFIGS.items() if kind == family)}."
    config = {key.removeprefix(start): value for key, value in said.items() if key.startswith(start)}
    made_up = {key.rpartition(".")[2]: value for key, value in said.items() if ".dataset." in key}
    options, places = {"images": str(made_up.get("num_images", 1))}, {"images": "dataset.num_images"}
    frozen, faults = _frozen(said, MODEL, where)
    for option, (value, place) in frozen.items():
        options[option], places[option] = value, place
    patches = _patches(made_up.get("image_size"), config.get("patch_size"))
    encoder = encoder_record(family, config, int(record.get("hidden") or 1), patches)
    found = replace(found, options={**found.options, **options}, places={**found.places, **places})
    return replace(found, faults=(*found.faults, *faults)), {**record, "encoder": encoder}


def _frozen(
    said: Mapping[str, Any], start: str, where: str
) -> tuple[dict[str, tuple[str, str]], list[tuple[str, Problem]]]:
    """Return options that say what is not trained, with the fields that say it, and what has no price.

    References
    ----------
    .. [1] Megatron-Bridge 067f987d, ``qwen3_vl_provider.py``: of models with experts, two parts are frozen
       where nobody says.
    """
    sparse = said.get(start[:-1]) == "Qwen3VLMoEModelProvider"
    usual = dict(zip(PARTS, (sparse, sparse, False), strict=True))
    language, encoder, projector = (said.get(f"{start}freeze_{part}", usual[part]) is True for part in PARTS)
    faults = [
        ("", Problem(f"{where}: model.freeze_{part}", "True", f"False: {why} is not priced"))
        for part, why, there in (
            (PARTS[0], "a language model that is not trained", language),
            (PARTS[2], "a frozen projector behind an encoder that is trained", projector and not encoder),
        )
        if there
    ]
    if language and encoder and not projector:
        return {"method": ("projector", f"model.freeze_{PARTS[0]}")}, []
    told = {"freeze_encoder": encoder, "train_projector": encoder and not projector}
    places = zip(told.items(), PARTS[1:], strict=True)
    return {one: ("true", f"model.freeze_{part}") for (one, there), part in places if there}, faults


def shows_images(fields: Mapping[str, Any]) -> bool:
    """Whether a recipe has images."""
    return bool({"dataset.image_size", "dataset.num_images"} & set(fields))


def is_seeing(record: Mapping[str, Any], model: str) -> bool:
    """Whether a record is the language model of one of the zoo with an encoder."""
    known = load_model(model)
    if known.encoder is None:
        return False
    alone = known.model_copy(update={"encoder": None, "variants": ()})
    return same_parts(build(ModelSpec, {**record, "name": model}, model), alone)


def with_recipe_images(found: Imported, fields: Mapping[str, Any], model: str, where: str) -> Imported:
    """Return what a recipe with images says: its model with the encoder, and as many images as it has.

    Its encoder is in 16 bits, whatever the precision of its layers. Where its data decide, an image of
    the usual size in each sequence is taken, and told.
    """
    if not shows_images(fields):
        return found
    size = [int(side) for side in fields.get("dataset.image_size", ())]
    seeing = load_model(model)
    if seeing.encoder is None:
        seeing = with_encoder(seeing, _patches(size, PATCH))
    if not size:
        taken = f"{found.options.get('seq_len')} tokens with an image of {USUAL_PATCHES:,} patches"
        note = f"its data decide lengths and images: sequences of {taken} are taken; --seq-len, --images"
        found = replace(found, notes=(*found.notes, note))
    images, places = {"images": str(fields.get("dataset.num_images", 1))}, {"images": "dataset.num_images"}
    frozen, faults = _frozen(fields, "model.", where)
    images, places = images | {one: value for one, (value, _) in frozen.items()}, places
    places |= {one: place for one, (_, place) in frozen.items()}
    options, found = {**found.options, **images}, replace(found, faults=(*found.faults, *faults))
    lifted = (*found.lifted, "vision-in-16-bit", "vision-without-fsdp", "vision-trains-whole")
    whole = replace(found, options=options, places={**found.places, **places}, lifted=lifted)
    return replace(whole, model=seeing, model_name=None)


def _patches(size: object, patch: object) -> int:
    """Return the patches of an image of so many points; the usual number where the file does not say."""
    if isinstance(size, tuple | list) and len(size) == 2 and isinstance(patch, int) and patch > 0:
        sides = [side // patch for side in size if isinstance(side, int)]
        return max(1, sides[0] * sides[1]) if len(sides) == 2 else USUAL_PATCHES
    return USUAL_PATCHES
