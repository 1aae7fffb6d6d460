"""Several jobs that share one cluster, as a YAML file has them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from planner.errors import InputError, Problem
from planner.inputs.build import build
from planner.inputs.record import Positive, Record, Seconds, Sourced
from planner.inputs.workload import WorkloadFields
from planner.inputs.yaml_file import read_yaml

_SCALES = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9, "g": 1e9, "t": 1e12}


def _amount(raw: Any) -> Any:
    """Read ``100B`` or ``1.5e11``."""
    match = re.fullmatch(r"([\d.]+(?:[eE]\+?\d+)?)\s*([A-Za-z]?)", str(raw).strip())
    scale = _SCALES.get(match[2].lower()) if match else None
    if match is None or scale is None or not 0 < float(match[1]) * scale < 1e30:
        raise ValueError("a positive number such as 100B or 1.5e12")
    return float(match[1]) * scale


def _above_zero(value: Sourced) -> Sourced:
    if not value > 0:
        raise ValueError("more than zero")
    return value


Amount = Annotated[float, BeforeValidator(_amount)]
Time = Annotated[Seconds, AfterValidator(_above_zero)]


class TrainingJob(Record):
    """One job: what it trains, until when, and how much it counts.

    ``gpus`` are the numbers of accelerators that it may have; not given they are parts of a node and then
    whole nodes, doubled. ``step_times`` are seconds of a step on each of them, where they were measured.
    ``asked`` is what it would ask of a queue; not given the largest. ``has`` is what it has now, where nodes
    are lost or come. ``arrives`` and ``deadline``
    count from now.
    """

    name: str = Field(min_length=1, max_length=60)
    model: str
    tokens: Amount
    workload: WorkloadFields = WorkloadFields()
    runtime: str = "megatron-lm"
    weight: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    arrives: Seconds | None = None
    deadline: Time | None = None
    gpus: tuple[Positive, ...] = ()
    asked: Positive | None = None
    has: Positive | None = None
    step_times: dict[Positive, Time] = Field(default_factory=dict)


class JobsFile(Record):
    """A cluster and the jobs that share it. ``restart`` is what a change of a job's share costs."""

    format: Literal["planner/cluster/1"] = "planner/cluster/1"
    hardware: str
    gpus: Positive
    gpus_per_node: Positive | None = None
    restart: Time | None = None
    jobs: Annotated[tuple[TrainingJob, ...], Field(min_length=1, max_length=200)]


def load_jobs(path: Path) -> JobsFile:
    """Return the jobs of a file.

    Raises `InputError` if it cannot be read, or is wrong: all faults at once.
    """
    found = build(JobsFile, read_yaml(path), str(path))
    names = [job.name for job in found.jobs]
    problems = [
        Problem(f"{path}: jobs.name", repr(name), "a name of its own for each job")
        for name in dict.fromkeys(names)
        if names.count(name) > 1
    ]
    problems += [
        Problem(f"{path}: jobs.{job.name}.gpus", str(count), f"at most the cluster's {found.gpus}")
        for job in found.jobs
        for count in sorted({*job.gpus, *job.step_times, job.asked or 1, job.has or 1})
        if count > found.gpus
    ]
    held = sum(job.has or 0 for job in found.jobs)
    if held > found.gpus:
        problems.append(Problem(f"{path}: jobs.has", f"{held} in all", f"at most the cluster's {found.gpus}"))
    if problems:
        raise InputError(problems)
    return found
