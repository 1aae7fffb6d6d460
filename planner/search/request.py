"""What a search is asked, and the scan that each of its jobs makes of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from planner.cost.estimate import Estimate
from planner.cost.flops import step_flops
from planner.cost.memory.fit import safe_share
from planner.cost.money import Phases, bill_of
from planner.cost.step.step import StepPrice
from planner.dataclasses import dataclass, field, replace
from planner.inputs.hardware import HardwareProfile
from planner.inputs.model import ModelSpec
from planner.inputs.workload import Workload
from planner.numeric import Column
from planner.runtimes.family import Job, Runtime
from planner.search.choices import choices_of, fixed_degrees
from planner.search.hostable import hostable_rows
from planner.search.known import as_known
from planner.search.scan import Scan
from planner.search.settings import OpenSettings, Variant
from planner.search.space import make_space
from planner.techniques.methods import METHODS
from planner.techniques.offload import HOSTED
from planner.techniques.settings import Setting
from planner.units import percent

SLOWDOWN = 1.25
"""Times the fastest plan's step that the plan of least memory may take, where the user does not say. [-]"""

Progress = Callable[[float, str], None]
"""Function of (share done, what is being done)."""


@dataclass(frozen=True)
class SearchRequest:
    """Everything that a search needs."""

    model: ModelSpec
    """What is trained."""
    clusters: tuple[HardwareProfile, ...]
    """Where; several are compared."""
    gpu_counts: tuple[int, ...]
    """Numbers of accelerators to compare."""
    workload: Workload
    """Sequences, batch, precision, optimizer."""
    runtimes: tuple[Runtime, ...]
    """Training framework; several are compared."""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Degrees and techniques that the user has set, by the names of `Plan`."""
    objective: str = "time"
    """``time``, ``cost``, ``memory`` or ``energy``."""
    top: int = 5
    """Plans to return."""
    memory_limit: float | None = None
    """Device memory that may be used. [byte]"""
    oom_risk: float = 0.05
    """Accepted probability of running out of memory. [-]"""
    uniform: bool = False
    """Whether every layer of a plan keeps the same recompute choice and every stage nearly equal layers; if
    not, the best plans are assigned by the solver too."""
    cluster_gpus: int | None = None
    """Accelerators that there are, where ``gpu_counts`` are fewer because no plan can use them all."""
    slowdown: float = SLOWDOWN
    """Times the fastest plan's step that the plan of least memory may take. [-]"""
    settings: OpenSettings | None = None
    """Settings of the runtimes that may be chosen; if not given they are as the runtimes have them."""

    def open_settings(self, job: Job, runtime: Runtime) -> list[Setting]:
        """Return the settings that may be chosen for one of the jobs."""
        return self.settings.of(job, runtime) if self.settings is not None else []

    def jobs(self) -> Iterator[tuple[Job, Runtime]]:
        """Yield every combination of cluster, number of accelerators and runtime."""
        for hardware in self.clusters:
            for gpus in self.gpu_counts:
                idle = (self.cluster_gpus or gpus) - gpus
                for runtime in self.runtimes:
                    own = runtime.for_model(self.model)
                    job = Job(own.trained(self.model), hardware, gpus, self.workload, idle)
                    yield as_known(job, own)


def objective_column(name: str, within: float = np.inf) -> Callable[[StepPrice], Column]:
    """Return what a scan minimises: bytes among plans that take at most ``within`` seconds, or seconds.

    On one cluster money is proportional to time; plans of least energy are refined in the order of time too.
    """
    if name == "memory":
        return lambda result: np.where(np.asarray(result.step) <= within, result.total_bytes, np.inf)
    return lambda result: np.asarray(result.step)


def objective_value(name: str, plan: Estimate, seconds: float | None = None) -> float:
    """Return what the ranking minimises, of a step that takes its price or other seconds; inf if unknown."""
    if name == "time":
        return plan.step if seconds is None else seconds
    if name == "memory":
        return plan.peak
    bill = plan.bill if seconds is None or seconds == plan.step else plan.bill.stretched(seconds / plan.step)
    value = bill.usd_per_step if name == "cost" else bill.joules_per_step
    return float("inf") if value is None else value


def objective_key(name: str, plan: Estimate, seconds: float) -> tuple[float, float]:
    """Return by what plans are ranked: the objective, and then the seconds of a step."""
    return objective_value(name, plan, seconds), seconds


def objective_bound(name: str, job: Job, seconds: float) -> float:
    """Return what the ranking gives the plans of a job at least, if none takes less than ``seconds``.

    Nothing is known of their memory. Of energy, they compute at least the model's FLOPs at the peak, and wait
    the rest of the time.
    """
    if seconds == float("inf") or name == "time":
        return seconds
    if name == "memory":
        return 0.0
    bill = bill_of(job, seconds, _least_phases(job, seconds) if name == "energy" else None)
    value = bill.usd_per_step if name == "cost" else bill.joules_per_step
    return float("inf") if value is None else value


def _least_phases(job: Job, seconds: float) -> Phases:
    """Return the parts of a step that takes the least energy in so many seconds. [s]"""
    work, peak = job.workload, job.hardware.pool.accelerator.peak
    flops = step_flops(job.model, work.seq_len, float(work.tokens_per_step))
    share = 1.0 if METHODS[work.method].trains_base else 1.0 / 3.0
    computing = min(seconds, share * flops / max(map(float, peak.values())) / job.gpus)
    return Phases(computing, 0.0, seconds - computing)


def scans_of(
    request: SearchRequest, jobs: Sequence[tuple[Job, Variant]], within: float = np.inf
) -> list[Scan]:
    """Return a scan of each job; those of one job for several settings share space and legal rows."""
    first: dict[int, Scan] = {}
    times = Counter(id(job) for job, _ in jobs)
    scans = []
    for job, one in jobs:
        like = first.get(id(job))
        if like is not None:
            scans.append(replace(like, runtime=one.runtime, beside=one.beside))
            continue
        scan = replace(scan_of(request, job, one.runtime, within=within), usual=one.usual)
        first[id(job)] = replace(scan, known={}) if times[id(job)] > 1 else scan
        scans.append(first[id(job)])
    return scans


def scan_of(
    request: SearchRequest, job: Job, runtime: Runtime, keep: int = 256, within: float = np.inf
) -> Scan:
    """Return the scan of one job; by memory, of plans whose steps take at most ``within`` seconds."""
    degrees, split = fixed_degrees(request.fixed)
    capacity = job.hardware.pool.accelerator.memory_usable
    capacity = min(capacity, request.memory_limit or capacity)
    shards = request.fixed.get("zero_shards")
    apart = request.fixed.get("prediction_apart") is True
    space = make_space(job, degrees, split, runtime.bare_ends, apart)
    choices = choices_of(runtime, request.fixed, job)
    is_open = request.fixed.get("offload") in (None, HOSTED.name)
    return Scan(
        job=job,
        runtime=runtime,
        space=space,
        choices=choices,
        limit=capacity * safe_share(request.oom_risk, runtime.traits.allocator.memory_spread),
        capacity=capacity,
        keep=keep,
        shards=int(shards) if shards is not None else None,
        split=split,
        uneven=not request.uniform and request.objective != "memory",
        shown=request.top,
        by_memory=request.objective == "memory",
        within=within,
        hostable=hostable_rows(space, job, runtime, choices) if is_open else None,
    )


def why_left_out(answer: Estimate, request: SearchRequest) -> str | None:
    """Return why a plan that is not of the search is none of its answers; None where it would be one."""
    if answer.violations:
        return f"breaks {answer.violations[0].rule}"
    if not answer.feasible:
        return "does not fit"
    capacity, spread = answer.capacity, answer.runtime.traits.allocator.memory_spread
    if answer.peak > capacity * safe_share(request.oom_risk, spread):
        return f"left out: {percent(answer.oom_probability)} risk of running out of memory"
    return None
