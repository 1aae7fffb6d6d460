"""What a notebook asks for: what ships, many plans at once or side by side, measured and failing runs."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from planner.api import load_runtime, search_plans
from planner.arguments import checked
from planner.cost.estimate import Estimate
from planner.errors import InputError, Problem
from planner.inputs.load import load_model, model_names
from planner.plan import DEGREES, MESH, Plan
from planner.question.axes import whole_plan
from planner.question.question import given_axes
from planner.question.reading import KEYWORDS, Reading
from planner.question.usual import DEFAULT_RUNTIME
from planner.report.as_json import Document
from planner.report.compare import NamedPlan, compare_document
from planner.report.flat import flat_row
from planner.report.goodput import SEEN_MTBF, Failing, goodput_document
from planner.report.hardware_facts import cluster_rows
from planner.report.mfu import MeasuredStep, mfu_document
from planner.report.model_facts import model_row
from planner.runtimes.family import Job, Runtime
from planner.search.columns import TECHNIQUES, PricedColumns, price_columns

__all__ = [
    "PricedColumns", "compare_plans", "estimate_plans", "list_hardware", "list_models", "plan_goodput",
    "plan_mfu", "sweep_plans",
]  # fmt: skip

MOST_SEARCHES = 1000
"""Cases of a sweep from Python; `planner sweep` takes more, and goes on where it stopped."""


def list_models() -> list[dict[str, Any]]:
    """Return the models that ship, one row for each, as ``planner models list`` has them."""
    return [dict(model_row(load_model(name))) for name in model_names()]


def list_hardware() -> list[dict[str, Any]]:
    """Return the clusters that ship, one row for each pool, as ``planner hardware list`` has them."""
    return cluster_rows()


@checked
def estimate_plans(
    job: Job, runtime: str | Runtime = DEFAULT_RUNTIME, *, memory_limit: float | None = None, **axes: Any
) -> PricedColumns:
    """Price many plans at once: each axis is one value, or a sequence with one value for each plan.

    Parameters
    ----------
    job : Job
        Model, cluster, number of accelerators and workload.
    runtime : str or Runtime
        Training framework.
    memory_limit : float, optional
        Device memory that may be used. [byte]
    **axes
        The plans, such as ``tp=[1, 2, 4], micro_batch=[4, 2, 1], zero=1``.

    Returns
    -------
    PricedColumns
        ``step`` in seconds, ``peak`` in bytes, ``legal`` and ``fits``, one element for each plan; those of
        `estimate_plan` for each alone.

    Raises
    ------
    InputError
        If something is unknown or wrong, or sequences differ in length.
    """
    several = {name: value for name, value in axes.items() if isinstance(value, list | tuple | np.ndarray)}
    listed = {
        name: value.tolist() if isinstance(value, np.ndarray) else list(value)
        for name, value in several.items()
    }
    sizes = {len(values) for values in listed.values()}
    if len(sizes) > 1 or "stage_layers" in axes:
        found = ", ".join(f"{name} {len(values)}" for name, values in listed.items())
        raise InputError(Problem("axes", found, "sequences of one length, and no stage_layers"))
    who = load_runtime(runtime, job) if isinstance(runtime, str) else runtime
    size = max(sizes, default=1)
    values = {name: listed.get(name, [value] * size) for name, value in axes.items() if value is not None}
    columns = _columns(_read(values, job), size, job, who)
    degrees: dict[str, Any] = {name: columns[name] for name in DEGREES}
    names = {name: columns[name] for name in TECHNIQUES}
    return price_columns(Plan(**degrees), names, job, who, memory_limit)


def _read(values: Mapping[str, Sequence[Any]], job: Job) -> dict[str, list[Any]]:
    """Return the axes as the command line reads them, each value once.

    Raises
    ------
    InputError
        With every fault of every value.
    """
    reading, found = Reading(KEYWORDS), dict[str, list[Any]]()
    for name, column in values.items():
        known = {
            one: given_axes({name: _plain(one)}, job, reading).get(name) for one in dict.fromkeys(column)
        }
        found[name] = [known[one] for one in column]
    reading.finish()
    return found


def _columns(given: Mapping[str, Sequence[Any]], size: int, job: Job, runtime: Runtime) -> dict[str, Any]:
    """Return all fields of the plans, what is not given as `whole_plan` takes it."""
    usual, chunked = (whole_plan(axes, job, runtime)[0] for axes in ({}, {"vpp": 2}))
    columns: dict[str, Any] = {name: [getattr(usual, name)] * size for name in TECHNIQUES} | dict(given)
    for name in (*MESH, "micro_batch"):
        columns[name] = np.asarray(given.get(name, [1.0] * size), dtype=float)
    if "schedule" not in given:
        columns["schedule"] = [chunked.schedule if vpp > 1 else usual.schedule for vpp in columns["vpp"]]
    ways = columns["tp"] * columns["pp"] * columns["cp"]
    columns["dp"] = np.asarray(given.get("dp", np.maximum(1.0, job.gpus // ways)), dtype=float)
    sharded = np.where(np.asarray(columns["zero"]) > 0, columns["dp"] * columns["cp"], 1.0)
    columns["zero_shards"] = np.asarray(given.get("zero_shards", sharded), dtype=float)
    columns["num_microbatches"] = job.workload.global_batch // (columns["micro_batch"] * columns["dp"])
    return columns


def _plain(value: Any) -> Any:
    """Return a number of numpy as one of Python."""
    return value.item() if isinstance(value, np.generic) else value


@checked
def sweep_plans(
    jobs: Mapping[str, Job], runtime: Sequence[str] = (DEFAULT_RUNTIME,), **axes: Any
) -> list[dict[str, Any]]:
    """Search the best plan of every job, runtime and combination of axes, one row for each.

    Parameters
    ----------
    jobs : mapping
        Jobs by the names that the rows have.
    runtime : sequence of str
        Training frameworks, each searched alone.
    **axes
        Axes to keep: one value, or a list of which each is tried.

    Returns
    -------
    list of dict
        ``job``, ``runtime`` and the axes, then the figures of the best plan, or ``fits`` false.

    Raises
    ------
    InputError
        If something is unknown or wrong, or the cases are more than 1,000.
    """
    lists = {name: value if isinstance(value, list) else [value] for name, value in axes.items()}
    cases = list(itertools.product(jobs.items(), runtime, *lists.values()))
    if len(cases) > MOST_SEARCHES:
        most = f"at most {MOST_SEARCHES:,}; planner sweep takes more"
        raise InputError(Problem("cases", f"{len(cases):,}", most))
    rows = []
    for (name, job), who, *values in cases:
        kept = dict(zip(lists, values, strict=True))
        found = search_plans(job, who, top=1, **kept).plans
        head = {"job": name, "searched": who, **{f"axis_{axis}": value for axis, value in kept.items()}}
        rows.append(head | {"fits": bool(found)} | (flat_row(found[0]) if found else {}))
    return rows


@checked
def compare_plans(plans: Mapping[str, Estimate]) -> Document:
    """Return priced plans side by side, as ``planner compare`` does; the mapping has their names."""
    if not plans:
        raise InputError(Problem("plans", "none", "one plan at least"))
    return compare_document([NamedPlan(name, answer) for name, answer in plans.items()])


@checked
def plan_mfu(answer: Estimate, seconds: float) -> Document:
    """Return a measured step as MFU and HFU, and its gap to the estimate, as ``planner mfu`` does.

    Parameters
    ----------
    answer : Estimate
        The plan.
    seconds : float
        Measured time of an optimizer step. [s]

    Raises
    ------
    InputError
        If the time is not above 0.
    """
    if not 0 < seconds < float("inf"):
        raise InputError(Problem("seconds", repr(seconds), "a number above 0"))
    return mfu_document(MeasuredStep(answer, seconds))


@checked
def plan_goodput(
    answer: Estimate,
    save: float,
    restart: float,
    device_mtbf: float = SEEN_MTBF,
    interval: float | None = None,
) -> Document:
    """Return a plan where machines fail, as ``planner goodput`` does.

    Parameters
    ----------
    answer : Estimate
        The plan.
    save, restart : float
        Time for which training stops to save, and from a failure until it goes on. [s]
    device_mtbf : float
        Mean time between failures of one accelerator. [s]
    interval : float, optional
        Time of training between checkpoints; the best where not said. [s]

    Raises
    ------
    InputError
        If a time is not above 0, or failures come so often that a checkpoint is hardly ever reached.
    """
    times = {"save": save, "restart": restart, "device_mtbf": device_mtbf, "interval": interval}
    faults = [
        Problem(name, repr(value), "seconds above 0")
        for name, value in times.items()
        if value is not None and not 0 < value < float("inf")
    ]
    if faults:
        raise InputError(faults)
    told = Failing(answer, device_mtbf, save, restart, interval)
    if not told.gets_on:
        raise InputError(
            Problem("device_mtbf", f"{device_mtbf:g} s", "failures so rare that the job gets on")
        )
    return goodput_document(told)
