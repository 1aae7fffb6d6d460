"""The model of the zoo that a Hugging Face name means."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from planner.errors import InputError, nearest
from planner.inputs.hf_config import read_hf_config
from planner.inputs.load import data_folder, names_and_aliases
from planner.runtimes._imports._sheet import Sheet
from planner.runtimes._imports.zoo import zoo_name

_TUNED: Final = re.compile(
    r"-(?:instruct|chat|base|hf|it|pt|sft|thinking|coder|math|0324|0528|2507|bf16|unsloth)(?=-|$)"
)
"""Words of a name that tell how a model was trained, not how it is built."""

_QUANTISED: Final = re.compile(r"awq|gptq|int4|4bit|8bit|bnb|nvfp4|mxfp4|aqlm|gguf|fp8")
TWINS: Final = {
    "deepseek-r1-distill-llama-8b": "llama3.1-8b",
    "deepseek-r1-distill-llama-70b": "llama3.3-70b",
    "deepseek-r1-distill-qwen-7b": "qwen2.5-7b",
    "deepseek-r1-distill-qwen-14b": "qwen2.5-14b",
    "deepseek-r1-distill-qwen-32b": "qwen2.5-32b",
    "deepseek-v3.1": "deepseek-v3",
    "hermes-3-llama-3.1-8b": "llama3.1-8b",
    "hermes-3-llama-3.1-70b": "llama3.1-70b",
    "qwen2-0.5b": "qwen2.5-0.5b",
    "qwen2-1.5b": "qwen2.5-1.5b",
    "qwen2-7b": "qwen2.5-7b",
    "qwen2-72b": "qwen2.5-72b",
    "tinyllama-1.1b-v1.0": "tinyllama-1.1b",
    "tinyllama-1.1b-intermediate-step-1431k-3t": "tinyllama-1.1b",
    "mixtral-8x7b-v0.1": "mixtral-8x7b",
    "mimo-7b-rl": "mimo-7b",
    "granite-3.1-2b": "granite-3.0-2b",
    "granite-3.1-8b": "granite-3.0-8b",
    "granite-3.3-2b": "granite-3.0-2b",
    "granite-3.3-8b": "granite-3.0-8b",
    "mistral-7b-sft-beta": "mistral-7b-v0.1",
    "mistral-7b-sft-constitutional-ai": "mistral-7b-v0.1",
    "open-llama-7b": "llama-7b",
    "open-llama-7b-v2": "llama-7b",
    "open-llama-13b": "llama-13b",
    "qwen2.5-7b-rope-300k": "qwen2.5-7b",
    "smollm3-3b-checkpoints": "smollm3-3b",
    "vicuna-7b-v1.5": "llama2-7b",
    "vicuna-13b-v1.5": "llama2-13b",
    "yi-1.5-6b": "yi-6b",
    "yi-1.5-9b": "yi-9b",
    "yi-1.5-34b": "yi-34b",
    "zephyr-7b-alpha": "mistral-7b-v0.1",
    "zephyr-7b-beta": "mistral-7b-v0.1",
    "zephyr-7b-sft-full": "mistral-7b-v0.1",
}
"""Models that have another's shape: their ``config.json`` on https://huggingface.co says the same sizes."""


@cache
def _index() -> dict[str, str]:
    """Return the zoo's name of each name and alias, and of each alias without its owner."""
    found = {name: path.stem for name, path in names_and_aliases(data_folder("models_zoo")).items()}
    tails = {name.rpartition("/")[2]: stem for name, stem in found.items() if "/" in name}
    return tails | found


def _spellings(name: str) -> Iterator[str]:
    tail = name.strip().rstrip("/").rpartition("/")[2].lower()
    yield name.strip().lower()
    for word in (tail, tail.replace("_", "-")):
        yield word
        plain = _TUNED.sub("", word)
        yield plain
        yield plain.removeprefix("meta-")


def known_name(name: str) -> str | None:
    """Return the zoo's name of a model that is built as ``name`` of Hugging Face, None where there is none.

    Examples
    --------
    >>> known_name("Qwen/Qwen2.5-Coder-7B-Instruct"), known_name("tiiuae/falcon-7b")
    ('qwen2.5-7b', None)
    """
    index = _index()
    for word in _spellings(name):
        if word in index or word in TWINS:
            return index.get(word) or TWINS[word]
    return None


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
    for folder in (path.parent / name, Path(name)):
        try:
            if (folder / "config.json").is_file():
                return zoo_name(read_hf_config(folder / "config.json").model) or str(folder)
        except (OSError, ValueError, InputError):
            continue
    known = known_name(name)
    if known is not None:
        if name.lower() not in names_and_aliases(data_folder("models_zoo")):
            sheet.notes.append(f"{name}: {known} of the zoo, which is built alike")
        return known
    expected = (
        f"a model of the zoo or a folder with a config.json; else `planner models import` its config.json, "
        f"or name what it is: planner estimate MODEL --from {path.name}"
    )
    if _QUANTISED.search(name.lower()):
        expected += "; a quantised checkpoint is priced by --method qlora"
    plain = _TUNED.sub("", name.rpartition("/")[2].lower())
    sheet.fault(key, repr(name[:120]), expected, nearest(plain, list(_index())))
    return None
