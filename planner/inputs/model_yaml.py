"""A model as the YAML text that people read and edit; `planner.inputs.load.load_model` reads it back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from textwrap import wrap
from typing import Any

from planner.inputs.block_parts import Extra, Part
from planner.inputs.diffusion import Diffusion
from planner.inputs.encoder import Encoder
from planner.inputs.layers import layers_text
from planner.inputs.model import ModelSpec

_PLAIN = re.compile(r"[A-Za-z][\w./+-]*(?: [\w./+-]+)*")
_SHAPE = (
    "hidden", "vocab", "tied_embeddings", "max_positions", "learned_positions", "spare_positions",
    "token_types", "norm", "norm_bias", "final_norm", "head_product", "variants",
)  # fmt: skip
_WORDS = {"true", "false", "null", "yes", "no", "on", "off"}


def model_yaml(model: ModelSpec) -> str:
    """Return ``model`` as YAML: defaults left out, each mixer and feed-forward on one line."""
    fields = model.model_dump(exclude_defaults=True)
    lines = [f"name: {_text(model.name)}"]
    if model.aliases:
        lines.append(f"aliases: [{', '.join(map(_text, model.aliases))}]")
    lines += [line for key in ("source", "note") if fields.get(key) for line in _prose(key, fields[key])]
    lines += [
        f"{key}: {_flow(fields[key])}"
        for key in _SHAPE
        if key in fields and (key, fields[key]) != ("vocab", 0)
    ]
    lines += _layers(model)
    if model.encoder is not None:
        lines += _encoder(model.encoder)
    if model.diffusion is not None:
        lines += _diffusion(model.diffusion)
    if "layer_inputs" in fields:
        lines.append(f"layer_inputs: {_flow(fields['layer_inputs'])}")
    if "prediction" in fields:
        lines.append(f"prediction: {_flow(fields['prediction'])}")
    if "numerics" in fields:
        lines += ["numerics:", *(f"  {key}: {_flow(value)}" for key, value in fields["numerics"].items())]
    if "published" in fields:
        lines += ["published:", *(f"  {key}: {_flow(value)}" for key, value in fields["published"].items())]
    return "\n".join(lines) + "\n"


def _layers(model: ModelSpec | Encoder) -> list[str]:
    """Return the blocks of a model or an encoder, and their order."""
    lines = ["blocks:"]
    for name, block in model.blocks.items():
        kinds = {"mixer": block.mixer, "beside": block.beside, "cross": block.cross, "ffn": block.ffn}
        parts = block.model_dump(exclude_defaults=True)
        lines.append(f"  {name}:")
        there = [(part, record) for part, record in kinds.items() if record]
        lines += [f"    {part}: {_flow({'kind': record.kind} | parts[part])}" for part, record in there]
        lines += [f"    norms: {parts['norms']}"] if "norms" in parts else []
        lines += _parts("    parts", block.parts) if block.parts else []
        lines += _parts("    extras", block.extras) if block.extras else []
    return [*lines, f"layers: {layers_text(model.layers)}"]


def _parts(key: str, parts: Iterable[Part | Extra]) -> list[str]:
    """Return parts of a block or of an end, one a line."""
    inner = " " * (len(key) - len(key.lstrip()) + 2)
    said = ({"kind": part.kind} | part.model_dump(exclude_defaults=True) for part in parts)
    return [f"{key}:", *(f"{inner}- {_flow(fields)}" for fields in said)]


def _diffusion(diffusion: Diffusion) -> list[str]:
    """Return the ends of a diffusion transformer."""
    fields = diffusion.model_dump(exclude_defaults=True, exclude={"first", "last"})
    lines = [f"  {key}: {_flow(value)}" for key, value in fields.items()]
    return ["diffusion:", *lines, *_parts("  first", diffusion.first), *_parts("  last", diffusion.last)]


def _encoder(encoder: Encoder) -> list[str]:
    """Return an encoder, its blocks as those of a model."""
    fields = encoder.model_dump(exclude_defaults=True, exclude={"blocks", "layers"})
    said = [f"{key}: {_flow(value)}" for key, value in fields.items() if key != "projectors"]
    lines = [*said, *_layers(encoder)]
    projectors = fields.get("projectors", ())
    lines += ["projectors:"] * bool(projectors) + [f"  - {_flow(projector)}" for projector in projectors]
    return ["encoder:", *(f"  {line}" for line in lines)]


def _prose(key: str, text: str) -> list[str]:
    words = " ".join(text.split())
    if len(words) + len(key) < 100:
        return [f"{key}: {_text(words)}"]
    lines = wrap(words, 98, break_long_words=False, break_on_hyphens=False)
    return [f"{key}: >-", *(f"  {line}" for line in lines)]


def _flow(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_flow(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_flow, value))}]"
    return _text(value) if isinstance(value, str) else json.dumps(value)


def _text(text: str) -> str:
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    if re.fullmatch(r"https?://[\w./@%=~+-]+", text):
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(sign if sign.isprintable() else f"\\U{ord(sign):08X}" for sign in quoted)
