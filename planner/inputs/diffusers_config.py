"""The ``config.json`` of a diffusion transformer of diffusers as a model: exactly, or refused."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from planner.errors import InputError, Problem, nearest
from planner.inputs.bounded import is_file, is_folder
from planner.inputs.build import build
from planner.inputs.diffusers import FAMILIES
from planner.inputs.hf_fields import Config
from planner.inputs.model import ModelSpec

CLASS = "_class_name"
"""Key by which configs of diffusers say whose they are."""


def config_file(path: Path) -> tuple[Path, str]:
    """Return the config that is meant, and a name: its own, its folder's, or its pipeline's."""
    inner = path / "transformer" / "config.json"
    file = inner if is_file(inner) else path / "config.json" if is_folder(path) else path
    if file.name != "config.json":
        return file, file.stem
    folder = file.resolve().parent
    return file, folder.parent.name if folder.name == "transformer" else folder.name


def diffusion_from_config(raw: Mapping[str, Any], where: str, name: str) -> tuple[ModelSpec, tuple[str, ...]]:
    """Return the model that the config ``raw`` describes, and what the reader had to assume.

    Raises `InputError` if the class is not known, or a key or its value is not expressed exactly.
    """
    word = str(raw.get(CLASS))[:80]
    family = FAMILIES.get(word)
    if family is None:
        expected = f"one of {', '.join(FAMILIES)}: other classes are not expressed exactly"
        raise InputError(Problem(f"{where}: {CLASS}", word, expected, nearest(word, FAMILIES)))
    config = Config(raw, family.defaults, where)
    for key, only in family.fixed.items():
        if key in raw and raw[key] != only:
            config.fault(key, raw[key], f"{only}: another value is not expressed exactly")
    for key in sorted(key for key in raw if key[:1] != "_" and key not in family.known):
        config.fault(key, raw[key], f"a key of {word}; nearest: {nearest(key, family.known)}")
    config.note("text encoders and the autoencoder are left out: what they make is taken to be there")
    record = family.record(config)
    if config.problems:
        raise InputError(config.problems)
    record |= {"name": name, "note": "; ".join(config.notes), "source": f"{word} ({family.cite})"}
    return build(ModelSpec, record, where), tuple(config.notes)
