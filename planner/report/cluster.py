"""Jobs that share a cluster, for people and programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from planner.inputs.jobs import JobsFile
from planner.report.as_json import Document, plain, plan_record
from planner.report.layout import layout
from planner.report.page import Page, Table, significant
from planner.search.cluster_jobs import Curve
from planner.search.shares import LayerRun, Objective, cost
from planner.units import HOUR, percent

CLUSTER: Final = "planner/cluster-shares/1"


@dataclass(frozen=True)
class SharedCluster:
    """Jobs with their shares, the baselines, and what keeps nodes whole.

    Parameters
    ----------
    file : JobsFile
        What was asked.
    curves : sequence of Curve
        Jobs with their times.
    runs : tuple of LayerRun
        The plan.
    baselines : dict
        Runs of a queue and of equal shares.
    moves : int
        Moves of jobs on part of a node. [-]
    objective : {"completion", "makespan"}
        What was minimised.
    """

    file: JobsFile
    curves: Sequence[Curve]
    runs: tuple[LayerRun, ...]
    baselines: dict[str, tuple[LayerRun, ...]]
    moves: int
    objective: Objective


def figures(runs: Sequence[LayerRun], gpus: int) -> dict[str, float]:
    """Return last end, weighted mean time to completion, deadlines missed and share of the cluster in use."""
    weight = sum(run.task.weight for run in runs)
    last = max(run.end for run in runs)
    mean = sum(run.task.weight * (run.end - run.task.arrives) for run in runs) / weight
    busy = sum(run.gpus * (run.end - run.start) for run in runs) / (last * gpus)
    missed = float(sum(run.late > 0 for run in runs))
    return {"makespan_s": last, "mean_completion_s": mean, "missed_deadlines": missed, "in_use": busy}


def cluster_page(told: SharedCluster) -> Page:
    """Return the shares of a cluster for people, the answer first."""
    own = figures(told.runs, told.file.gpus)
    rows = tuple(_row(run, told) for run in sorted(told.runs, key=lambda run: run.start))
    last, mean = (significant(own[name] / HOUR, 3) for name in ("makespan_s", "mean_completion_s"))
    head = (
        f"{len(told.runs)} jobs on {told.file.gpus:,} accelerators of {told.file.hardware}: all done after "
        f"{last} h, weighted mean {mean} h, {own['missed_deadlines']:.0f} deadlines missed."
    )
    table = Table(tuple(_baseline(name, figures(runs, told.file.gpus)) for name, runs in
                        [("this plan", told.runs), *told.baselines.items()]))  # fmt: skip
    lines = [f"In use: {percent(own['in_use'])} of accelerators and time."]
    if told.moves:
        lines.append(
            f"{told.moves} moves of jobs on part of a node keep nodes whole for others, each a restart."
        )
    lines.append("A job keeps its share; equal shares are cut anew whenever one comes or ends.")
    return [head, Table(rows), table, " ".join(lines)]


def _row(run: LayerRun, told: SharedCluster) -> dict[str, str]:
    plan = next(curve.plans.get(run.gpus) for curve in told.curves if curve.task.name == run.task.name)
    late = f"{significant(run.late / HOUR, 3)} h" if run.late else ""
    return {
        "job": run.task.name,
        "GPUs": f"{run.gpus:,}",
        "start h": significant(run.start / HOUR, 3),
        "end h": significant(run.end / HOUR, 3),
        **({"late": late} if any(one.late for one in told.runs) else {}),
        **({"layout": layout(plan.plan) if plan is not None else "-"} if _planned(told) else {}),
    }


def _planned(told: SharedCluster) -> bool:
    """Whether some time is that of a plan."""
    return any(curve.plans for curve in told.curves)


def _baseline(name: str, known: dict[str, float]) -> dict[str, str]:
    return {
        "how": name,
        "all done h": significant(known["makespan_s"] / HOUR, 3),
        "weighted mean h": significant(known["mean_completion_s"] / HOUR, 3),
        "missed": f"{known['missed_deadlines']:.0f}",
    }


def cluster_document(told: SharedCluster) -> Document:
    """Return the shares of a cluster as JSON."""
    document: Document = plain(
        {
            "schema": CLUSTER,
            "objective": told.objective,
            "cost": cost(told.runs, told.objective),
            "runs": [run_record(run, told) for run in told.runs],
            "figures": figures(told.runs, told.file.gpus),
            "baselines": {
                name: figures(runs, told.file.gpus) | {"cost": cost(runs, told.objective)}
                for name, runs in told.baselines.items()
            },
            "moves": told.moves,
            "curves": {
                curve.task.name: [{"gpus": count, "time_s": time} for count, time in curve.task.options]
                for curve in told.curves
            },
        }
    )
    return document


def run_record(run: LayerRun, told: SharedCluster) -> dict[str, Any]:
    """Return one job of the plan as a record."""
    plan = next(curve.plans.get(run.gpus) for curve in told.curves if curve.task.name == run.task.name)
    return {
        "job": run.task.name,
        "gpus": run.gpus,
        "start_s": run.start,
        "end_s": run.end,
        "late_s": run.late,
        "plan": None if plan is None else plan_record(plan.plan),
    }
