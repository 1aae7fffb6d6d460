"""Training frameworks, one file or folder each, in one table."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from planner.inputs.fitted import fitted
from planner.registry import load_family
from planner.runtimes.family import Runtime

SHARED = (
    "eager", "groups", "hub", "idle", "imports", "keys", "libraries", "numerics", "offered", "resume", "rocm",
    "saving", "script_data", "script_run", "settings", "training_run", "trait_values", "traits", "variables",
)  # fmt: skip
"""Modules that members share, and no members themselves."""


@cache
def runtimes() -> Mapping[str, Runtime]:
    """Return the table of runtimes by name, as of today: an era called like its runtime is today's."""
    return _fitted("runtime", "era")


@cache
def runtimes_of_any_era() -> Mapping[str, Runtime]:
    """Return the same table with what measured runs gave a runtime in all eras."""
    return _fitted("runtime")


@cache
def plain_runtimes() -> Mapping[str, Runtime]:
    """Return the same table without anything that measured runs gave."""
    return _fitted()


def _fitted(*scopes: str) -> Mapping[str, Runtime]:
    table = load_family(__name__, Runtime)
    return MappingProxyType({name: with_fitted(runtime, *scopes) for name, runtime in table.items()})


def with_fitted(runtime: Runtime, *scopes: str) -> Runtime:
    """Return a runtime with the constants of its name that measured runs gave in these scopes."""
    found: dict[str, Any] = {
        constant.name: constant.value for scope in scopes for constant in fitted(scope, runtime.name)
    }
    return runtime.with_traits(**found)
