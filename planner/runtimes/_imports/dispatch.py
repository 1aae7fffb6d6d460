"""Whose file it is, and what it says, the files beside it included."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from planner.errors import InputError, Problem
from planner.inputs.build import build
from planner.inputs.hf_config import read_hf_config
from planner.inputs.model import ModelSpec
from planner.inputs.yaml_file import parse_yaml, read_json, read_text
from planner.runtimes._imports import accelerate, deepspeed, torchtitan
from planner.runtimes._imports._sheet import Imported
from planner.runtimes._imports.command_line import Training, training_of
from planner.runtimes._imports.literals import literals
from planner.runtimes._imports.megatron import from_script
from planner.runtimes._imports.sums import deepspeed_world
from planner.runtimes._imports.zoo import known_model, other_numerics, zoo_name

SCRIPTS: Final = ("train.sh", "train.sbatch")
"""Scripts beside a configuration file that may start it."""

KINDS: Final = "a shell script, a DeepSpeed .json, a torchtitan .toml or an Accelerate .yaml"


def read_runner_file(path: Path, vocab: int | None = None) -> Imported:
    """Return what a runner's file says, its faults among it.

    Parameters
    ----------
    path : Path
        The file.
    vocab : int, optional
        Tokens of the vocabulary, where the file gives a model's shape without it.

    Raises
    ------
    InputError
        If it is none of the files that can be read.
    """
    suffix = path.suffix.lower()
    if suffix in (".json", ".toml", ".yaml", ".yml"):
        starter = _starter(path)
        if suffix == ".json":
            return _from_json(path, starter)
        return _from_toml(path, starter) if suffix == ".toml" else _from_yaml(path, starter)
    if suffix in (".py", ".csv", ".md", ".html"):
        raise InputError(Problem(str(path), f"a {suffix} file", KINDS))
    return _from_script(path, vocab)


def _from_script(path: Path, vocab: int | None) -> Imported:
    """Read a script, and the configuration that it names."""
    training = training_of(read_text(path), str(path))
    if training.kind == "megatron-lm":
        found, record = from_script(training, str(path))
        if record is not None and vocab is not None:
            record["vocab"] = vocab
        return _with_record(found, record, path, "--vocab-size")
    if training.kind == "torchtitan" and training.config is None:
        module = literals(_beside(path, f"{training.flags.get('--module', 'titan_plan')}.py"))
        record = torchtitan.module_record(module.get("MODEL"))
        sparse = record is not None and any(
            block["ffn"]["kind"] == "moe" for block in record["blocks"].values()
        )
        arguments = (training.flags, module.get("PARTS"), training.gpus, str(path), sparse)
        found = torchtitan.from_flags(
            *arguments, float8=module.get("FLOAT8"), chunks=module.get("LOSS_CHUNKS")
        )
        return _with_record(found, record, path, "MODEL")
    if training.config is None:
        raise InputError(Problem(str(path), "a command without its configuration file", KINDS))
    config = _named(Path(training.config), path)
    if config.suffix == ".json":
        return _from_json(config, training)
    return _from_toml(config, training) if config.suffix == ".toml" else _from_yaml(config, training)


def _named(config: Path, script: Path) -> Path:
    """Return the file that a script names: from its own folder, one above it, or beside it."""
    folders = (script.absolute().parent, *script.absolute().parent.parents)
    places = (config, *(folder / config for folder in folders))
    return next((place for place in places if place.is_file()), script.with_name(config.name))


def _from_json(path: Path, starter: Training | None) -> Imported:
    tree = read_json(path)
    if not {"zero_optimization", "train_micro_batch_size_per_gpu", "train_batch_size"} & set(tree):
        raise InputError(
            Problem(str(path), "no key of DeepSpeed", f"{KINDS}; a model's config.json is MODEL")
        )
    found = deepspeed.from_json(tree, literals(_beside(path, "train.py")), str(path))
    return _with_config(deepspeed_world(_started(found, starter), str(path)), path)


def _from_toml(path: Path, starter: Training | None) -> Imported:
    try:
        tree = tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise InputError(Problem(str(path), f"no TOML ({error})", "a torchtitan job config")) from None
    found = torchtitan.from_toml(tree, starter.gpus if starter else None, str(path))
    custom = tree.get("experimental", {})
    module = custom.get("custom_import", "") if isinstance(custom, Mapping) else ""
    record = torchtitan.module_record(literals(_beside(path, f"{module}.py")).get("MODEL"))
    return _with_record(found, record, path, "MODEL")


def _from_yaml(path: Path, starter: Training | None) -> Imported:
    text = read_text(path)
    tree = parse_yaml(text, str(path))
    if "distributed_type" not in tree and "num_processes" not in tree:
        plan = tree.get("format") == "planner/plan/1"
        expected = (
            "launch files of a runner; this is a plan, for `planner emit` or `compare`" if plan else KINDS
        )
        raise InputError(Problem(str(path), "no key of Accelerate", expected))
    flags = dict(starter.flags) if starter else accelerate.launch_flags(text)
    constants = literals(_beside(path, "train.py"))
    found = accelerate.from_yaml(tree, flags, constants, str(path))
    named = accelerate.config_file(tree)
    if named is None:
        return _with_config(found, path)
    config = path.parent / named
    if not config.is_file():
        expected = "a DeepSpeed JSON, found from the folder of this file"
        raise InputError(Problem(f"{path}: {accelerate.CONFIG_FILE}", named, expected))
    inner = deepspeed.from_json(read_json(config), constants, str(config))
    return _with_config(deepspeed_world(accelerate.with_deepspeed(found, inner, config), str(config)), path)


def _starter(path: Path) -> Training | None:
    """Return what a script beside a configuration file trains with, where it names that file."""
    for name in SCRIPTS:
        text = _beside(path, name)
        if path.name in text:
            return training_of(text, str(path.with_name(name)))
    return None


def _beside(path: Path, name: str) -> str:
    """Return the text of a file in the same folder; nothing where there is none."""
    other = path.with_name(name) if name.strip("./\\ ") and "/" not in name and "\\" not in name else path
    return read_text(other) if other != path and other.is_file() else ""


def _started(found: Imported, starter: Training | None) -> Imported:
    if starter is None or starter.gpus is None:
        return found
    ranks = {"ranks": str(starter.ranks)} if (starter.nodes or 1) > 1 else {}
    return replace(found, options={"gpus": str(starter.gpus), **ranks, **found.options})


def _with_config(found: Imported, path: Path) -> Imported:
    """Return what was found with the model of a ``config.json`` beside the file."""
    config = path.with_name("config.json")
    if config == path or not config.is_file():
        return found
    model = read_hf_config(config).model
    name = zoo_name(model) or str(config)
    cut = model.expert_kinds and found.runtime == "fsdp" and "tp" in found.options
    inner = {"etp": found.options["tp"]} if cut else {}
    return replace(found, model_name=name, options={**inner, **found.options})


def _with_record(found: Imported, record: dict[str, Any] | None, path: Path, key: str) -> Imported:
    """Return what was found with the model of a record: the zoo's where it has the same parts."""
    if record is None:
        return found
    name, model = known_model(record, str(path))
    if name is not None:
        return replace(found, model_name=name, notes=(*found.notes, *other_numerics(record, name)))
    if model is None:
        note = f"no {key}, so no model could be made of its shape; name one as MODEL"
        return replace(found, notes=(*found.notes, note))
    whole = build(
        ModelSpec, {**record, "name": f"{path.stem} in {path.parent.name or 'a folder'}"}, str(path)
    )
    return replace(found, model=whole)
