"""What a search over several sites is asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from planner.dataclasses import dataclass, field
from planner.inputs.hardware import HardwareProfile
from planner.inputs.model import ModelSpec
from planner.inputs.sites import SitesProfile
from planner.inputs.workload import Workload
from planner.runtimes.family import Runtime
from planner.search.settings import OpenSettings
from planner.techniques.compress import Packed
from planner.techniques.sync import Sync

STEPS: Final = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)
"""First digits of the inner steps that a range is searched for."""


@dataclass(frozen=True)
class SitesRequest:
    """Everything that a search over sites needs."""

    profile: SitesProfile
    """Sites and links."""
    clusters: Mapping[str, HardwareProfile]
    """The cluster of each site, at its price."""
    model: ModelSpec
    """What is trained."""
    workload: Workload
    """That of all replicas together: its batch is the sum of theirs."""
    runtime: Runtime
    """Training framework inside each site."""
    syncs: tuple[Sync, ...]
    """Methods to compare."""
    steps: tuple[int, ...]
    """Inner steps to try, rising."""
    packed: Packed | None = None
    """The compression of all; each method's own if not given."""
    asked: bool = False
    """Whether the user named the methods."""
    fixed: Mapping[str, object] = field(default_factory=dict)
    """Axes of the plan that the user has set."""
    memory_limit: float | None = None
    """Device memory that may be used. [byte]"""
    oom_risk: float = 0.05
    """Accepted probability of running out of memory. [-]"""
    settings: OpenSettings | None = None
    """Settings of the runtime that may be chosen."""
    batches: Mapping[str, int] = field(default_factory=dict)
    """Sequences of a replica at each site, where they are shared by speed; equal shares if not given."""

    def workload_at(self, name: str) -> Workload:
        """The workload of one replica at a site."""
        share = self.batches.get(name, self.workload.global_batch // self.profile.replicas)
        return self.workload.model_copy(update={"global_batch": share})

    @property
    def whole_workload(self) -> Workload:
        """The workload of all replicas together."""
        shares = (one.replicas * self.workload_at(one.name).global_batch for one in self.profile.sites)
        return self.workload.model_copy(update={"global_batch": sum(shares)})

    @property
    def alike(self) -> bool:
        """Whether all replicas have as many accelerators."""
        return len({one.gpus // one.replicas for one in self.profile.sites}) == 1


def steps_between(first: int, last: int) -> tuple[int, ...]:
    """Return the inner steps that a range is searched for: its ends, and round numbers between them.

    Examples
    --------
    >>> steps_between(100, 400)
    (100, 120, 150, 200, 250, 300, 400)
    """
    found = {first, last}
    scale = 1
    while scale <= last:
        found |= {round(digit * scale) for digit in STEPS if float(digit * scale).is_integer()}
        scale *= 10
    return tuple(sorted(count for count in found if first <= count <= last))
