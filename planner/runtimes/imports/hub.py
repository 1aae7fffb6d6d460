"""The model of the zoo that a Hugging Face name means."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from planner.errors import InputError, nearest
from planner.inputs.bounded import is_file
from planner.inputs.hf_config import read_hf_config
from planner.inputs.lent_numbers import lent_numbers
from planner.inputs.shipped import data_folder, names_and_aliases
from planner.inputs.twins import TUNED, TWINS
from planner.runtimes.imports.sheet import Sheet
from planner.runtimes.imports.zoo import same_name

_QUANTISED: Final = re.compile(r"awq|gptq|int4|4bit|8bit|bnb|nvfp4|mxfp4|aqlm|gguf|fp8")


_CACHED: Final = re.compile(r"models--([\w.-]+?)--([\w.-]+)")
"""A folder of Hugging Face's cache."""

_ENDING: Final = re.compile(TUNED.pattern.removesuffix("(?=-|$)") + "$")
"""The last such word of a name."""

_SIZE: Final = re.compile(r"(?<![a-z\d.])(?:\d+x)?\d+(?:\.\d+)?[bm](?![a-z\d])")
_SHAPED: Final = re.compile(
    r"vl|vision|omni|audio|moe|embed|rerank|reward|hybrid|mamba|draft|eagle|mini|tiny|nano|lite|distil|prun"
    r"|merge|layer|slim|long(?:llama|cat)|\d+e-(?!\d)|experts?|upcycl|mtp|\d+select|neurons|shear"
)
"""Words of a name that may mean another shape."""
_EXPERTS: Final = re.compile(r"(?i)moefor")
"""Of a folder that is called after a class, such as ``LlamaMoEForCausalLM``."""


@cache
def _index() -> dict[str, str]:
    """Return the zoo's name of each name and alias, and of each alias without its owner."""
    found = {name: path.stem for name, path in names_and_aliases(data_folder("models_zoo")).items()}
    tails = {name.rpartition("/")[2]: stem for name, stem in found.items() if "/" in name}
    return tails | found


def _spellings(name: str) -> Iterator[str]:
    """Yield a name and its shorter forms; in folders of ModelScope three underscores are a point."""
    tail = name.strip().rstrip("/").rpartition("/")[2].lower().replace("___", ".")
    yield name.strip().lower()
    for word in (tail, tail.replace("_", "-")):
        yield word
        while (ending := _ENDING.search(word)) is not None:
            word = word[: ending.start()]
            yield word
        plain = TUNED.sub("", word)
        yield plain
        yield plain.removeprefix("meta-")
        yield plain.removeprefix("hf-")


def known_name(name: str) -> str | None:
    """Return the zoo's name of a model that is built as ``name`` of Hugging Face, None where there is none.

    Examples
    --------
    >>> known_name("Qwen/Qwen2.5-Coder-7B-Instruct"), known_name("ai21labs/Jamba-tiny-dev")
    ('qwen2.5-7b', None)
    """
    index = _index()
    for word in _spellings(name):
        if word in index or word in TWINS:
            return index.get(word) or TWINS[word]
    return None


def likely_name(name: str) -> str | None:
    """Return the zoo's name that the last part of a name or path begins with, None where there is none.

    What follows may not be a size or a word for another shape, nor a folder a class that has experts.

    Examples
    --------
    >>> likely_name("/data/llama_2_7b_resized"), likely_name("Qwen2.5-7B-VL-mine"), likely_name("Yi")
    ('llama2-7b', None, None)
    """
    tail = name.strip().rstrip("/").rpartition("/")[2].lower().replace("___", ".").replace("_", "-")
    known = {TUNED.sub("", word): stem for word, stem in (_index() | TWINS).items() if _SIZE.search(word)}
    begun = [word for word in known if tail.startswith(f"{word}-")]
    longest = max(begun, key=len, default=None)
    if (
        longest is None
        or _EXPERTS.search(name)
        or _SIZE.search(tail[len(longest) :])
        or _SHAPED.search(tail[len(longest) :])
    ):
        return None
    return known[longest]


def model_named(sheet: Sheet, path: Path, *keys: str) -> str | None:
    """Return the model that the first of ``keys`` names: of the zoo, or a folder with a ``config.json``.

    A name that nobody knows is a fault, which ``MODEL`` on the command line lifts.
    """
    value = sheet.take(*keys)
    key = next((key for key in keys if key in sheet.values), keys[0])
    sheet.instead.update(dict.fromkeys(keys, "model"))
    if value is None:
        sheet.fault(key, "nothing", f"a model; name it: planner estimate MODEL --from {path.name}")
        return None
    name = str(value)
    if (cached := _CACHED.search(name)) is not None:
        name = f"{cached[1]}/{cached[2]}"
    for folder in (path.parent / name, Path(name)):
        try:
            if is_file(folder / "config.json"):
                return same_name(read_hf_config(folder / "config.json").model) or str(folder)
        except (OSError, ValueError, InputError):
            continue
    known = known_name(name)
    if known is not None:
        if name.lower() not in names_and_aliases(data_folder("models_zoo")):
            lent = lent_numbers(name, known)
            sheet.notes.append(f"{name}: {known} of the zoo, which is built alike{lent}")
        return known
    likely = None if _QUANTISED.search(name.lower()) else likely_name(name)
    if likely is not None:
        sheet.notes.append(
            f"{name}: by its name taken as {likely}, numbers of its positions included; MODEL for another"
        )
        return likely
    expected = (
        f"a model of the zoo or a folder with a config.json; else `planner models import` its config.json, "
        f"or name what it is: planner estimate MODEL --from {path.name}"
    )
    if _QUANTISED.search(name.lower()):
        expected += "; a quantised checkpoint is priced by --method qlora"
    plain = TUNED.sub("", name.rpartition("/")[2].lower())
    sheet.fault(key, repr(name[:120]), expected, nearest(plain, list(_index())))
    return None
