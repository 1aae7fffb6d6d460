"""YAML files that hold Megatron-LM's arguments: its own, Megatron-MoE-ModelZoo's, FlagScale's and Primus'."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from planner.dataclasses import replace
from planner.errors import Problem
from planner.runtimes.imports.command_line import Training
from planner.runtimes.imports.file_format import FileFormat, Source
from planner.runtimes.imports.hub import known_name
from planner.runtimes.imports.model import with_record
from planner.runtimes.imports.sheet import Imported
from planner.runtimes.megatron_lm.reading import flagscale, megatron_config, modelzoo, primus
from planner.runtimes.megatron_lm.reading.megatron import from_script
from planner.runtimes.megatron_lm.reading.megatron_forks import SCHEDULES
from planner.runtimes.megatron_lm.reading.megatron_names import QUIET, flags_of, known_model
from planner.runtimes.torchtitan.reading import torchtitan


def read_modelzoo(source: Source) -> Imported:
    """Return what the flags of ``MODEL_ARGS`` say, with the variables of the environment."""
    training, notes = modelzoo.training_from(source.tree, source.path)
    found, record = from_script(training, source.where)
    if record is not None and source.vocab is not None:
        record["vocab"] = source.vocab
    whole = with_record(found, record, source.path, "--vocab-size")
    return replace(whole, notes=(*notes, *whole.notes))


def read_flagscale(source: Source) -> Imported:
    """Return what the arguments of a FlagScale file say."""
    found, record = from_script(flagscale.training_from(source.tree, source.path), source.where)
    if record is not None and source.vocab is not None:
        record["vocab"] = source.vocab
    return with_record(found, record, source.path, "--vocab-size")


def read_config(source: Source) -> Imported:
    """Return what a file for ``--yaml-cfg`` says, with the accelerators of the script that names it."""
    found, record = from_script(megatron_config.training_from(source.tree, source.starter), source.where)
    if record is not None and source.vocab is not None:
        record["vocab"] = source.vocab
    return with_record(found, record, source.path, "--vocab-size")


def read_primus(source: Source) -> Imported:
    """Return what the trainer of a Primus file says, with the files of Primus above it."""
    told = primus.settings(source.tree, source.path)
    gpus = source.starter.gpus if source.starter else None
    word = primus.model_word(source.tree)
    name = known_name(word) if word else None
    if told.framework == "torchtitan":
        found = torchtitan.from_toml(_titan(told.values), gpus, source.where)
        lifted = (*found.lifted, "model-in-torchtitan")
        found = replace(found, model_name=found.model_name or name, lifted=lifted)
    else:
        found = _megatron(told.values, gpus, source, name)
    return replace(
        found,
        notes=(*told.notes, *found.notes),
        unknown=tuple(key for key in found.unknown if key in told.own),
        faults=(*found.faults, *_unpriced(told, source.where)),
    )


def _unpriced(told: primus.PrimusSettings, where: str) -> Iterator[tuple[str, Problem]]:
    """Yield a fault for each setting of Primus alone that is on and decides layout or memory."""
    for key, option in primus.UNPRICED.items():
        value = told.values.get(key)
        if value not in (None, False, "", [], 0):
            expected = f"off, or --{option.replace('_', '-')} for what it does"
            yield option, Problem(f"{where}: {key}", repr(value)[:60], expected)


def _megatron(values: Mapping[str, Any], gpus: int | None, source: Source, name: str | None) -> Imported:
    own = {key: value for key, value in values.items() if not primus.OWN.fullmatch(key) or key in QUIET}
    own = {key: value for key, value in own.items() if key not in primus.UNPRICED}
    flags = {key: value for key, value in flags_of(own).items() if key not in SCHEDULES}
    training = Training("megatron-lm", flags, 1 if gpus else None, gpus, None, ())
    described = "--num-layers" in flags
    model = None if described else known_model(name)
    found, record = from_script(training, source.where, model)
    if described:
        if record is not None and source.vocab is not None:
            record["vocab"] = source.vocab
        found = with_record(found, record, source.path, "--vocab-size")
    elif model is not None:
        found = replace(found, model_name=name)
    named = {f"--{key.replace('_', '-')}": key for key in own}
    return replace(
        found,
        unknown=tuple(named.get(key, key) for key in found.unknown),
        places={option: named.get(place, place) for option, place in found.places.items()},
    )


def _titan(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that are torchtitan's own."""
    return {
        key: value for key, value in values.items() if not primus.OWN.fullmatch(key) and key != "primus_turbo"
    }


def _is_modelzoo(source: Source) -> bool:
    return modelzoo.is_one(source.tree)


def _is_flagscale(source: Source) -> bool:
    return flagscale.is_one(source.tree)


def _is_config(source: Source) -> bool:
    return megatron_config.is_one(source.tree)


def _is_primus(source: Source) -> bool:
    return primus.is_one(source.tree)


ENTRIES: Final = (
    FileFormat("a Megatron-MoE-ModelZoo .yaml", (".yaml", ".yml"), _is_modelzoo, read_modelzoo),
    FileFormat("a FlagScale .yaml", (".yaml", ".yml"), _is_flagscale, read_flagscale),
    FileFormat("a YAML for Megatron-LM's --yaml-cfg", (".yaml", ".yml"), _is_config, read_config),
    FileFormat("a Primus .yaml", (".yaml", ".yml"), _is_primus, read_primus),
)
