"""Models as people name them: an id of the Hugging Face Hub, a tuned or dated variant, words with blanks."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from planner.errors import InputError, Problem, nearest
from planner.inputs.shipped import by_words, data_folder, find_file, names_and_aliases
from planner.inputs.twins import TUNED, TWINS

VARIANTS: Final = frozenset({"base", "instruct", "it", "pt", "hf", "chat"})
"""Words after which a model has the same shape: it was trained further, or its file was converted."""

OWN_SHAPES: Final = frozenset({"granite"})
"""Families whose tuned variants have another vocabulary than their base."""

MAKERS: Final = ("meta",)
"""Words before a family's name that say nothing of the model."""

MOST_NAMED: Final = 6
"""Candidates that a message names."""

_WORD = re.compile(r"\d+(?:\.\d+)?|[a-z]+")
_DATE = re.compile(r"(?:0[1-9]|1[0-2])(?:[0-2]\d|3[01])|2[2-9](?:0[1-9]|1[0-2])|2[2-9]\d{4}|20\d{6}")
_HUB_ID = re.compile(r"(?:[\w.-]+/)?[\w.-]+")

Words = tuple[str, ...]


def words_of(text: str) -> Words:
    """Return the letters and numbers of a model's name, without who made it and how it was tuned.

    Examples
    --------
    >>> words_of("meta-llama/Llama-3.1-8B-Instruct"), words_of("Llama 3.1 8B")
    (('llama', '3.1', '8', 'b'), ('llama', '3.1', '8', 'b'))
    """
    words = _WORD.findall(text.strip().rpartition("/")[2].lower())
    words = words[1:] if words[:1] and words[0] in MAKERS else words
    tuned = not OWN_SHAPES.intersection(words)
    return tuple(word for word in words if not (tuned and word in VARIANTS))


def zoo_model(text: str) -> Path | None:
    """Return the file of the zoo's model that a name means beyond its names and aliases; None for none.

    A date that the zoo does not know is left out, where only one model can be meant. None also where several
    can be, since models of one name may differ in shape.
    """
    index, words = by_words(data_folder("models_zoo"), words_of), words_of(text)
    found = index.get(words, frozenset())
    undated = _undated(words)
    if not found and undated in index:
        found = frozenset[Path]().union(*(paths for key, paths in index.items() if _undated(key) == undated))
    if not found:
        return _twin(text)
    return next(iter(found)) if len(found) == 1 and undated else None


def _twin(text: str) -> Path | None:
    """Return the zoo's model with the shape of one that was trained from it, or that used its shape again."""
    folder, name = data_folder("models_zoo"), text.strip().rpartition("/")[2].lower()
    plain = name if OWN_SHAPES.intersection(words_of(name)) else TUNED.sub("", name)
    twin = TWINS.get(name) or TWINS.get(plain)
    if twin is not None:
        return names_and_aliases(folder)[twin]
    found = by_words(folder, words_of).get(words_of(plain), frozenset())
    return next(iter(found)) if len(found) == 1 else None


def cached_config(text: str) -> Path | None:
    """Return the ``config.json`` of a model in the local cache of the Hugging Face Hub; None where it is not.

    The revision that ``main`` was at last is taken, or else the newest one.
    """
    if not _HUB_ID.fullmatch(text.strip()):
        return None
    wanted = f"models--{text.strip().replace('/', '--')}".lower()
    try:
        found = next((one for one in hub_cache().iterdir() if one.name.lower() == wanted), None)
        if found is None:
            return None
        main = found / "refs" / "main"
        revision = main.read_text(encoding="utf-8").strip() if main.is_file() else ""
        snapshots = sorted((found / "snapshots").iterdir(), key=lambda one: one.stat().st_mtime, reverse=True)
    except (OSError, UnicodeDecodeError):
        return None
    ordered = sorted(snapshots, key=lambda one: one.name != revision)
    return next((one / "config.json" for one in ordered if (one / "config.json").is_file()), None)


def hub_cache() -> Path:
    """Return the folder where the Hugging Face libraries keep what they have downloaded."""
    own = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE")
    if own:
        return Path(own).expanduser()
    home = os.environ.get("HF_HOME")
    if home:
        return Path(home).expanduser() / "hub"
    cache_home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache_home).expanduser() / "huggingface" / "hub"


def unknown(text: str, problem: Problem) -> InputError:
    """Return the fault of a name that nobody knows; of one from the Hub, with the one file to download."""
    near = ", ".join(likely(text)) or problem.nearest
    if not re.fullmatch(r"\w[\w.-]*/[\w.-]+(?<!\.yaml)(?<!\.yml)(?<!\.json)", text.strip()):
        return InputError(Problem(problem.where, problem.found, problem.expected, near))
    name = text.strip()
    address = f"https://huggingface.co/{name}/resolve/main/config.json"
    expected = (
        "a model that ships with the planner or lies in the local Hugging Face cache, or a path: download "
        f"{address} to {name.partition('/')[2]}/config.json and name that folder"
    )
    return InputError(Problem(problem.where, problem.found, expected, near))


def likely(text: str) -> list[str]:
    """Return the zoo's models that have all words of a name, or the nearest in spelling."""
    said = set(_undated(words_of(text)))
    index = by_words(data_folder("models_zoo"), words_of)
    hits = {path.stem for key, paths in index.items() if said and said <= set(key) for path in paths}
    if hits:
        return sorted(hits, key=lambda name: (len(name), name))[:MOST_NAMED]
    named = {path.stem: path.stem for path in names_and_aliases(data_folder("models_zoo")).values()}
    return [one for one in nearest(" ".join(words_of(text)).replace(" ", "-"), named).split(", ") if one]


def note_of(text: str) -> str:
    """Return what a model's name was taken for, where it is not one of the zoo's own; empty otherwise."""
    try:
        find_file(text, data_folder("models_zoo"), "model")
    except InputError:
        found = zoo_model(text)
        if found is not None:
            return f"{text} is taken as {found.stem}, which has its shape"
        config = cached_config(text)
        return "" if config is None else f"{text} is read from the Hugging Face cache: {config}"
    return ""


def _undated(words: Words) -> Words:
    return tuple(word for word in words if not _DATE.fullmatch(word))
