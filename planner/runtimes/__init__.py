"""Training frameworks, one file or folder each, in one table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from types import MappingProxyType
from typing import Any

from planner.inputs.fitted import fitted
from planner.registry import load_family
from planner.runtimes._family import Runtime


@cache
def runtimes() -> Mapping[str, Runtime]:
    """Return the table of runtimes by name."""
    import planner.runtimes as package

    table = load_family(package, Runtime)
    return MappingProxyType({name: with_fitted(runtime) for name, runtime in table.items()})


def with_fitted(runtime: Runtime) -> Runtime:
    """Return a runtime with the constants that measured runs gave it."""
    found: dict[str, Any] = {constant.name: constant.value for constant in fitted("runtime", runtime.name)}
    return replace(runtime, traits=replace(runtime.traits, **found))
