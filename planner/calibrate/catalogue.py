"""What the planner ships, as run tables look it up: by the names that people print, never by a path."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from planner.calibrate.run_defaults import Catalogue, Fact
from planner.calibrate.run_model import simple
from planner.errors import InputError, Problem, nearest
from planner.inputs.build import build
from planner.inputs.hardware import HardwareProfile, Network
from planner.inputs.load import data_folder, load_model, names_and_aliases
from planner.inputs.load_hardware import clusters_with, default_cluster, hardware_folder, load_hardware
from planner.inputs.model import ModelSpec
from planner.inputs.yaml_file import read_yaml
from planner.runtimes import runtimes_of_any_era

FACTS: Final = Path(__file__).with_name("site_facts.yaml")


def shipped_catalogue() -> Catalogue:
    """Return the catalogue of everything that ships with the planner."""
    return Catalogue(
        cluster=named_cluster,
        network=named_network,
        model=named_model,
        runtimes=runtimes_of_any_era(),
        facts=facts_by_source(FACTS),
        model_names=tuple(_zoo()),
    )


@cache
def _accelerators() -> Mapping[str, Path]:
    return names_and_aliases(hardware_folder("accelerators"))


@cache
def _zoo() -> Mapping[str, Path]:
    return names_and_aliases(data_folder("models_zoo"))


@cache
def named_cluster(gpu: str, gpus_per_node: int | None) -> tuple[str, HardwareProfile]:
    """Return an accelerator's canonical name and its usual cluster, or one with that node size.

    Raises
    ------
    InputError
        If no accelerator has that name; the message has the nearest names.
    """
    index = _accelerators()
    path = index.get(gpu.strip().lower().replace(" ", "-"))
    if path is None:
        raise InputError(Problem("column gpu", repr(gpu), "a known accelerator", nearest(gpu, index)))
    usual = load_hardware(default_cluster(path.stem))
    if gpus_per_node in (None, usual.pool.gpus_per_node):
        return path.stem, usual
    others = (load_hardware(name) for name in clusters_with(path.stem))
    return path.stem, next((found for found in others if found.pool.gpus_per_node == gpus_per_node), usual)


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
    """Return the model of the zoo whose name or alias is ``name``, punctuation and case apart."""
    stem = _model_index().get(simple(name))
    return load_model(stem) if stem else None


def facts_by_source(path: Path) -> dict[str, tuple[Fact, ...]]:
    """Read a file of facts that sources state outside the table."""
    facts: dict[str, tuple[Fact, ...]] = {}
    for entry in read_yaml(path)["facts"]:
        where = {column: str(text) for column, text in entry.get("where", {}).items()}
        flags = (bool(entry.get(name, False)) for name in ("assumed", "replaces"))
        fact = Fact(entry["source"], where, entry["values"], entry["stated"], *flags)
        facts[fact.source] = (*facts.get(fact.source, ()), fact)
    return facts
