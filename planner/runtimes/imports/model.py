"""The model of a launch file: that of a ``config.json`` beside it, or of the record that it describes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from planner.dataclasses import replace
from planner.inputs.bounded import is_file
from planner.inputs.build import build
from planner.inputs.hf_config import read_hf_config
from planner.inputs.model import ModelSpec
from planner.runtimes.imports.command_line import Training
from planner.runtimes.imports.sheet import Imported
from planner.runtimes.imports.zoo import known_model, other_vocabularies, same_name, with_own_numbers

GPT2: Final = 50_257
"""Tokens where nothing tells them, which decides no layout: Megatron-LM's pretrain_gpt.py has
``args_defaults={'tokenizer_type': 'GPT2BPETokenizer'}``. [token]
"""


def with_config(found: Imported, path: Path) -> Imported:
    """Return what was found with the model of a ``config.json`` beside the file."""
    config = path.with_name("config.json")
    if config == path or not is_file(config):
        return found
    model = read_hf_config(config).model
    name = same_name(model) or str(config)
    cut = model.expert_kinds and found.runtime == "fsdp" and "tp" in found.options
    inner = {"etp": found.options["tp"]} if cut else {}
    return replace(found, model_name=name, options={**inner, **found.options})


def with_record(found: Imported, record: dict[str, Any] | None, path: Path, key: str) -> Imported:
    """Return what was found with the model of a record: the zoo's where it has the same parts and numbers."""
    if record is None:
        return found
    name, model = known_model(record, str(path))
    if name is not None:
        own, numbers = with_own_numbers(record, name, path.stem)
        notes = (*found.notes, *other_vocabularies(record, str(path)), *numbers)
        return replace(found, model=own, model_name=None if own else name, notes=notes)
    if model is None and key == "MODEL":
        note = f"no {key}, so no model could be made of its shape; name one as MODEL"
        return replace(found, notes=(*found.notes, note))
    title = f"{path.stem} in {path.parent.name or 'a folder'}"
    vocab = record.get("vocab") if model is not None else GPT2
    tokens = {} if vocab is None else {"vocab": vocab}
    whole = build(ModelSpec, {**record, **tokens, "name": title}, str(path))
    if model is not None:
        return replace(found, model=whole)
    share = whole.hidden * GPT2 * (1 if whole.tied_embeddings else 2) / whole.params
    told = f"{GPT2:,} tokens are taken, as GPT-2's has, {share:.0%} of the parameters"
    note = f"no {key} and no tokenizer that is known: {told}; --vocab-size N"
    return replace(found, model=whole, notes=(*found.notes, note))


def started(found: Imported, starter: Training | None) -> Imported:
    """Return what was found with the accelerators that a command starts."""
    if starter is None or starter.gpus is None:
        return found
    ranks = {"ranks": str(starter.ranks)} if (starter.nodes or 1) > 1 else {}
    return replace(found, options={"gpus": str(starter.gpus), **ranks, **found.options})
