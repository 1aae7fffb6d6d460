"""New shares after nodes are lost or come, for people and programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from planner.dataclasses import asdict, dataclass
from planner.report.as_json import Document, plain
from planner.report.page import Page, Table, significant
from planner.search.reconfigure import PresentJob, Reconfigured, Times, all_rates
from planner.units import HOUR, percent

CHANGE: Final = "planner/cluster-change/1"


@dataclass(frozen=True)
class ChangedCluster:
    """A cluster whose nodes change."""

    jobs: Sequence[PresentJob]
    """With the shares that they have."""
    cases: Sequence[Reconfigured]
    """New shares by the job that is hit; one where nodes come."""
    gpus: int
    before: int
    """Accelerators afterwards, and those that there were. [-]"""
    times: Times
    """Of failures and changes."""

    @property
    def rate(self) -> float:
        """Useful work of all jobs each second before. [FLOP/s]"""
        return all_rates(self.jobs, [job.has for job in self.jobs])


def change_page(told: ChangedCluster) -> Page:
    """Return the new shares for people: a row for each job that may be hit."""
    head = (
        f"{told.gpus:,} accelerators where there were {told.before:,}: new shares of {len(told.jobs)} jobs."
    )
    now = _shares(told.jobs, [job.has for job in told.jobs])
    rows = [{"hit": "now", **now, "work": "100.0%", "alone": ""}]
    rows += [
        {
            "hit": case.hit or "nodes come",
            **_shares(told.jobs, case.shares),
            "work": percent(case.rate / told.rate),
            "alone": percent(case.alone_rate / told.rate),
        }
        for case in told.cases
    ]
    lines = [
        "work: useful FLOP/s of all jobs by weight, over those before; alone: the hit job alone changes.",
        f"A change costs a job {significant(told.times.transition / 60, 3)} min, weighed with "
        f"{significant(told.times.running(told.gpus) / HOUR, 3)} h until the next failure "
        "(Unicron, arXiv:2401.00134).",
    ]
    return [head, Table(tuple(rows)), " ".join(lines)]


def _shares(jobs: Sequence[PresentJob], shares: Sequence[int]) -> dict[str, str]:
    return {job.name: f"{share:,}" for job, share in zip(jobs, shares, strict=True)}


def change_document(told: ChangedCluster) -> Document:
    """Return the new shares as JSON."""
    document: Document = plain(
        {
            "schema": CHANGE,
            "gpus_before": told.before,
            "gpus": told.gpus,
            "transition_s": told.times.transition,
            "next_failure_s": told.times.running(told.gpus),
            "shares": {job.name: job.has for job in told.jobs},
            "flops_per_s": told.rate,
            "cases": [case_record(told, case) for case in told.cases],
        }
    )
    return document


def case_record(told: ChangedCluster, case: Reconfigured) -> dict[str, Any]:
    """Return one case as a record."""
    named = [job.name for job in told.jobs]
    record = asdict(case)
    return record | {name: dict(zip(named, record[name], strict=True)) for name in ("shares", "alone")}
