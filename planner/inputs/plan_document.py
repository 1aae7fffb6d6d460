"""What stands in a plan file: names with digests, a workload, and each axis of a plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias

from pydantic import Field, create_model

from planner.fields import AXES
from planner.fields import Field as Axis
from planner.inputs.record import Bytes, Count, Flag, Positive, Price, Record
from planner.inputs.workload import WorkloadFields


class Named(Record):
    """What a file names, with the digest of what it was."""

    name: str
    sha256: str = ""


class Cluster(Named):
    """A cluster and how much of it is used."""

    gpus: Positive
    gpus_per_node: Positive | None = None
    price: Price | None = None


class RuntimeNamed(Named):
    """A runtime in its release, with its settings and changed traits."""

    release: str = ""
    settings: dict[str, str] = Field(default_factory=dict)
    traits: dict[str, float | bool | str] = Field(default_factory=dict)


_KINDS: Final[Mapping[str, Any]] = {
    "switch": Flag,
    "split": Annotated[tuple[Count, ...], Field(min_length=1)],
}
"""What kinds of fields are in a file, where not whole numbers or text."""


def _in_file(axis: Axis) -> tuple[Any, Any]:
    """Return the type of an axis in a file, and what is taken where it is left out; some may not be."""
    kind: Any
    if axis.kind == "count":
        kind = Annotated[Count, Field(ge=int(axis.least), le=int(axis.most))]
        return kind, ... if axis.default is None else axis.default
    kind = _KINDS.get(axis.kind, str)
    return (kind, axis.default) if axis.default is not None else (kind | None, None)


if TYPE_CHECKING:
    Axes: TypeAlias = Any
else:
    Axes = create_model("Axes", __base__=Record, **{axis.name: _in_file(axis) for axis in AXES})


class PlanDocument(Record):
    """A whole plan file."""

    format: Literal["planner/plan/1"]
    version: str = ""
    model: Named
    hardware: Cluster
    workload: WorkloadFields
    runtime: RuntimeNamed
    plan: Axes
    memory_limit: Bytes | None = None
    order: tuple[str, ...] | None = None
