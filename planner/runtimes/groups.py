"""Process groups that a runtime makes on a rank."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from planner.dataclasses import dataclass
from planner.inputs.model import ModelSpec
from planner.plan import Plan


@dataclass(frozen=True)
class ProcessGroup:
    """One process group of a rank."""

    name: str
    """The axes that it joins."""
    ranks: int
    """Its ranks. [-]"""
    speaks: bool
    """Whether a training step sends anything in it, so that its communicator is made."""


@dataclass(frozen=True)
class Grouping:
    """Which process groups a runtime makes."""

    whose: str
    """Whose list it is, in words."""
    groups: Callable[[Plan, ModelSpec, int], Iterator[ProcessGroup]]
    """The groups on a rank of the first stage, those of one rank included, from (plan, model, gpus)."""


def mesh_groups(plan: Plan, model: ModelSpec, gpus: int) -> Iterator[ProcessGroup]:
    """Yield the world and one group for each axis of the mesh."""
    axes = {"dp-cp": plan.dp * plan.cp, "cp": plan.cp, "tp": plan.tp, "pp": plan.pp, "ep": plan.ep}
    yield ProcessGroup("world", gpus, True)
    yield from (ProcessGroup(name, int(ranks), True) for name, ranks in axes.items())
    if model.expert_kinds and plan.ep * plan.etp > 1:
        yield ProcessGroup("etp", int(plan.etp), True)
        yield ProcessGroup("expert dp", int(gpus / (plan.ep * plan.etp * plan.pp)), True)


MESH: Final = Grouping("one for each axis", mesh_groups)
"""The groups of a device mesh."""
