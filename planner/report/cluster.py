"""Jobs that share a cluster, for people and programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from planner.dataclasses import dataclass
from planner.inputs.jobs import JobsFile
from planner.report.as_json import Document, plain, plan_record
from planner.report.layout import layout
from planner.report.page import Page, Table, significant
from planner.search.cluster_jobs import Curve
from planner.search.shares import LayerRun, Objective, cost, unfairness
from planner.units import HOUR, percent

CLUSTER: Final = "planner/cluster-shares/1"


@dataclass(frozen=True)
class SharedCluster:
    """Jobs with their shares, the baselines, and what keeps nodes whole."""

    file: JobsFile
    """What was asked."""
    curves: Sequence[Curve]
    """Jobs with their times."""
    runs: tuple[LayerRun, ...]
    """The plan."""
    baselines: dict[str, tuple[LayerRun, ...]]
    """Runs of a queue, of equal shares and of shares that change."""
    fragments: tuple[int, int, int]
    """Moves of jobs on part of a node, shares that cross a scale-up domain although they would fit into one,
    and the accelerators of a domain. [-]"""
    objective: Objective
    """What was minimised."""


def figures(runs: Sequence[LayerRun], gpus: int) -> dict[str, float]:
    """Return last end, weighted mean time to completion, deadlines missed, share in use and unfairness."""
    weight = sum(run.task.weight for run in runs)
    last = max(run.end for run in runs)
    mean = sum(run.task.weight * (run.end - run.task.arrives) for run in runs) / weight
    busy = sum(run.used for run in runs) / (last * gpus)
    missed = float(sum(run.late > 0 for run in runs))
    fair = unfairness(runs, gpus)
    return {
        "makespan_s": last,
        "mean_completion_s": mean,
        "missed_deadlines": missed,
        "in_use": busy,
        "unfairness": fair,
    }


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
    moves, crossed, domain = told.fragments
    if crossed:
        lines.append(
            f"{crossed} shares cross a scale-up domain of {domain} although they would fit: slower than told."
        )
    if moves:
        lines.append(f"{moves} moves of jobs on part of a node keep nodes whole for others, each a restart.")
    lines.append(f"{_kept(told)} Unfair: the most time of a job over that on its own equal share.")
    return [head, Table(rows), table, " ".join(lines)]


def _kept(told: SharedCluster) -> str:
    if any(run.changes for run in told.runs):
        return "Shares change while jobs run; the table has the largest of each."
    return "A job keeps its share; others change them when one comes or ends (--changing takes that)."


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
        "unfair": significant(known["unfairness"], 3),
    }


def cluster_document(told: SharedCluster) -> Document:
    """Return the shares of a cluster as JSON."""
    document: Document = plain(
        {
            "schema": CLUSTER,
            "objective": told.objective,
            "cost": cost(told.runs, told.objective, told.file.gpus),
            "runs": [run_record(run, told) for run in told.runs],
            "figures": figures(told.runs, told.file.gpus),
            "baselines": {
                name: figures(runs, told.file.gpus) | {"cost": cost(runs, told.objective, told.file.gpus)}
                for name, runs in told.baselines.items()
            },
            "moves": told.fragments[0],
            "crossings": told.fragments[1],
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
        "spells": [{"start_s": one.start, "end_s": one.end, "gpus": one.gpus} for one in run.spells],
        "plan": None if plan is None else plan_record(plan.plan),
    }
