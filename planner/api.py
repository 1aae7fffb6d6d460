"""The planner for programs: load inputs, search, estimate, explain, simulate, write files, validate."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from planner.arguments import checked
from planner.calibrate.batches import predictions_with
from planner.calibrate.constants import shipped_values
from planner.calibrate.releases import named_runtime
from planner.calibrate.runs.catalogue import shipped_catalogue
from planner.calibrate.runs.table import read_runs
from planner.calibrate.validate import as_json, validate
from planner.cost.estimate import Estimate
from planner.cost.price import Unpriced, price
from planner.dataclasses import replace
from planner.errors import Infeasible, InputError, PlannerError, Problem, UnsupportedPlan
from planner.files import write_whole
from planner.inputs.bounded import table_lines
from planner.inputs.hardware import HardwareProfile
from planner.inputs.load import load_model as _load_model
from planner.inputs.load_hardware import load_hardware as _load_cluster
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.question.axes import whole_plan
from planner.question.launch import wanted_target, write_plan
from planner.question.launched import Launch
from planner.question.names import plan_names
from planner.question.question import question_about, request_of
from planner.question.reading import KEYWORDS, Reading
from planner.question.synthesis import synthesise_schedule as _synthesise_schedule
from planner.question.traits import trait_changes
from planner.question.usual import DEFAULT_RUNTIME
from planner.report.as_json import Document
from planner.report.explain import Explanation, explain
from planner.report.plan_file import PlanFile, plan_yaml, read_plan_file
from planner.report.shown import record
from planner.runtimes.family import Job, Runtime
from planner.search.optimise import search
from planner.search.result import SearchResult
from planner.simulate.plan import play_plan
from planner.simulate.record import StepRecord

__all__ = [
    "Estimate", "Explanation", "Infeasible", "InputError", "Job", "Plan", "PlannerError", "UnsupportedPlan",
    "Workload", "as_document", "emit_plan", "estimate_plan", "explain_plan", "load_hardware", "load_model",
    "load_plan", "load_runtime", "save_plan", "search_plans", "simulate_plan", "synthesise_schedule",
    "validate_runs",
]  # fmt: skip

load_model = checked(_load_model)
synthesise_schedule = checked(_synthesise_schedule)


@checked
def load_hardware(name: str, gpus_per_node: int | None = None, price: float | None = None) -> HardwareProfile:
    """Return a cluster.

    Parameters
    ----------
    name : str
        One that ships, such as ``dgx-h100``, or the path of a profile YAML.
    gpus_per_node : int, optional
        Accelerators of a node in use, where not all.
    price : float, optional
        Price of your own for one accelerator and hour, in place of the profile's. [USD/h]

    Raises
    ------
    InputError
        If there is none, its file is wrong, or the price is negative or no number.
    """
    profile = _load_cluster(name, "cluster")
    if price is not None and not 0 <= price < math.inf:
        raise InputError(Problem("price", repr(price), "a number from 0, in USD/h"))
    profile = profile if price is None else profile.with_price(price)
    return profile if gpus_per_node is None else profile.with_node_size(gpus_per_node)


@checked
def load_runtime(name: str = DEFAULT_RUNTIME, job: Job | None = None, **traits: Any) -> Runtime:
    """Return a runtime, some of its traits changed.

    Parameters
    ----------
    name : str
        Such as ``megatron-lm`` or ``torchtitan``, also in a release: ``megatron-bridge@26.04``.
    job : Job, optional
        What it is for; releases differ by accelerator and precision, so one that is named needs it.
    **traits
        New values, as ``--set`` takes them: ``attention="flash-2"``, ``compute_derate=0.95``.

    Raises
    ------
    InputError
        If a name or a value is unknown.
    """
    reading = Reading(KEYWORDS)
    if "@" in name and job is None:
        reading.fault("job", "none", f"the job that {name} is for, since releases differ by accelerator")
    reading.finish()
    where = ("", "bf16") if job is None else (job.hardware.pool.accelerator.name, job.workload.precision)
    runtime = named_runtime(name, *where, label="runtime")
    changes = trait_changes(traits, reading)
    reading.finish()
    return runtime.with_traits(**changes)


@checked
def load_plan(path: str | Path) -> PlanFile:
    """Return a saved plan with everything that it is for.

    Raises
    ------
    InputError
        If the file is wrong, all faults at once.
    """
    return read_plan_file(Path(path))


@checked
def search_plans(  # noqa: PLR0913 (by name alone)
    job: Job,
    runtime: str | Runtime | Sequence[str | Runtime] = DEFAULT_RUNTIME,
    *,
    objective: str = "time",
    top: int = 5,
    oom_risk: float = 0.05,
    memory_limit: float | None = None,
    uniform: bool = False,
    slowdown: float | None = None,
    allow: Iterable[str] = (),
    **axes: Any,
) -> SearchResult:
    """Rank the plans of a job; what you set stays fixed, the rest is searched.

    Parameters
    ----------
    job : Job
        Model, cluster, number of accelerators and workload.
    runtime : str, Runtime, or several
        Training framework; the plans of several are ranked together.
    objective : str
        What to minimise: ``time``, ``cost``, ``memory`` or ``energy``.
    top : int
        Plans to return. [-]
    oom_risk : float
        Accepted probability of running out of memory. [-]
    memory_limit : float, optional
        Device memory that may be used. [byte]
    uniform : bool
        Whether all layers keep one recompute choice: no assignment.
    allow : iterable of str
        Settings that change numerics and may be chosen all the same, such as ``gradients``.
    slowdown : float, optional
        With memory as the objective, times the fastest plan's step that a plan may take, or infinite; 1.25
        where it is not said. [-]
    **axes
        Axes to keep, such as ``tp=8``.

    Returns
    -------
    SearchResult
        Its ``plans`` are best first; none where nothing fits, and then ``nearest`` says what would.

    Raises
    ------
    InputError
        If something is unknown or wrong, all faults at once.
    """
    several = [runtime] if isinstance(runtime, str | Runtime) else list(runtime)
    said = {
        "objective": objective, "top": top, "oom_risk": oom_risk, "memory_limit": memory_limit,
        "uniform": uniform, "slowdown": slowdown, "allow": allow,
    }  # fmt: skip
    return search(request_of(question_about(job, several, said, axes, Reading(KEYWORDS))))


@checked
def estimate_plan(
    job: Job, runtime: str | Runtime = DEFAULT_RUNTIME, *, memory_limit: float | None = None, **axes: Any
) -> Estimate:
    """Price one plan in full; degrees you leave out are 1, dp follows from the accelerators.

    Parameters
    ----------
    job : Job
        Model, cluster, number of accelerators and workload.
    runtime : str or Runtime
        Training framework.
    memory_limit : float, optional
        Device memory that may be used. [byte]
    **axes
        The plan, such as ``tp=8, pp=4, sequence_parallel=True``.

    Returns
    -------
    Estimate
        Look at ``feasible`` and ``violations`` before its times.

    Raises
    ------
    InputError
        If something is unknown or wrong, all faults at once.
    UnsupportedPlan
        If the degrees do not cut model, batch and cluster into whole parts, so that there is no price.
    """
    said = {"memory_limit": memory_limit}
    question = question_about(job, [runtime], said, axes, Reading(KEYWORDS))
    who, job = question.runtimes[0], replace(job, workload=question.workload)
    plan, _ = whole_plan(question.axes, job, who)
    return _priced(plan, job, who, memory_limit)


@checked
def explain_plan(answer: Estimate) -> Explanation:
    """Return where a plan's time and memory go, what binds, and what one change of each axis would do."""
    return explain(answer, lambda plan: price(plan, answer.job, answer.runtime, answer.capacity))


@checked
def simulate_plan(answer: Estimate, jitter: float = 0.0, seed: int = 0) -> StepRecord:
    """Play one step of a plan pass by pass.

    Parameters
    ----------
    answer : Estimate
        The plan.
    jitter : float
        Relative spread of pass times. [-]
    seed : int
        Seed of the spread. [-]

    Raises
    ------
    InputError
        If ``jitter`` or ``seed`` is negative or no number.
    UnsupportedPlan
        If the schedule cannot run the plan's degrees.
    """
    reading = Reading(KEYWORDS)
    if not 0 <= jitter < math.inf:
        reading.fault("jitter", str(jitter), "a number from 0, such as 0.02", "0")
    if seed < 0:
        reading.fault("seed", str(seed), "a whole number from 0", "0")
    reading.finish()
    return play_plan(answer.plan, answer.job, answer.runtime, answer.capacity, jitter, seed).record


@checked
def save_plan(
    answer: Estimate, path: str | Path, *, model: str = "", hardware: str = "", force: bool = False
) -> None:
    """Write a plan file, which every command reads.

    Parameters
    ----------
    answer : Estimate
        The plan.
    path : str or Path
        Where it goes.
    model, hardware : str
        How both are named in the file, where not by the names of those that ship: the paths of their files.
    force : bool
        Whether a file that exists is replaced.

    Raises
    ------
    InputError
        If a name is not that of the model or cluster of the plan, or the file cannot be written.
    """
    names = plan_names(answer, model, hardware)
    write_whole(Path(path), plan_yaml(answer.job, answer.runtime, answer.plan, names), force, "path")


@checked
def emit_plan(  # noqa: PLR0913 (by name alone)
    answer: Estimate,
    folder: str | Path,
    *,
    target: str | None = None,
    launcher: str = "torchrun",
    model: str = "",
    hardware: str = "",
    force: bool = False,
    unfit: bool = False,
    smoke: bool = False,
) -> list[Path]:
    """Write the files that start a plan, all of them or none, and return their paths.

    Parameters
    ----------
    answer : Estimate
        The plan.
    folder : str or Path
        Where the files go; a model and a cluster from files of the caller's are copied there.
    target : str, optional
        Files for whom; the plan's runtime where not said.
    launcher : str
        Who starts them: ``torchrun``, ``slurm``, ``kubernetes``, ``skypilot`` or ``ray``.
    model, hardware : str
        As in `save_plan`.
    force, unfit, smoke : bool
        Whether files that exist are replaced; a plan that does not fit is written; the files start twenty
        steps on made-up data where the variable ``SMOKE`` does not say otherwise.

    Raises
    ------
    InputError
        If a name is unknown, or the folder cannot be written.
    UnsupportedPlan
        If the target cannot run the plan.
    Infeasible
        If the plan does not fit and ``unfit`` is false.
    """
    launch = Launch(Path(folder), target, launcher, None, force, smoke)
    wanted = wanted_target(launch, answer.runtime, KEYWORDS)
    if not answer.feasible and not answer.violations and not unfit:
        raise Infeasible("the plan does not fit; unfit=True writes its files nevertheless")
    return write_plan(answer, plan_names(answer, model, hardware), wanted, launch)


@checked
def validate_runs(path: str | Path) -> Document:
    """Price every run of a table of measurements, and return how far the predictions are from it.

    Parameters
    ----------
    path : str or Path
        A CSV file of measured runs.

    Raises
    ------
    InputError
        If it cannot be read.
    """
    with table_lines(Path(path)) as lines:
        table = read_runs(lines, str(path))
        return as_json(validate(table.rows, shipped_catalogue(), predictions_with(shipped_values())))


@checked
def as_document(answer: Estimate | SearchResult | Explanation) -> Document:
    """Return an answer as the JSON document that the command of its name prints."""
    return record(answer)


def _priced(plan: Plan, job: Job, runtime: Runtime, memory_limit: float | None) -> Estimate:
    answer = price(plan, job, runtime, memory_limit)
    if isinstance(answer, Unpriced):
        raise answer.error()
    return answer
