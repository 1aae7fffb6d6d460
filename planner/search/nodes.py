"""The best plan after nodes are lost or come back, what the change costs, and when waiting is better."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from planner.cost.estimate import Estimate
from planner.cost.resume import Resume
from planner.formulas.checkpoints import break_even_seconds, worthwhile_seconds
from planner.search.optimise import search
from planner.search.request import SearchRequest
from planner.techniques.recovery._family import ENVIRONMENT

KEPT = ("tp", "pp", "vpp", "ep", "etp")
"""Degrees that a plan keeps where a checkpoint of others cannot be loaded."""


@dataclass(frozen=True)
class Changed:
    """A job whose nodes change.

    Parameters
    ----------
    resume : Resume
        From the old plan to the best one on what there is now.
    best : Estimate
        The fastest plan, whether or not the checkpoint loads under it.
    """

    resume: Resume
    best: Estimate

    @property
    def new(self) -> Estimate:
        """The plan that goes on."""
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


def after_change(
    old: Estimate, request: SearchRequest, gpus: int, storage: float, fixed: dict[str, object]
) -> Changed | None:
    """Return the best plan on another number of accelerators whose checkpoint loads, None where none fits.

    Parameters
    ----------
    old : Estimate
        The plan that saved.
    request : SearchRequest
        The search of its job.
    gpus : int
        Accelerators that there are now.
    storage : float
        At which checkpoints are read. [byte/s]
    fixed : dict
        The degrees of the old plan among `KEPT`, as a request fixes them.
    """
    asked = replace(request, gpu_counts=(gpus,), cluster_gpus=None, top=5)
    free = search(asked).plans
    kept: Sequence[Estimate] = ()
    left = min(gpus, old.job.gpus)
    loading = [one for one in free if Resume(old, one, storage, left=left).verdict.loads]
    if not loading:
        kept = search(replace(asked, fixed={**request.fixed, **fixed})).plans
        loading = [one for one in kept if Resume(old, one, storage, left=left).verdict.loads]
    if not loading:
        return None
    lead = min(loading, key=lambda one: one.step)
    return Changed(Resume(old, lead, storage, left=left), min([*free, *kept], key=lambda one: one.step))
