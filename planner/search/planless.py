"""Jobs of a search that none of its plans is of, each with the reason."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from planner.cost.estimate import Estimate
from planner.dataclasses import dataclass
from planner.runtimes.family import Job, Runtime
from planner.search.candidates import ScanReport
from planner.search.scan import Scan
from planner.units import GIB, percent


@dataclass(frozen=True)
class Planless:
    """A cluster, number of accelerators and runtime that were asked for and have no plan in the answer."""

    runtime: str
    cluster: str
    gpus: int
    fits: bool
    """Whether it has plans, which are slower than those of the answer."""
    why: str
    """In words, to follow its name."""


def planless(
    asked: Sequence[tuple[Job, Runtime]],
    scans: Sequence[Scan],
    reports: Sequence[ScanReport],
    shown: Iterable[Estimate],
    risk: float,
) -> tuple[Planless, ...]:
    """Return the jobs that no plan shown is of, where other jobs have some.

    Parameters
    ----------
    asked : sequence of (Job, Runtime)
        Every combination of the request.
    scans, reports : sequence
        What was scanned, several scans of a job for several settings, and what each saw.
    shown : iterable of Estimate
        The plans of the answer.
    risk : float
        Accepted probability of running out of memory. [-]
    """
    answered = {id(plan.job) for plan in shown}
    if not answered:
        return ()
    found = []
    for job, runtime in asked:
        if id(job) not in answered:
            seen = [report for scan, report in zip(scans, reports, strict=True) if scan.job is job]
            fits = any(report.fits > report.close for report in seen)
            found.append(
                Planless(runtime.name, job.hardware.name, job.gpus, fits, _why(job, runtime, seen, risk))
            )
    return tuple(found)


def _why(job: Job, runtime: Runtime, reports: Sequence[ScanReport], risk: float) -> str:
    """Return why a job has no plan in the answer."""
    if not any(report.valid for report in reports):
        never = runtime.cannot_train(job)
        return f"cannot train this model: {never}" if never else "has no legal plan"
    if any(report.fits > report.close for report in reports):
        return "has plans that fit, all slower"
    if any(report.fits for report in reports):
        return f"has no plan whose risk of running out of memory is below {percent(risk, 0)}"
    least = min(report.smallest.total_bytes for report in reports if report.smallest is not None)
    return f"has no plan that fits: the smallest needs {least / GIB:.1f} GiB"
