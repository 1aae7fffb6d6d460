"""Find and load what ships with the planner, and what a user names: the only door for files."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from planner.errors import InputError, Problem, nearest
from planner.inputs.build import build
from planner.inputs.model import ModelSpec
from planner.inputs.yaml_file import read_yaml

_ALIASES = re.compile(r"^aliases: *\[(.*)\]", re.MULTILINE)


@cache
def data_folder(name: str) -> Path:
    """Return the folder of shipped data called ``name``: in the installed package, or beside its source.

    Raises
    ------
    FileNotFoundError
        If neither is there, which means a broken installation.
    """
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "data" / name, package.parent / name):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(f"{name} is missing from the installation of planner")


@cache
def names_and_aliases(folder: Path) -> dict[str, Path]:
    """Return the file of each name and alias, in lower case, of the YAML files in ``folder``.

    A file's name is its stem. Aliases come from a scan for the line ``aliases: [...]``, so that the
    index of a hundred files costs no more than reading them.
    """
    index: dict[str, Path] = {}
    for path in sorted(folder.glob("*.yaml")):
        found = _ALIASES.search(path.read_text(encoding="utf-8"))
        words = found[1].split(",") if found else []
        index |= {word.strip(" \"'").lower(): path for word in [path.stem, *words] if word.strip()}
    return index


def find_file(text: str, folder: Path, kind: str) -> Path:
    """Return the file that ``text`` means: a name or alias in ``folder``, whatever its case, or a path.

    Raises
    ------
    InputError
        If it is neither; the message has the nearest names.
    """
    index = names_and_aliases(folder)
    word = text.strip().lower()
    if word in index:
        return index[word]
    try:
        path = Path(text).expanduser()
        if word and path.exists():
            return path
    except (OSError, RuntimeError, ValueError):
        pass
    if re.search(r"\.(ya?ml|json)$|^[.~]?/", word):
        raise InputError(Problem(kind, repr(text[:200]), f"a file that exists, or a {kind} by its name"))
    what = dict.fromkeys(("hardware", "cluster"), "cluster or an accelerator").get(kind, kind)
    expected = f"a {what} that ships with the planner ({len(set(index.values()))} are listed), or a path"
    raise InputError(Problem(kind, repr(text[:200]), expected, nearest(text[:200], index)))


def model_names() -> list[str]:
    """Return the names of the models that ship with the planner."""
    return sorted(path.stem for path in data_folder("models_zoo").glob("*.yaml"))


def load_model(text: str) -> ModelSpec:
    """Return the model that ``text`` means.

    Parameters
    ----------
    text : str
        A name or alias from the zoo, as people write it; a model YAML, a Hugging Face ``config.json`` or a
        folder with one; or an id whose ``config.json`` lies in the local cache of the Hugging Face Hub.

    Raises
    ------
    InputError
        If there is no such model, several can be meant, or its file is wrong.
    """
    path, name = model_file(text)
    if path.is_dir() or path.suffix == ".json":
        from planner.inputs.hf_config import read_hf_config

        return read_hf_config(path, name).model
    return build(ModelSpec, read_yaml(path), str(path))


def model_file(text: str) -> tuple[Path, str]:
    """Return the file or folder of the model that ``text`` means, and its name where the file has none.

    Raises
    ------
    InputError
        If there is none, or several can be meant.
    """
    try:
        return find_file(text, data_folder("models_zoo"), "model"), ""
    except InputError as error:
        from planner.inputs import spoken_model

        known = spoken_model.zoo_model(text)
        if known is not None:
            return known, ""
        cached = spoken_model.cached_config(text)
        if cached is not None:
            return cached, text.strip().rpartition("/")[2]
        raise spoken_model.unknown(text, error.problems[0]) from None
