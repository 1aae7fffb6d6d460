"""Fitted constants at work: runs priced with those of their accelerator, site, era and runtime."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from planner.calibrate.runs.defaults import PricedRun
from planner.dataclasses import replace
from planner.inputs.fitted import REFERENCE, SHARE, all_constants, share_of_kin
from planner.inputs.hardware import Accelerator, HardwareProfile, Pool
from planner.inputs.record import Sourced
from planner.runtimes.family import Job, Runtime

Key = tuple[str, str, str]
"""Scope, owner and name of a constant."""

Values = Mapping[Key, float]

SCOPES: dict[str, Callable[[PricedRun], str]] = {
    "accelerator": lambda priced: priced.job.hardware.pool.accelerator.name,
    "site": lambda priced: priced.run.source,
    "era": lambda priced: priced.era,
    "runtime": lambda priced: priced.runtime.name,
}
"""Which owner of each scope a run has."""


def shipped_values() -> dict[Key, float]:
    """Return the values that ship with the planner."""
    return {(entry.scope, entry.owner, entry.name): entry.value for entry in all_constants()}


@dataclass
class WithConstants:
    """Replaces constants in the records of runs; equal replacements are one record, so that runs batch."""

    values: Values
    """Constants by scope, owner and name."""
    _runtimes: dict[tuple[int, str], Runtime] = field(default_factory=dict)
    _clusters: dict[tuple[int, str], HardwareProfile] = field(default_factory=dict)
    _accelerators: dict[int, Accelerator] = field(default_factory=dict)
    _kept: list[object] = field(default_factory=list)
    _kin: dict[str, float] = field(default_factory=dict)

    def __call__(self, runs: Sequence[PricedRun]) -> list[PricedRun]:
        """Return the runs with their constants replaced."""
        return [replace(run, runtime=self.runtime(run), job=self.job(run)) for run in runs]

    @cached_property
    def _by_owner(self) -> dict[tuple[str, str], dict[str, float]]:
        found: dict[tuple[str, str], dict[str, float]] = {}
        for (scope, owner, name), value in self.values.items():
            found.setdefault((scope, owner), {})[name] = value
        return found

    @cached_property
    def _shares(self) -> dict[str, float]:
        return {owner: value for (_, owner, name), value in self.values.items() if name == SHARE}

    @cached_property
    def sites(self) -> frozenset[str]:
        """Sites that have constants."""
        return frozenset(owner for scope, owner in self._by_owner if scope == "site")

    def owned(self, scope: str, owner: str) -> dict[str, float]:
        """Return the constants of one owner by name."""
        return self._by_owner.get((scope, owner), {})

    def of_runtime(self, priced: PricedRun) -> Hashable:
        """Return the constants of a run's runtime and era, but for what its row states."""
        found = self.owned("runtime", priced.runtime.name) | self.owned("era", priced.era)
        return frozenset(item for item in found.items() if item[0] not in priced.stated)

    def of_cluster(self, priced: PricedRun) -> Hashable:
        """Return the constants of a run's accelerators and of its site."""
        pools = priced.job.hardware.pools
        devices = tuple(frozenset(self.device(pool.accelerator).items()) for pool in pools)
        return devices, frozenset(self.owned("site", priced.run.source).items())

    def runtime(self, priced: PricedRun) -> Runtime:
        """Return a run's runtime with the constants of runtime and era, but for what its row states."""
        key = (id(priced.runtime), priced.era)
        if key not in self._runtimes:
            found = self.owned("runtime", priced.runtime.name) | self.owned("era", priced.era)
            changes = {name: value for name, value in found.items() if name not in priced.stated}
            self._kept.append(priced.runtime)
            self._runtimes[key] = priced.runtime.with_traits(**changes) if changes else priced.runtime
        return self._runtimes[key]

    def job(self, priced: PricedRun) -> Job:
        """Return a run's job with the constants of accelerator and site."""
        hardware = priced.job.hardware
        key = (id(hardware), priced.run.source if self.owned("site", priced.run.source) else "")
        if key not in self._clusters:
            self._kept.append(hardware)
            pools = tuple(self.pool(pool, priced) for pool in hardware.pools)
            self._clusters[key] = hardware.model_copy(update={"pools": pools})
        return replace(priced.job, hardware=self._clusters[key])

    def device(self, accelerator: Accelerator) -> dict[str, float]:
        """Return the constants of an accelerator, the share of its kin where it has no runs."""
        own = self.owned("accelerator", accelerator.name)
        if not self._shares or SHARE in own or accelerator.name == REFERENCE:
            return own
        if accelerator.arch not in self._kin:
            self._kin[accelerator.arch] = share_of_kin(accelerator.arch, self._shares)
        return {SHARE: self._kin[accelerator.arch], **own}

    def pool(self, pool: Pool, priced: PricedRun) -> Pool:
        """Return a pool with the constants of its accelerator and of the run's site."""
        device = self.device(pool.accelerator)
        site = self.owned("site", priced.run.source)
        if not device and not site:
            return pool
        accelerator = self._with_shares(pool.accelerator, device)
        return pool.model_copy(update={"accelerator": accelerator, **_shares(site)})

    def _with_shares(self, accelerator: Accelerator, device: Mapping[str, float]) -> Accelerator:
        """Return an accelerator with its constants; its clusters share it, so curves are read once."""
        if id(accelerator) not in self._accelerators:
            self._kept.append(accelerator)
            self._accelerators[id(accelerator)] = accelerator.model_copy(update=_shares(device))
        return self._accelerators[id(accelerator)]


def _shares(values: Mapping[str, float]) -> dict[str, Sourced]:
    return {name: Sourced(value, f"{value:.4g}", "", "fitted") for name, value in values.items()}
