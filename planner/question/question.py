"""One typed question: what is planned, what of a plan is given, and what a search of it minimises.

Options, a case of a grid and the options that a launch file stands for are read by `read_question`, keywords
about a job that is made by `question_about`; both doors call below it: `request_of` for a search, `single_of`
for the price of one plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from planner.calibrate.releases import named_runtime, plain_traits
from planner.cost.settings import changed_settings
from planner.dataclasses import dataclass, replace
from planner.errors import nearest
from planner.fields import ASKED_AXES, SEARCH, default
from planner.inputs.hardware import HardwareProfile
from planner.inputs.model import ModelSpec
from planner.inputs.spoken_cluster import spoken_cluster
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.question.axes import WORLD, check_world, count_of, one_count, read_axes, whole_plan
from planner.question.formats import check_precision
from planner.question.job import FILES, Files, JobAsked, Said, read_job
from planner.question.reading import Reading, shown
from planner.question.traits import allowed_settings, pinned_settings
from planner.question.values import read_value
from planner.report.plan_file import Names
from planner.runtimes.family import Job, Runtime
from planner.search.request import SLOWDOWN, SearchRequest
from planner.search.settings import OpenSettings

OBJECTIVES: Final = ("time", "cost", "memory", "energy", "goodput")
"""What a search minimises; the last on the command line alone."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is asked, every value in its own type."""

    model_text: str
    """How the user named the model."""
    model: ModelSpec
    """The model."""
    clusters: tuple[tuple[str, HardwareProfile], ...]
    """How the user named each cluster, and the cluster."""
    gpu_counts: tuple[int, ...] | None
    """Numbers of accelerators; None where neither the user nor the profile says."""
    gpus_per_node: int | None = None
    """Accelerators of a node in use, where not all."""
    workload: Workload
    """Sequences, batch, precision, optimizer."""
    runtimes: tuple[Runtime, ...]
    """Training frameworks, traits changed as asked."""
    pinned: tuple[str, ...] = ()
    """Settings that the user decides."""
    memory_limit: float | None = None
    """Device memory that may be used. [byte]"""
    axes: dict[str, Any]
    """Axes of the plan that are given, by the names of `Plan`."""
    defaults: dict[str, Any]
    """What was taken because nothing was given."""
    objective: str = default("objective")
    top: int = default("top")
    oom_risk: float = default("oom_risk")
    uniform: bool = False
    slowdown: float = SLOWDOWN
    """As in `planner.search.request.SearchRequest`."""
    allowed: tuple[str, ...] = ()
    """Settings that change numerics and may be chosen."""

    def cluster_text(self, profile: HardwareProfile) -> str:
        """Return how the user named a cluster."""
        return next(text for text, known in self.clusters if known == profile)

    def names(self, profile: HardwareProfile) -> Names:
        """Return the names of a plan file on one of the clusters."""
        text = self.cluster_text(profile)
        return Names(self.model_text, text, self.gpus_per_node, self.memory_limit)


def read_question(
    said: Said, reading: Reading, files: Files = FILES, several: bool = True
) -> Question | None:
    """Return what is asked, or None where a fault was noted; ``several`` allows several plans to be priced.

    ``said``: fields of `planner.fields` by name, as texts or in their own types; ``reading``: where faults
    are noted, and how they name a field; ``files``: how models and clusters are loaded; ``several``: whether
    several accelerator counts, clusters and runtimes may be asked about.
    """
    for name in () if several else ("hardware", "runtime"):
        if len(said.get(name) or ()) > 1:
            reading.fault(name, ", ".join(said[name]), "one, since a single plan is priced")
    axes = read_axes(said, reading)
    known = read_job(said, reading, files, several)
    wanted = read_search(said, reading) if several else {}
    known = _one_where_bare(said, axes, known)
    if several:
        _check_counts(said, axes, known, reading)
    else:
        known = _with_count(said, axes, known, reading)
    allowed = allowed_settings(said.get("allow") or (), reading)
    if reading.problems or known is None:
        return None
    return Question(
        **known._asdict(),
        **wanted,
        model_text=said["model"],
        gpus_per_node=read_value("gpus_per_node", said.get("gpus_per_node"), reading),
        pinned=pinned_settings(said.get("changes") or (), known.workload),
        axes=axes,
        allowed=allowed,
    )


def _one_where_bare(said: Said, axes: Mapping[str, Any], known: JobAsked | None) -> JobAsked | None:
    """Return what is asked on one accelerator, where accelerators alone are named and nothing says how many.

    ``rtx4090`` is one card, as ``8xrtx4090`` are eight; a cluster's own name says no number.
    """
    if (
        known is None
        or known.gpu_counts is not None
        or any(axes.get(name, 1) not in (None, 1) for name in WORLD)
    ):
        return known
    spoken = [spoken_cluster(text) for text in said.get("hardware") or ()]
    if not spoken or any(one is None or one.gpus is not None for one in spoken):
        return known
    return known._replace(gpu_counts=(1,), defaults=known.defaults | {"gpus": 1})


def _check_counts(said: Said, axes: Mapping[str, Any], known: JobAsked | None, reading: Reading) -> None:
    """Note no accelerators, or degrees that multiply to none of their counts."""
    counts = known.gpu_counts if known is not None else one_count(said.get("gpus"))
    if known is not None and counts is None:
        example = reading.door.said("gpus", 64)
        reading.fault("gpus", "nothing", f"the number of accelerators, such as {example}")
    elif counts:
        check_world(axes, counts, reading)


def _with_count(
    said: Said, axes: Mapping[str, Any], known: JobAsked | None, reading: Reading
) -> JobAsked | None:
    """Return what is asked with the accelerators of a single plan."""
    counts = known.gpu_counts if known is not None else one_count(said.get("gpus"))
    count = count_of(axes, counts, reading) if known is not None or counts is not None else None
    return known._replace(gpu_counts=(count,)) if known is not None and count is not None else known


def question_about(
    job: Job, runtimes: Iterable[str | Runtime], said: Said, axes: Mapping[str, Any], reading: Reading
) -> Question:
    """Return a question about a job that is made: other fields and the axes of a plan beside it.

    Raises `InputError` with every fault.
    """
    wanted = read_search(said, reading, OBJECTIVES[:-1])
    limit = read_value("memory_limit", said.get("memory_limit"), reading)
    named = ("precision", "optimizer", "method")
    words = {name: read_value(name, getattr(job.workload, name), reading) for name in named}
    known = {name: word for name, word in words.items() if word is not None}
    job = replace(job, workload=job.workload.model_copy(update=known))
    given = given_axes(axes, job, reading)
    chosen = _named(runtimes, job, reading)
    allowed = allowed_settings(said.get("allow") or (), reading)
    reading.finish()
    return Question(
        **wanted,
        model_text=job.model.name,
        model=job.model,
        clusters=((job.hardware.name, job.hardware),),
        gpu_counts=(job.gpus,),
        workload=job.workload,
        runtimes=chosen,
        pinned=pinned_by(chosen, job),
        memory_limit=limit,
        axes=given,
        defaults={},
        allowed=allowed,
    )


def _named(given: Iterable[str | Runtime], job: Job, reading: Reading) -> tuple[Runtime, ...]:
    """Return runtimes, those that are named in the release that runs on the job's accelerators."""
    where = (job.hardware.pool.accelerator.name, job.workload.precision)
    found = [
        reading.attempt(named_runtime, one, *where, label="runtime") if isinstance(one, str) else one
        for one in given
    ]
    if not found:
        reading.fault("runtime", "none", "one runtime at least", default("runtime"))
    return tuple(one for one in found if one is not None)


def given_axes(axes: Mapping[str, Any], job: Job, reading: Reading) -> dict[str, Any]:
    """Return the axes of a plan of a job in their own types; faults, unknown names among them, are noted."""
    names = [axis.name for axis in ASKED_AXES]
    for name in axes:
        if name not in names and axes[name] is not None:
            known = f"an axis of a plan: {', '.join(names)}"
            reading.fault(name, shown(axes[name]), known, nearest(name, names))
    check_precision(job.hardware, job.workload, reading)
    found = read_axes(axes, reading)
    check_world(found, (job.gpus,), reading)
    return found


def pinned_by(runtimes: Iterable[Runtime], job: Job) -> tuple[str, ...]:
    """Return the settings that the workload, or the changed traits of runtimes, decide."""
    found = list(pinned_settings((), job.workload))
    for runtime in runtimes:
        plain = plain_traits(runtime, job.hardware.pool.accelerator.name, job.workload.precision)
        found += changed_settings(job, runtime, plain)
    return tuple(found)


def single_of(question: Question) -> tuple[Job, Plan, Runtime, dict[str, Any]]:
    """Return the job and plan of a question about one, and what was taken for what was not given."""
    (_, profile), runtime = question.clusters[0], question.runtimes[0].for_model(question.model)
    counts = question.gpu_counts or ()
    job = Job(runtime.trained(question.model), profile, counts[0], question.workload)
    plan, told = whole_plan(question.axes, job, runtime)
    untrained = {"prediction_layers": 0} if job.model.prediction != question.model.prediction else {}
    return job, plan, runtime, question.defaults | told | untrained


def read_search(said: Said, reading: Reading, objectives: tuple[str, ...] = OBJECTIVES) -> dict[str, Any]:
    """Return what a search minimises and how, by the fields of a question; faults are noted."""
    given = {field.name: said.get(field.name, field.default) for field in SEARCH}
    goal = reading.word("objective", given["objective"], objectives)
    top = read_value("top", given["top"], reading)
    risk = read_value("oom_risk", given["oom_risk"], reading)
    if risk is not None and not 0 < risk < 1:
        found = str(given["oom_risk"])
        reading.fault("oom_risk", found, "a probability between 0 and 1, such as 0.05")
    return {
        "objective": goal,
        "top": top,
        "oom_risk": risk,
        "uniform": bool(read_value("uniform", given["uniform"], reading)),
        "slowdown": _slowdown(given["slowdown"], goal, reading),
    }


def _slowdown(given: str | float | None, objective: str | None, reading: Reading) -> float:
    """Return how many times the fastest plan's step the plan of least memory may take; a fault is noted."""
    if given is not None and objective not in ("memory", None):
        told = reading.door.said("objective", reading.door.word(objective))
        reading.fault("slowdown", told, reading.door.said("objective", reading.door.word("memory")))
    if str(given).strip().lower() == "inf":
        return float("inf")
    times = read_value("slowdown", given, reading)
    return SLOWDOWN if times is None else float(times)


def request_of(question: Question) -> SearchRequest:
    """Return the search of a question."""
    return SearchRequest(
        model=question.model,
        clusters=tuple(profile for _, profile in question.clusters),
        gpu_counts=question.gpu_counts or (),
        workload=question.workload,
        runtimes=question.runtimes,
        fixed=question.axes,
        objective=question.objective,
        top=question.top,
        memory_limit=question.memory_limit,
        oom_risk=question.oom_risk,
        uniform=question.uniform,
        slowdown=question.slowdown,
        settings=OpenSettings(question.pinned, question.allowed),
    )
