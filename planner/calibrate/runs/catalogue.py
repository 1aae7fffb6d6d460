"""What the planner ships, as run tables look it up: by the names that people print, never by a path."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Final

from planner.calibrate.eras import Era
from planner.calibrate.eras.statements import era_traits
from planner.calibrate.runs.facts import FACTS, Fact, facts_by_source
from planner.calibrate.runs.hardware import named_in, of_family, on_board, run_cluster
from planner.calibrate.runs.model import BySize, Named, Size, known_model, simple, size_of
from planner.calibrate.runs.networks import FAMILIES, network_name
from planner.calibrate.runs.spellings import NEAR, by_words
from planner.calibrate.runs.table import Run
from planner.dataclasses import dataclass, replace
from planner.errors import InputError, Problem, nearest
from planner.inputs.build import build
from planner.inputs.hardware import HardwareProfile, Network
from planner.inputs.load import load_model
from planner.inputs.load_hardware import (
    clusters_with,
    default_cluster,
    hardware_folder,
    load_accelerator,
    load_hardware,
)
from planner.inputs.model import ModelSpec
from planner.inputs.shipped import data_folder, names_and_aliases
from planner.inputs.yaml_file import read_yaml
from planner.runtimes import runtimes_of_any_era
from planner.runtimes.family import Runtime
from planner.units import GB

_REMARKS: Final = re.compile(
    r"(?i)(?<![a-z0-9])(maxtext|meta|base|instruct|chat|hf|it|lora|qlora|sft|pretrain(ing)?|pre-?training|v0\.\d)(?![a-z0-9])"
)
"""Words of a model's name that do not tell another architecture."""


@dataclass(frozen=True)
class Catalogue:
    """Where runs find what the planner ships: clusters, networks, models, runtimes and facts."""

    cluster: Callable[[str, int | None], tuple[str, HardwareProfile]]
    """Accelerator name and node size, where stated, to its canonical name and a usual cluster; raises
    `InputError` for an unknown one."""
    network: Callable[[str], Network | None]
    """Network kind by name, None where there is none."""
    model: Named
    """Model of the zoo by the name in a table, None where there is none."""
    runtimes: Mapping[str, Runtime]
    """Runtimes by name."""
    facts: Mapping[str, tuple[Fact, ...]]
    """Facts of each source."""
    model_names: tuple[str, ...] = ()
    """Names and aliases of the zoo's models."""
    zoo: Callable[[], BySize] = dict
    """Models of the zoo by their size."""
    sibling: Callable[[str, HardwareProfile, str], HardwareProfile] = lambda gpu, usual, words: usual
    """Accelerator, its usual cluster and words of an interconnect to the cluster that they mean."""

    @cached_property
    def clusters(self) -> Callable[[str, int | None, str], tuple[str, HardwareProfile]]:
        """Cluster of an accelerator, node size and interconnect text; equal ones are the same record."""

        @lru_cache(maxsize=1024)
        def found(gpu: str, gpus_per_node: int | None, interconnect: str) -> tuple[str, HardwareProfile]:
            name, usual = self.cluster(gpu, gpus_per_node)
            if name != gpu:
                return found(name, gpus_per_node, interconnect)
            size = gpus_per_node or usual.pool.gpus_per_node
            return name, run_cluster(
                on_board(self.sibling(name, usual, interconnect), size), size, interconnect, self.network
            )

        return found

    def known(self, run: Run) -> ModelSpec | None:
        """Return the model of the zoo that a run trains, None where there is none."""
        return known_model(run, self.model, self.zoo)

    @cached_property
    def era_runtimes(self) -> Callable[[str, Era, str, tuple[tuple[str, object], ...], str], Runtime]:
        """Runtime as it was in an era, at a release or none; equal ones are the same record."""

        @lru_cache(maxsize=1024)
        def found(
            name: str, era: Era, precision: str, said: tuple[tuple[str, object], ...], release: str
        ) -> Runtime:
            runtime = self.runtimes[name]
            traits = era_traits(runtime.traits, era, precision, dict(said))
            return replace(runtime, traits=traits, era=era.name, release=release)

        return found


def shipped_catalogue() -> Catalogue:
    """Return the catalogue of everything that ships with the planner."""
    return Catalogue(
        cluster=named_cluster,
        network=named_network,
        model=named_model,
        runtimes=runtimes_of_any_era(),
        facts=facts_by_source(FACTS),
        model_names=tuple(_zoo()),
        zoo=zoo_by_size,
        sibling=meant_cluster,
    )


@cache
def _accelerators() -> Mapping[str, Path]:
    return names_and_aliases(hardware_folder("accelerators"))


@cache
def _zoo() -> Mapping[str, Path]:
    return names_and_aliases(data_folder("models_zoo"))


def accelerator_file(gpu: str) -> Path | None:
    """Return the file of the accelerator that a run table names, None where there is none.

    The order of the words, the maker's name and signs between the words do not matter; a memory size in the
    name may be the label's. A cloud's name for its machines means the chip in them.
    """
    index = _accelerators()
    plain = gpu.strip().lower().replace(" ", "-")
    exact = index.get(plain) or index.get(f"{plain}-chip")
    if exact is not None:
        return exact
    found, size = by_words(gpu, index)
    if found is None or size is None:
        return found
    memory = float(load_accelerator(found.stem).memory) / GB
    return found if abs(size / memory - 1) <= NEAR else None


@cache
def named_cluster(gpu: str, gpus_per_node: int | None) -> tuple[str, HardwareProfile]:
    """Return an accelerator's canonical name and its usual cluster, or one with that node size.

    Raises
    ------
    InputError
        If no accelerator has that name; the message has the nearest names.
    """
    path = accelerator_file(gpu)
    if path is None:
        near = nearest(gpu, _accelerators())
        raise InputError(Problem("column gpu", repr(gpu), "a known accelerator", near))
    usual = load_hardware(default_cluster(path.stem))
    if gpus_per_node in (None, usual.pool.gpus_per_node):
        return path.stem, usual
    others = (load_hardware(name) for name in clusters_with(path.stem))
    return path.stem, next((found for found in others if found.pool.gpus_per_node == gpus_per_node), usual)


def meant_cluster(gpu: str, usual: HardwareProfile, interconnect: str) -> HardwareProfile:
    """Return the cluster that words of an interconnect mean: one that they name, or one with such a network.

    A family of networks alone means the generation that a cluster with this accelerator has: EFA on an H100
    is that of its instances.
    """
    if not interconnect:
        return usual
    family = network_name(interconnect)
    if named_in(interconnect, usual):
        return usual
    others = [load_hardware(name) for name in clusters_with(gpu) if name != usual.name]
    named = (one for one in others if named_in(interconnect, one))
    if (found := next(named, None)) is not None or family not in FAMILIES:
        return found or usual
    if family == "ethernet" or of_family(family, usual.pool.network):
        return usual
    return next((one for one in others if of_family(family, one.pool.network)), usual)


@cache
def named_network(name: str) -> Network | None:
    """Return a network kind by its name, or None where there is no such kind."""
    path = names_and_aliases(hardware_folder("networks")).get(name)
    if path is None:
        return None
    raw = read_yaml(path)
    sources = raw.pop("sources", {})
    return build(Network, raw, str(path), sources)


@cache
def _model_index() -> Mapping[str, str]:
    return {simple(spelling): path.stem for spelling, path in _zoo().items()}


@cache
def named_model(name: str) -> ModelSpec | None:
    """Return the model of the zoo whose name or alias is ``name``.

    Punctuation and case do not matter, nor the publisher before a slash and words such as ``instruct``.
    """
    index = _model_index()
    last = name.rpartition("/")[2]
    spellings = dict.fromkeys((name, last, _REMARKS.sub(" ", last), re.sub(r"[()]", " ", last)))
    stem = next((index[short] for short in map(simple, spellings) if short in index), None)
    return load_model(stem) if stem else None


@cache
def zoo_by_size() -> BySize:
    """Return all models of the zoo by their size, those of one size in the order of their names."""
    models: dict[Size, list[ModelSpec]] = {}
    for stem in sorted({path.stem for path in _zoo().values()}):
        spec = load_model(stem)
        models.setdefault(size_of(spec), []).append(spec)
    return models
