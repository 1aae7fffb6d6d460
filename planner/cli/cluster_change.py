"""``planner cluster JOBS --lose N`` and ``--nodes-return N``: new shares of all jobs at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.cli.options import Format, OutputOptions
from planner.cli.output import emit_document, emit_page, emit_rows
from planner.dataclasses import dataclass, replace
from planner.deferred import deferred
from planner.errors import Infeasible, InputError, Problem

with deferred():
    from planner.cli import tables
    from planner.cost import flops as cost_flops
    from planner.inputs import failures as inputs_failures
    from planner.report import reconfigure as report_reconfigure
    from planner.search import reconfigure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.inputs.failures import FailureProfile
    from planner.inputs.hardware import HardwareProfile
    from planner.inputs.jobs import JobsFile
    from planner.inputs.model import ModelSpec
    from planner.inputs.workload import Workload
    from planner.question.reading import Reading
    from planner.runtimes.family import Runtime
    from planner.search.cluster_jobs import Curve
    from planner.search.reconfigure import PresentJob, Times

Parts = dict[str, "tuple[ModelSpec, Workload, Runtime]"]


@dataclass(frozen=True)
class NodeChange:
    """Nodes that are lost or come, and how often they fail."""

    lost: int
    more: int
    failures: FailureProfile


def read_change(
    reading: Reading, lose: str | None, back: str | None, failures: str | None
) -> NodeChange | None:
    """Return the change that is asked for, None where none is; faults are noted."""
    fewer, more = reading.count("--lose", lose), reading.count("--nodes-return", back)
    if lose is not None and back is not None:
        reading.fault("--nodes-return", "--lose too", "one of the two")
    if lose is None and back is None:
        if failures is not None:
            reading.fault("--failures", "no --lose and no --nodes-return", "one of the two")
        return None
    profile = reading.attempt(inputs_failures.load_failures, failures or "llama3", "--failures")
    return None if profile is None else NodeChange(fewer or 0, more or 0, profile)


def present_jobs(
    file: JobsFile, profile: HardwareProfile, curves: Sequence[Curve], parts: Parts
) -> list[reconfigure.PresentJob]:
    """Return the jobs with their useful work each second on each share, and the shares that they have."""
    found = []
    for curve in curves:
        model, work, runtime = parts[curve.task.name]
        job = tables.Job(runtime.trained(model), profile, 1, work)
        steps = curve.job.tokens / work.tokens_per_step
        flops = float(cost_flops.job_flops(job, True)) * steps * curve.task.weight
        rates = tuple((count, flops / seconds) for count, seconds in curve.task.options)
        found.append(reconfigure.PresentJob(curve.task.name, rates, curve.job.has or 0))
    if not any(one.has for one in found):
        shares = reconfigure.best_shares(found, file.gpus, reconfigure.LONG, 0.0)
        found = [replace(one, has=share) for one, share in zip(found, shares, strict=True)]
    return found


def cluster_change(
    file: JobsFile,
    jobs: Sequence[PresentJob],
    asked: NodeChange,
    times: Times,
    per_node: int,
    shown: OutputOptions,
) -> None:
    """Write the new shares.

    Raises `InputError` if more nodes are lost than there are; `Infeasible` if no job has as many accelerators
    as are lost.
    """
    lost = asked.lost * per_node
    gpus = file.gpus - lost + asked.more * per_node
    if gpus < 1:
        most = file.gpus // per_node - 1
        raise InputError(
            Problem("--lose", str(asked.lost), f"at most {most} of the cluster's nodes", str(most))
        )
    cases = (
        reconfigure.after_loss(jobs, lost, gpus, times)
        if lost
        else [reconfigure.after_return(jobs, gpus, times)]
    )
    if not cases:
        raise Infeasible(f"no job has {lost} accelerators to lose")
    told = report_reconfigure.ChangedCluster(jobs, cases, gpus, file.gpus, times)
    if shown.output is Format.json:
        emit_document(report_reconfigure.change_document(told))
    elif shown.output is Format.csv:
        rows = [report_reconfigure.case_record(told, case) for case in cases]
        emit_rows(
            [{"hit": row["hit"], "flops_per_s": row["rate"], **row["shares"]} for row in rows], shown.output
        )
    else:
        emit_page(report_reconfigure.change_page(told), shown.output)
