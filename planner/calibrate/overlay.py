"""Constants of the user's own: a list as the planner ships it, or a cluster that has been calibrated."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from planner.calibrate.constants import SCOPES, Key, Values, WithConstants
from planner.calibrate.eras import eras
from planner.calibrate.pricing import Prediction, Price, cost_predictions
from planner.calibrate.runs.defaults import PricedRun, Skip
from planner.dataclasses import dataclass, field, replace
from planner.errors import InputError, Problem, nearest
from planner.inputs.hardware import HardwareProfile, Pool
from planner.inputs.load_hardware import accelerator_names, load_hardware
from planner.inputs.yaml_file import read_yaml
from planner.remembered import remembered
from planner.runtimes import runtimes
from planner.runtimes.traits import TRAITS

SITE_SHARES: Final = ("compute_share", "scaleup_share", "network_share")
"""What a site has: shares of the rates that its parts promise."""

_TRAITS: Final = tuple(name for name, trait in TRAITS.items() if trait.kind is float)
_NAMES: Final[Mapping[str, Sequence[str]]] = {
    "accelerator": ("training_share",),
    "site": SITE_SHARES,
    "era": _TRAITS,
    "runtime": _TRAITS,
}
_OWNERS: Final[Mapping[str, Callable[[], Sequence[str]]]] = {
    "accelerator": accelerator_names,
    "era": lambda: [era.name for era in eras()],
    "runtime": lambda: list(runtimes()),
}
_LARGEST: Final = 1e15


@dataclass(frozen=True)
class Overlay:
    """What a file puts on top of the shipped constants."""

    values: Values = field(default_factory=dict)
    """Constants by scope, owner and name."""
    cluster: HardwareProfile | None = None
    """A cluster whose site shares hold for all runs on its accelerator."""


def read_overlay(path: Path) -> Overlay:
    """Return what a file adds or replaces.

    ``path``: a YAML file with a list ``constants``, or a cluster profile with site shares.

    Raises `InputError` if it is neither, or some constant is wrong: all faults at once.
    """
    raw = read_yaml(path)
    if isinstance(raw, Mapping) and "pools" in raw:
        cluster = load_hardware(str(path), "--overlay")
        if not site_shares(cluster.pool):
            expected = f"a cluster with a site's share ({', '.join(SITE_SHARES)})"
            raise InputError(Problem(f"{path}: pools[0]", "no share", expected))
        return Overlay(cluster=cluster)
    entries = raw.get("constants") if isinstance(raw, Mapping) else None
    if not isinstance(entries, list) or not entries:
        expected = "a list of constants, or a cluster profile that calibrate wrote"
        raise InputError(Problem(f"{path}: constants", "none", expected))
    problems: list[Problem] = []
    values: dict[Key, float] = {}
    for number, entry in enumerate(entries):
        place = f"{path}: constants[{number}]"
        if isinstance(entry, Mapping):
            key, value, faults = _read_constant(entry, place)
            problems += faults
            values[key] = value
        else:
            problems.append(Problem(place, repr(entry)[:60], "a mapping with scope, owner, name and value"))
    if problems:
        raise InputError(problems)
    return Overlay(values)


def _read_constant(entry: Mapping[str, Any], place: str) -> tuple[Key, float, list[Problem]]:
    scope, owner, name = (str(entry.get(key, "")) for key in ("scope", "owner", "name"))
    faults = faults_of(scope, owner, name, place)
    if scope not in SCOPES:
        return (scope, owner, name), 0.0, faults
    value = entry.get("value")
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < _LARGEST:
        faults.append(Problem(f"{place}.value", repr(value)[:60], "a finite number above 0"))
        value = math.nan
    return (scope, owner, name), float(value), faults


def faults_of(scope: str, owner: str, name: str, place: str) -> list[Problem]:
    """Return what is wrong with the scope, the owner and the name of a constant."""
    if scope not in SCOPES:
        return [_fault(place, "scope", scope, list(SCOPES))]
    faults = [] if name in _NAMES[scope] else [_fault(place, "name", name, _NAMES[scope])]
    owners = _OWNERS[scope]() if scope in _OWNERS else []
    if not owner or (owners and owner not in owners):
        faults.append(_fault(place, "owner", owner, owners or ["the source of a site's runs"]))
    return faults


def _fault(place: str, key: str, found: str, known: Sequence[str]) -> Problem:
    return Problem(f"{place}.{key}", repr(found[:60]), f"one of {', '.join(known)}", nearest(found, known))


def site_shares(pool: Pool) -> dict[str, object]:
    """Return the shares that a pool states."""
    found = {name: getattr(pool, name) for name in SITE_SHARES}
    return {name: value for name, value in found.items() if value is not None}


def with_cluster(cluster: HardwareProfile) -> Callable[[Sequence[PricedRun]], list[PricedRun]]:
    """Return what puts the site shares of a cluster on the runs on its accelerator.

    Runs on one cluster stay on one record.
    """
    name = cluster.pool.accelerator.name
    known = site_shares(cluster.pool) | {"calibration": cluster.pool.calibration}

    @remembered(most=1024)
    def changed(hardware: HardwareProfile) -> HardwareProfile:
        pool = hardware.pool.model_copy(update=known)
        return hardware.model_copy(update={"pools": (pool,)})

    def put(runs: Sequence[PricedRun]) -> list[PricedRun]:
        return [
            replace(run, job=replace(run.job, hardware=changed(run.job.hardware)))
            if run.job.hardware.pool.accelerator.name == name
            else run
            for run in runs
        ]

    return put


def predictions_of(values: Values, overlay: Overlay | None = None) -> Price:
    """Return a pricing function with these constants and an overlay on top."""
    if overlay is None:
        overlay = Overlay()
    constants = WithConstants(dict(values) | dict(overlay.values))
    cluster = with_cluster(overlay.cluster) if overlay.cluster is not None else list

    def price(runs: Sequence[PricedRun]) -> list[Prediction | Skip]:
        return cost_predictions(cluster(constants(runs)))

    return price
