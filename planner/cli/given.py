"""Arguments of the Python API read as the options of the commands are."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any, Final

from planner.calibrate.releases import plain_traits
from planner.cli.axes import check_offload, check_world, read_axes
from planner.cli.job import check_precision
from planner.cli.options import PlanOptions
from planner.cli.reading import Reading
from planner.cli.traits import pinned_settings
from planner.cost.estimate import Estimate
from planner.cost.settings import changed_settings
from planner.errors import nearest
from planner.inputs.hardware import OWN_PRICE
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.report.plan_file import Names, digest
from planner.runtimes._family import Job, Runtime

AXES: Final = tuple(field.name for field in fields(PlanOptions))
"""Axes of a plan that a caller may set."""

SWITCH: Final = "sequence_parallel"
"""The axis that is on or off."""


def check_limit(nbytes: float | None, reading: Reading) -> None:
    """Note a limit of memory that is none."""
    if nbytes is not None and not 0 < nbytes < math.inf:
        reading.fault("memory_limit", str(nbytes), "bytes above 0")


def as_written(value: object) -> str:
    """Return a value as an option has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def given_axes(axes: dict[str, Any], job: Job, reading: Reading) -> dict[str, Any]:
    """Return the axes of a plan as the command line reads them; faults are noted."""
    given = {name: value for name, value in axes.items() if value is not None}
    for name in [name for name in given if name not in AXES]:
        reading.fault(
            name, repr(given.pop(name)), f"an axis of a plan: {', '.join(AXES)}", nearest(name, AXES)
        )
    check_precision(job.hardware, job.workload, reading)
    if not isinstance(given.get(SWITCH, True), bool):
        reading.fault(SWITCH, repr(given.pop(SWITCH)), "True or False")
    texts: dict[str, Any] = {
        name: value if name == SWITCH else
        ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
        for name, value in given.items()
    }  # fmt: skip
    found = read_axes(PlanOptions(**texts), reading)
    check_world(found, (job.gpus,), reading)
    check_offload(found, (job.hardware,), reading)
    return found


def plan_names(answer: Estimate, model: str, hardware: str) -> Names:
    """Return the names under which a plan file finds its model and cluster again."""
    job, reading = answer.job, Reading()
    named = Names(model or job.model.name, hardware or job.hardware.name)
    known_model = reading.attempt(load_model, named.model)
    cluster = reading.attempt(load_hardware, named.hardware, "cluster")
    per_node = job.hardware.pool.gpus_per_node
    if cluster is not None and cluster.pool.gpus_per_node != per_node:
        named = replace(named, gpus_per_node=per_node)
        cluster = reading.attempt(cluster.with_node_size, per_node)
    own = job.hardware.pool.price
    if cluster is not None and own is not None and own.source == OWN_PRICE:
        cluster = cluster.with_price(float(own))
    if known_model is not None and digest(known_model) != digest(job.model):
        reading.fault("model", repr(named.model), "a name or path that loads the model of this plan")
    if cluster is not None and digest(cluster) != digest(job.hardware):
        reading.fault("hardware", repr(named.hardware), "a name or path that loads the cluster of this plan")
    reading.finish()
    visible = float(job.hardware.pool.accelerator.memory_visible)
    return replace(named, memory_limit=answer.capacity if answer.capacity < visible else None)


def check_asked(top: int, oom_risk: float, slowdown: float | None, objective: str, reading: Reading) -> None:
    """Note a number of plans, a risk that is no probability, a slowdown of no use, where they are wrong."""
    reading.count("top", str(top), most=1000)
    if not 0 < oom_risk < 1:
        reading.fault("oom_risk", str(oom_risk), "a probability between 0 and 1, such as 0.05")
    if slowdown is not None and objective != "memory":
        reading.fault("slowdown", f"objective={objective!r}", "objective='memory'")
    elif slowdown is not None and not slowdown >= 1:
        reading.fault("slowdown", str(slowdown), "a number from 1, or infinity", "1")


def pinned_by(runtimes: Iterable[Runtime], job: Job) -> tuple[str, ...]:
    """Return the settings that the workload, or the changed traits of runtimes, decide."""
    found = list(pinned_settings((), job.workload))
    for runtime in runtimes:
        plain = plain_traits(runtime, job.hardware.pool.accelerator.name, job.workload.precision)
        found += changed_settings(job, runtime, plain)
    return tuple(found)
