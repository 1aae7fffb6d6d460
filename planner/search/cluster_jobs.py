"""How long each job takes on each share of a cluster: its own searches, or the times that its file gives."""

from __future__ import annotations

from collections.abc import Iterator

from planner.cost.estimate import Estimate
from planner.dataclasses import dataclass
from planner.inputs.hardware import HardwareProfile
from planner.inputs.jobs import JobsFile, TrainingJob
from planner.inputs.model import ModelSpec
from planner.inputs.workload import Workload
from planner.runtimes.family import Runtime
from planner.search.optimise import found_plans
from planner.search.request import Progress, SearchRequest
from planner.search.settings import OpenSettings
from planner.search.shares import Task, useful


@dataclass(frozen=True)
class Curve:
    """A job with its time on each share, and the plans behind them."""

    job: TrainingJob
    """As the file has it."""
    task: Task
    """For the program."""
    plans: dict[int, Estimate]
    """The best plan of each number of accelerators; none where the file gives the times."""


def shares_of(gpus: int, per_node: int) -> Iterator[int]:
    """Yield the numbers of accelerators that a job may have: halves of a node, then whole nodes, doubled.

    Examples
    --------
    >>> list(shares_of(96, 8))
    [1, 2, 4, 8, 16, 32, 64, 96]
    """
    count = 1
    while count <= min(gpus, per_node):
        if per_node % count == 0:
            yield count
        count *= 2
    nodes = 2
    while nodes * per_node < gpus:
        yield nodes * per_node
        nodes *= 2
    if gpus > per_node:
        yield gpus - gpus % per_node


def curves_of(
    file: JobsFile,
    profile: HardwareProfile,
    parts: dict[str, tuple[ModelSpec, Workload, Runtime]],
    progress: Progress | None = None,
) -> list[Curve]:
    """Return the jobs of a file with their times; equal searches are made once.

    ``parts``: model, workload and runtime of each job, by its name; ``progress``: told the share done and the
    job at hand.
    """
    known: dict[str, Estimate | None] = {}
    found = []
    for number, job in enumerate(file.jobs):
        if progress is not None:
            progress(number / len(file.jobs), f"searching {job.name}")
        model, workload, runtime = parts[job.name]
        plans: dict[int, Estimate] = {}
        searched = () if job.step_times else job.gpus or shares_of(file.gpus, profile.pool.gpus_per_node)
        for count in searched:
            key = f"{model.name} {workload} {runtime.name} {runtime.release} {count}"
            if key not in known:
                known[key] = _best(model, profile, count, workload, runtime)
            answer = known[key]
            if answer is not None:
                plans[count] = answer
        steps = job.tokens / workload.tokens_per_step
        times = {count: float(time) for count, time in job.step_times.items()} or {
            count: answer.step for count, answer in plans.items()
        }
        found.append(Curve(job, _task(job, steps, times, file.gpus), plans))
    return found


def _task(job: TrainingJob, steps: float, times: dict[int, float], gpus: int) -> Task:
    options = tuple((count, steps * step) for count, step in sorted(times.items()))
    if not options:
        return Task(job.name, ())
    asked = job.asked or max(times)
    place = max((place for place, (count, _) in enumerate(options) if count <= asked), default=0)
    deadline = None if job.deadline is None else float(job.deadline)
    task = Task(job.name, options, job.weight, float(job.arrives or 0.0), deadline, place)
    return useful((task,), gpus)[0]


def _best(
    model: ModelSpec, profile: HardwareProfile, gpus: int, workload: Workload, runtime: Runtime
) -> Estimate | None:
    open_settings = OpenSettings()
    request = SearchRequest(
        model, (profile,), (gpus,), workload, (runtime,), top=1, uniform=True, settings=open_settings
    )
    plans = found_plans(request, advise=False).plans
    return plans[0] if plans and plans[0].job.gpus == gpus else None
