"""Which model type a ``config.json`` is, where its language model is, and what speaks against it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from planner.errors import InputError, Problem, nearest
from planner.inputs.hf_family import Family
from planner.inputs.hf_layers import KINDS, layer_kinds
from planner.inputs.hf_mixers import READ, WINDOWED, WORDS
from planner.inputs.hf_refused import REASONS, REFUSED
from planner.inputs.hf_types import FAMILIES, THINKERS, WRAPPERS
from planner.inputs.hf_vision import vision_notes

_INDEX_KEYS = frozenset({"index_head_dim", "index_topk"})
_PICKING = ("deepseek_sparse_attention", "indexed_attention")
EXACT = "an architecture that the model record expresses exactly"


def thinker_of(raw: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[str]]:
    """Return the part of a model that also speaks which hears, sees and thinks; others as they are."""
    inner = raw.get("thinker_config")
    if raw.get("model_type") not in THINKERS or not isinstance(inner, Mapping):
        return raw, []
    said = "the thinker alone: the talker, and what makes sound of its codes, are left out"
    return dict(inner) | {"model_type": f"{raw['model_type']}_thinker"}, [said]


def language_model(raw: Mapping[str, Any], where: str) -> tuple[Mapping[str, Any], list[str]]:
    """The part of a config that is the language model, and notes on the rest."""
    notes = []
    text = raw.get("text_config")
    if text is not None and not isinstance(text, Mapping):
        raise InputError(Problem(f"{where}: text_config", type(text).__name__, "an object"))
    notes += vision_notes(raw, text or raw)
    if raw.get("quantization_config") or (text or {}).get("quantization_config"):
        notes.append("quantization_config is not read: precision belongs to the workload")
    if _remote(raw, text or {}):
        notes.append("the code beside the weights is never run: the architecture is that of the model type")
    return (raw if text is None else text), notes


def model_type(raw: Mapping[str, Any], text: Mapping[str, Any], where: str) -> str:
    """The family's name, once nothing speaks against it."""
    outer = str(raw.get("model_type"))
    flat = WRAPPERS.get(outer, outer) if "vision_config" in raw else outer
    inner = flat if text is raw else str(text.get("model_type", WRAPPERS.get(outer)))
    word = inner if text is raw or outer in WRAPPERS else outer
    if (reason := REASONS.get(word, REASONS.get(outer))) is not None:
        raise InputError(Problem(where, f"model_type {word[:80]} with {reason}", EXACT))
    reasons = _reasons(raw, text, word)
    if reasons:
        found = f"model_type {inner[:80]} with {', '.join(reasons)}"
        raise InputError(Problem(where, found, EXACT))
    if word in FAMILIES:
        return word
    if word != "None" and not any("vocab_size" in part for part in (raw, text)):
        found = f"model_type {word[:80]} without a vocabulary: an encoder of images or sound, say"
        raise InputError(Problem(where, found, "a language model, with vocab_size or a text_config"))
    remote = " and remote code, which is never run" if _remote(raw, text) else ""
    known = [*FAMILIES, *WRAPPERS]
    near = nearest(word[:80], known)
    told = f"one of the {len(known)} types that are read"
    expected = f"{told}, or a model YAML of your own (docs/how-to/add-a-model.md)"
    raise InputError(Problem(f"{where}: model_type", word[:80] + remote, expected, near))


def _reasons(raw: Mapping[str, Any], text: Mapping[str, Any], kind: str) -> list[str]:
    """What the model record cannot express, each with the keys that say so."""
    keys: dict[str, list[str]] = {}
    family = FAMILIES.get(kind, Family())
    read = READ[family.linear] if family.linear else frozenset[str]()
    read |= frozenset({"moe_latent_size"} if family.narrow else ()) | frozenset(family.reads)
    read |= _INDEX_KEYS if family.picks else frozenset({"zero_expert_num"} if family.paired else ())
    for key, meaning in REFUSED.items():
        if key not in read and (is_set(text.get(key)) or is_set(raw.get(key))):
            keys.setdefault(meaning, []).append(key)
    known: Collection[str] = KINDS | dict.fromkeys(_PICKING * family.picks, "full")
    if family.linear:
        known = ("hybrid",) if family.beside else (*WORDS, *WINDOWED * family.windows)
    strange = dict.fromkeys(word for word in layer_kinds(text) if word not in known)
    layers = [f"{kind.replace('_', ' ')} layers (layer_types)" for kind in strange]
    return [f"{meaning} ({', '.join(names)})" for meaning, names in keys.items()] + layers


def _remote(raw: Mapping[str, Any], text: Mapping[str, Any]) -> bool:
    return any(part.get(key) for part in (raw, text) for key in ("auto_map", "trust_remote_code"))


def is_set(value: Any) -> bool:
    """Whether a key says something."""
    return value not in (None, False, 0, [], {}, "")
