"""Load the model that a user names: the only door for models."""

from __future__ import annotations

from pathlib import Path

from planner.deferred import deferred
from planner.errors import InputError
from planner.inputs import spoken_model
from planner.inputs.build import build
from planner.inputs.model import ModelSpec
from planner.inputs.shipped import data_folder, find_file
from planner.inputs.yaml_file import read_yaml

with deferred():
    from planner.inputs import hf_config


def model_names() -> list[str]:
    """Return the names of the models that ship with the planner."""
    return sorted(path.stem for path in data_folder("models_zoo").glob("*.yaml"))


def load_model(text: str) -> ModelSpec:
    """Return the model that ``text`` means.

    ``text``: a name or alias from the zoo, as people write it; a model YAML, a Hugging Face ``config.json``
    or a folder with one; or an id whose ``config.json`` lies in the local cache of the Hugging Face Hub.

    Raises `InputError` if there is no such model, several can be meant, or its file is wrong.
    """
    path, name = model_file(text)
    if path.is_dir() or path.suffix == ".json":
        return hf_config.read_hf_config(path, name).model
    return build(ModelSpec, read_yaml(path), str(path))


def model_file(text: str) -> tuple[Path, str]:
    """Return the file or folder of the model that ``text`` means, and its name where the file has none.

    Raises `InputError` if there is none, or several can be meant.
    """
    try:
        return find_file(text, data_folder("models_zoo"), "model"), ""
    except InputError as error:
        known = spoken_model.zoo_model(text)
        if known is not None:
            return known, ""
        cached = spoken_model.cached_config(text)
        if cached is not None:
            return cached, text.strip().rpartition("/")[2]
        raise spoken_model.unknown(text, error.problems[0]) from None
