"""How many tokens a tokenizer knows, where its name tells it."""

from __future__ import annotations

from typing import Final

from planner.errors import InputError
from planner.inputs.load import load_model
from planner.runtimes.imports import hub

KINDS: Final = {"gpt2bpetokenizer": 50_257, "llama2tokenizer": 32_000}
"""Tokenizers of Megatron-LM with one vocabulary each: https://huggingface.co/openai-community/gpt2 and
https://huggingface.co/meta-llama/Llama-2-7b-hf (config.json: vocab_size). [token]"""


def vocabulary(kind: str | None, model: str | None) -> int | None:
    """Return the vocabulary of a tokenizer, or None where nothing is known of it. [token]

    ``kind``: its type, as ``--tokenizer-type`` names it; ``model``: whose it is, as ``--tokenizer-model``
    names it: a model of the zoo, by name or path.

    Examples
    --------
    >>> vocabulary("GPT2BPETokenizer", None), vocabulary("HuggingFaceTokenizer", "/data/Llama-3-8B")
    (50257, 128256)
    """
    if kind is not None and kind.lower() in KINDS and not _is_another(kind, model):
        return KINDS[kind.lower()]
    for name in () if model is None else (model, model.rstrip("/").rpartition("/")[2]):
        try:
            return load_model(name.lower()).vocab if name and not name.endswith((".model", ".json")) else None
        except InputError:
            continue
    known = None if model is None else hub.known_name(model) or hub.likely_name(model)
    return None if known is None else load_model(known).vocab


def _is_another(kind: str, model: str | None) -> bool:
    """Whether a path names a tokenizer that only is of the same kind of file as Llama 2's.

    Examples
    --------
    >>> _is_another("Llama2Tokenizer", "/src/our-tokenizer-v4/v4.model")
    True
    >>> _is_another("Llama2Tokenizer", "/data/tokenizer.model"), _is_another("Llama2Tokenizer", "${MODEL}")
    (False, False)
    """
    path = (model or "").lower()
    folder, _, name = path.rpartition("/")
    own = name not in ("", "tokenizer.model") or "tokenizer" in folder
    return kind.lower() == "llama2tokenizer" and own and "llama" not in path and "$" not in name
