"""The model of the zoo that has exactly the parts which a file describes."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from planner.inputs.build import build
from planner.inputs.load import load_model
from planner.inputs.model import ModelSpec
from planner.inputs.numerics import Numerics, said
from planner.inputs.shipped import data_folder


def same_parts(one: ModelSpec, other: ModelSpec) -> bool:
    """Return whether two models are built alike, whatever their names and longest rotary sequence."""
    return _parts(one) == _parts(other)


def _parts(model: ModelSpec) -> tuple[Any, ...]:
    """Return what a model is built of, its vocabulary first."""
    positions = (model.position_rows, model.spare_positions, model.token_types, model.head_product)
    whole = (model.vocab, model.hidden, model.tied_embeddings, positions, model.encoder)
    norms = (model.norm, model.norm_bias, model.final_norm, model.variants, model.diffusion)
    extra = model.prediction and (
        model.prediction.layers,
        model.prediction.repeated,
        model.blocks[model.prediction.block],
    )
    return (*whole, *norms, tuple(model.blocks[name] for name in model.layers), extra)


def known_model(record: Mapping[str, Any], where: str) -> tuple[str | None, ModelSpec | None]:
    """Return the zoo's name of a model, or the model itself where the zoo has none such.

    ``record``: fields of a `ModelSpec` but for its name; a vocabulary of None is taken from the zoo's model.

    Raises `InputError` if the numbers do not make a model.
    """
    model = _built(record, where)
    said = bool(record.get("vocab") or record.get("diffusion"))
    name = zoo_name(model, any_vocab=not said)
    return name, model if said and name is None else None


def names_of_shape(record: Mapping[str, Any], where: str) -> list[str]:
    """Return the zoo's names of a shape whose vocabulary is not known, the likeliest first."""
    return zoo_names(_built(record, where), any_vocab=True)


def other_vocabularies(record: Mapping[str, Any], where: str) -> tuple[str, ...]:
    """Return a note where a file leaves the vocabulary open and the zoo has its shape with several."""
    if record.get("vocab"):
        return ()
    sizes: dict[int, str] = {}
    for name in names_of_shape(record, where):
        sizes.setdefault(load_model(name).vocab, name)
    if len(sizes) < 2:
        return ()
    first, *others = [f"{name} ({vocab:,} tokens)" for vocab, name in sizes.items()]
    return (f"no vocabulary is said: taken as {first}; of this shape {_are(others)}: --vocab-size or MODEL",)


def _are(others: Sequence[str]) -> str:
    return f"{'are' if len(others) > 1 else 'is'} also {', '.join(others)}"


def _built(record: Mapping[str, Any], where: str) -> ModelSpec:
    open_vocab = {} if record.get("diffusion") else {"vocab": record.get("vocab") or 1}
    filled = dict(record) | {"name": "model"} | open_vocab
    if filled.get("learned_positions") and not filled.get("max_positions"):
        filled["max_positions"] = 1
    return build(ModelSpec, filled, where)


USUAL: Final = ("llama", "gpt")
"""Beginnings of the names that go before others of one shape and vocabulary."""


def zoo_name(model: ModelSpec, any_vocab: bool = False) -> str | None:
    """Return the name of the likeliest model of the zoo that is built alike, if there is one."""
    return next(iter(zoo_names(model, any_vocab)), None)


def zoo_names(model: ModelSpec, any_vocab: bool = False) -> list[str]:
    """Return the names of all models of the zoo that are built alike, the likeliest first."""
    own, found = _parts(model), []
    with os.scandir(data_folder("models_zoo")) as files:
        entries = [(entry.path, entry.stat().st_mtime_ns) for entry in files if entry.name.endswith(".yaml")]
    for path, changed in entries:
        if _hidden(path, changed) != str(model.hidden):
            continue
        known, parts = _known(path, changed)
        if own[1:] == parts[1:] and (any_vocab or own[0] == parts[0]):
            name = Path(path).stem
            other, alike_in = _differing(model.numerics, known.numerics), _agreeing(model, known)
            longest = model.max_positions not in (None, known.max_positions)
            found.append((len(other), not name.startswith(USUAL), longest, -alike_in, name))
    return [name for *_, name in sorted(found)]


@lru_cache(maxsize=1024)
def _hidden(path: str, changed: int) -> str:
    """Return what a file of the zoo, last ``changed`` at a time, says of the hidden size."""
    line = re.search(r"^hidden: *(\d+)$", Path(path).read_text(encoding="utf-8"), re.MULTILINE)
    return line[1] if line else ""


@lru_cache(maxsize=1024)
def _known(path: str, changed: int) -> tuple[ModelSpec, tuple[Any, ...]]:
    """Return the model of a file of the zoo, last ``changed`` at a time, and its parts."""
    model = load_model(path)
    return model, _parts(model)


def with_own_numbers(
    record: Mapping[str, Any], name: str, title: str
) -> tuple[ModelSpec | None, tuple[str, ...]]:
    """Return the zoo's model ``name`` with what a file says of positions, norms, scales and router otherwise.

    A number that only one of the two says is no difference. Without any there is no model of the file's own;
    else a note says in what it differs.
    """
    known, own = load_model(name), Numerics.model_validate(record.get("numerics", {}))
    other = _differing(own, known.numerics)
    if not other:
        return None, ()
    told, base = said(own), said(known.numerics)
    merged = base | told
    if "router" in base and "router" in told:
        merged["router"] = {**base["router"], **told["router"]}
    if "rope_scaling" in other and "rope_scaling" not in told:
        merged.pop("rope_scaling", None)
    words = ", ".join(f"{key} {value}, not {usual}" for key, (value, usual) in other.items())
    numbers = Numerics.model_validate(merged)
    model = known.model_copy(update={"name": f"{name} as in {title}", "numerics": numbers})
    return model, (f"{name} but for its numerics, which are the file's: {words}",)


def same_name(model: ModelSpec) -> str | None:
    """Return the name of the zoo's model that is built alike and has no other number, if there is one."""
    name = zoo_name(model)
    return name if name and not _differing(model.numerics, load_model(name).numerics) else None


_SCALES: Final = (
    "attention_scale", "attention_softcap", "qkv_clip", "logit_softcap", "embedding_scale", "residual_scale",
    "logit_scale", "value_scale",
)  # fmt: skip
"""Numbers that a model which does not say them does not have."""


def _differing(one: Numerics, other: Numerics) -> dict[str, tuple[object, object]]:
    """Return what both say otherwise, by the name of the field; and what one of them has and the other not.

    Positions are not stretched where the base is known and no scaling.
    """
    told, known = _flat(one), _flat(other)
    pairs = {key: (value, known[key]) for key, value in told.items() if key in known and value != known[key]}
    pairs |= {key: (told[key], "none") for key in _SCALES if known and key in told and key not in known}
    kinds = ("rope_scaling.kind", "rope_theta")
    based = all(kinds[1] in fields for fields in (told, known)) or kinds[0] in told
    if based and (kinds[0] in told) != (kinds[0] in known):
        pairs["rope_scaling"] = (told.get(kinds[0], "none"), known.get(kinds[0], "none"))
    if kinds[0] in pairs:
        pairs = {key: pair for key, pair in pairs.items() if key == kinds[0] or "rope_scaling" not in key}
    return pairs


def _agreeing(one: ModelSpec, other: ModelSpec) -> int:
    """Return how many numbers two models both say, and alike."""
    told, known = _flat(one.numerics), _flat(other.numerics)
    return sum(known.get(key) == value for key, value in told.items())


def _flat(own: Numerics) -> dict[str, object]:
    """Return the numbers that are said, those of a part under its name and theirs."""
    fields: dict[str, object] = {}
    for name, value in said(own).items():
        parts = value.items() if isinstance(value, dict) else ()
        fields |= {f"{name}.{part}": one for part, one in parts} or {name: value}
    return fields
