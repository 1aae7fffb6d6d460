"""``planner cluster``: several jobs on one cluster, each with its share and its time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli.cluster_change import cluster_change, present_jobs, read_change
from planner.cli.options import Format, OutputOptions, spread, text_option
from planner.cli.output import emit_document, emit_page, emit_rows
from planner.cli.progress import Progress
from planner.deferred import deferred
from planner.errors import Infeasible
from planner.question.reading import Reading
from planner.search.fragments import crossings, pieces, small_moves
from planner.search.moving_shares import equal_shares
from planner.search.shares import cost, planned, queue

with deferred():
    from planner.cli import tables
    from planner.inputs import jobs as inputs_jobs
    from planner.inputs import load, load_hardware
    from planner.inputs import workload as inputs_workload
    from planner.report import as_json
    from planner.report import cluster as report_cluster
    from planner.search import cluster_jobs, moving_shares, reconfigure

if TYPE_CHECKING:
    from planner.inputs.hardware import HardwareProfile
    from planner.inputs.jobs import JobsFile, TrainingJob
    from planner.inputs.model import ModelSpec
    from planner.report.cluster import SharedCluster
    from planner.runtimes.family import Runtime
    from planner.search.cluster_jobs import Curve
    from planner.search.shares import Objective

RESTART = 1380.0
"""A change of a job's share: queue and environment of a default restart (Unicron, arXiv:2401.00134). [s]"""


@spread
def cluster(
    jobs: Annotated[Path, typer.Argument(metavar="JOBS", help="A YAML file with a cluster and its jobs.")],
    shown: OutputOptions,
    objective: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="What to minimise after lateness: completion (weighted), makespan or fairness.",
        ),
    ] = "completion",
    changing: Annotated[
        bool,
        typer.Option("--changing", help="Let shares change while jobs run; each change costs a restart."),
    ] = False,
    lose: Annotated[
        str | None, text_option("NODES", "Nodes lost: new shares of all jobs, by the job that is hit.")
    ] = None,
    nodes_return: Annotated[
        str | None, text_option("NODES", "Nodes that join: new shares of all jobs.")
    ] = None,
    failures: Annotated[
        str | None, text_option("NAME", "How often machines fail, with --lose: llama3, a log.")
    ] = None,
) -> None:
    """Share one cluster among several jobs: accelerators, start and end of each, compared with a queue.

    Each job's time on a share is that of the best plan found for it. Exit code 1 means that a job fits on no
    share.
    """
    reading = Reading()
    goal = reading.word("--objective", objective, ("completion", "makespan", "fairness"))
    change = read_change(reading, lose, nodes_return, failures)
    file = reading.attempt(inputs_jobs.load_jobs, jobs)
    reading.finish()
    if file is None or goal is None:
        raise AssertionError("a fault was not told")
    profile = reading.attempt(load_hardware.load_hardware, file.hardware, f"{jobs}: hardware")
    if profile is not None and file.gpus_per_node is not None:
        profile = reading.attempt(profile.with_node_size, file.gpus_per_node)
    if profile is not None and file.gpus > profile.pool.max_gpus:
        reading.fault(f"{jobs}: gpus", str(file.gpus), f"at most {profile.pool.max_gpus:.0f}")
    kind = "" if profile is None else profile.pool.accelerator.name
    read = {job.name: _parts(job, kind, jobs, reading) for job in file.jobs}
    reading.finish()
    parts = {name: part for name, part in read.items() if part is not None}
    if profile is None:
        raise AssertionError("a fault was not told")
    with Progress(shown.quiet, shown.verbose) as progress:
        curves = cluster_jobs.curves_of(file, profile, parts, progress)
        homeless = [curve.task.name for curve in curves if not curve.task.options]
        if homeless:
            raise Infeasible(f"no share of the cluster has a plan that fits for {', '.join(homeless)}")
        if change is not None:
            present = present_jobs(file, profile, curves, parts)
            times = reconfigure.Times(float(change.failures.device_mtbf), float(file.restart or RESTART))
            cluster_change(file, present, change, times, profile.pool.gpus_per_node, shown)
            return
        progress(0.9, "sharing the cluster")
        told = shared(file, profile, curves, as_objective(goal), changing)
    emit_shares(told, shown)


def shared(
    file: JobsFile, profile: HardwareProfile, curves: list[Curve], aim: Objective, changing: bool
) -> report_cluster.SharedCluster:
    """Return the shares of all jobs beside a queue, equal shares and shares that change."""
    tasks, restart = [curve.task for curve in curves], float(file.restart or RESTART)
    runs, moved = planned(tasks, file.gpus, aim), moving_shares.moving(tasks, file.gpus, aim, restart)
    if changing:
        runs = min(runs, moved, key=lambda one: cost(one, aim, file.gpus))
    baselines = {
        "queue": queue(tasks, file.gpus),
        "equal shares": equal_shares(tasks, file.gpus, restart),
        "changing shares": moved,
    }
    whole, pool = pieces(runs), profile.pool
    domain = max(pool.gpus_per_node, int(pool.scaleup_domain))
    moves = small_moves(whole, file.gpus, pool.gpus_per_node)
    fragments = moves, crossings(whole, file.gpus, domain), domain
    return report_cluster.SharedCluster(file, curves, runs, baselines, fragments, aim)


def emit_shares(told: SharedCluster, shown: OutputOptions) -> None:
    """Write shares and times of all jobs, in the format asked for."""
    if shown.output is Format.json:
        emit_document(report_cluster.cluster_document(told))
    elif shown.output is Format.csv:
        rows = [as_json.plain(report_cluster.run_record(run, told)) for run in told.runs]
        emit_rows([{name: row[name] for name in row if name != "plan"} for row in rows], shown.output)
    else:
        emit_page(report_cluster.cluster_page(told), shown.output)


def as_objective(word: str) -> Objective:
    """Return the name of what is minimised."""
    return "makespan" if word == "makespan" else "fairness" if word == "fairness" else "completion"


def _parts(
    job: TrainingJob, kind: str, path: Path, reading: Reading
) -> tuple[ModelSpec, inputs_workload.Workload, Runtime] | None:
    """Return model, workload and runtime of a job, or note what is wrong with them."""
    model = reading.attempt(load.load_model, job.model)
    workload = inputs_workload.Workload(**job.workload.model_dump())
    label = f"{path}: jobs.{job.name}.runtime"
    runtime = reading.attempt(tables.named_runtime, job.runtime, kind, workload.precision, label=label)
    return None if model is None or runtime is None else (model, workload, runtime)
