"""The rows of a run table that were made on one cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache

from planner.calibrate.runs.catalogue import Catalogue
from planner.calibrate.runs.defaults import PricedRun, Skip, prepared
from planner.calibrate.runs.hardware import run_cluster
from planner.calibrate.runs.table import Fault, Run
from planner.dataclasses import dataclass, replace
from planner.errors import InputError, Problem
from planner.inputs.hardware import HardwareProfile


@dataclass(frozen=True)
class SiteRuns:
    """The runs of a table that were made on the cluster, and the rows that cannot be used."""

    rows: int
    runs: tuple[PricedRun, ...]
    skipped: tuple[Skip, ...]

    @property
    def timed(self) -> list[PricedRun]:
        """Those with a time."""
        return [run for run in self.runs if run.measured.seconds]


def site_runs(rows: Iterable[Run | Fault], catalogue: Catalogue, profile: HardwareProfile) -> SiteRuns:
    """Return the rows of a table as runs on a cluster.

    What a row says of its interconnect is not used: the cluster says it.

    ``catalogue``: where rows find models and runtimes; ``profile``: the cluster, of one pool.
    """
    table = [row.with_values({"interconnect": ""}) if isinstance(row, Run) else row for row in rows]
    skipped: list[Skip] = []
    here = replace(catalogue, cluster=_only(profile, catalogue.cluster))
    sized = lru_cache(maxsize=64)(lambda size: run_cluster(profile, size, "", lambda name: None))
    runs = []
    for priced in prepared(table, here, skipped):
        if priced.run.mark:
            skipped.append(Skip(priced.run.id, f"marked: {priced.run.mark}"))
            continue
        job = replace(priced.job, hardware=sized(priced.job.hardware.pool.gpus_per_node))
        runs.append(replace(priced, run=priced.run.with_values({"source": profile.name}), job=job))
    return SiteRuns(len(table), tuple(runs), tuple(skipped))


def _only(
    profile: HardwareProfile, cluster: Callable[[str, int | None], tuple[str, HardwareProfile]]
) -> Callable[[str, int | None], tuple[str, HardwareProfile]]:
    """Return a look-up that knows one cluster's accelerator, by any name that a table may give it."""
    device = profile.pool.accelerator
    words = {word.lower() for word in (device.name, *device.aliases, profile.name, *profile.aliases)}

    def found(gpu: str, gpus_per_node: int | None) -> tuple[str, HardwareProfile]:
        if gpu.strip().lower() in words or cluster(gpu, gpus_per_node)[0] == device.name:
            return device.name, profile
        raise InputError(Problem("column gpu", repr(gpu), f"{device.name}, as in {profile.name}"))

    return found
