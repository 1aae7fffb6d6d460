"""The best plan after nodes are lost or come back, what the change costs, and when waiting is better."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

from planner.cost.estimate import Estimate
from planner.cost.resume import Resume
from planner.dataclasses import dataclass, replace
from planner.formulas.checkpoints import break_even_seconds, worthwhile_seconds
from planner.plan import even_split
from planner.search.in_place import InPlace
from planner.search.optimise import found_plans
from planner.search.request import SearchRequest
from planner.techniques.recovery.family import ENVIRONMENT

KEPT = ("tp", "pp", "vpp", "ep", "etp")
"""Degrees that a plan keeps where a checkpoint of others cannot be loaded."""


MOST_KEPT = 4
"""Numbers of accelerators that are tried with the old degrees. [-]"""


@dataclass(frozen=True)
class Left:
    """What there is after a change."""

    gpus: int
    """Accelerators. [-]"""
    storage: float
    """At which checkpoints are read. [byte/s]"""
    reshardable: bool = False
    """Whether Megatron's optimizer was told to save whole tensors."""
    repair: float | None = None
    """Until lost nodes are back, where that is known. [s]"""

    def resumed(self, old: Estimate, new: Estimate) -> Resume:
        """Return what going on under a new plan takes."""
        return Resume(old, new, self.storage, self.reshardable, min(self.gpus, old.job.gpus))


@dataclass(frozen=True)
class Changed:
    """A job whose nodes change."""

    resume: Resume
    """From the old plan to the best one on what there is now."""
    best: Estimate
    """The fastest plan, whether or not the checkpoint loads under it."""
    place: InPlace | None = None
    """The old plan without the lost nodes, where every stage has a replica left."""
    repair: float | None = None
    """Until lost nodes are back, where that is known. [s]"""

    @property
    def waits(self) -> bool | None:
        """Whether to wait for lost nodes; None where nobody says when they are back."""
        return None if self.repair is None else self.repair < self.break_even

    @property
    def new(self) -> Estimate:
        """The plan that resumes from it."""
        return self.resume.new

    @cached_property
    def transition(self) -> float:
        """Time to start anew and load the checkpoint. [s]"""
        return ENVIRONMENT + (self.resume.storage_seconds or 0.0)

    @property
    def break_even(self) -> float:
        """With fewer nodes: time until they are back below which waiting is better. [s]"""
        return float(break_even_seconds(self.transition, self.new.step, self.resume.old.step))

    @property
    def worthwhile(self) -> float | None:
        """With more nodes: training left above which the change pays; None where it never does. [s]"""
        if self.new.step >= self.resume.old.step:
            return None
        return float(worthwhile_seconds(self.transition, self.new.step, self.resume.old.step))


def after_change(old: Estimate, request: SearchRequest, left: Left) -> Changed | None:
    """Return the best plan on another number of accelerators whose checkpoint loads, None where none fits.

    Where no plan of other degrees loads it, the old degrees are kept, on fewer accelerators where the batch
    does not divide among all.

    ``request``: the search of its job.
    """
    asked = replace(request, gpu_counts=(left.gpus,), cluster_gpus=None, top=5)
    free = found_plans(asked, advise=False).plans
    loading = [one for one in free if left.resumed(old, one).verdict.loads]
    kept: Sequence[Estimate] = ()
    if not loading:
        fixed = {**request.fixed, **kept_axes(old)}
        for count in kept_counts(old, left.gpus):
            fewer = replace(asked, fixed=fixed, gpu_counts=(count,), cluster_gpus=left.gpus)
            kept = found_plans(fewer, advise=False).plans
            loading = [one for one in kept if left.resumed(old, one).verdict.loads]
            if loading:
                break
    if not loading:
        return None
    lead = min(loading, key=lambda one: one.step)
    nodes = (old.job.gpus - left.gpus) // old.job.hardware.pool.gpus_per_node
    place = InPlace(old, nodes) if nodes > 0 and InPlace(old, nodes).possible else None
    best = min([*free, *kept], key=lambda one: one.step)
    return Changed(left.resumed(old, lead), best, place, left.repair)


def kept_axes(old: Estimate) -> dict[str, Any]:
    """Return what a plan keeps where a checkpoint of other degrees cannot be loaded: its split too."""
    plan = old.plan
    stages = int(plan.pp * plan.vpp)
    split = plan.stage_layers or even_split(old.job.model.num_layers, stages)
    degrees = {name: int(getattr(plan, name)) for name in KEPT}
    return degrees | ({"stage_layers": tuple(split)} if stages > 1 else {})


def kept_counts(old: Estimate, gpus: int) -> Iterator[int]:
    """Yield the numbers of accelerators on which a plan may keep its degrees, most first."""
    plan, batch = old.plan, old.job.workload.global_batch
    unit = int(plan.tp * plan.pp)
    cut = (unit * count for count in range(gpus // unit, 0, -1) if batch % count == 0)
    yield from [gpus, *(count for count in cut if count < gpus)][:MOST_KEPT]
