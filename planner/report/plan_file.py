"""Plan files: model, cluster, workload, runtime and plan in one YAML, by name with a digest of each."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from planner.calibrate.releases import named_runtime, plain_traits, release_of
from planner.dataclasses import dataclass, replace
from planner.errors import InputError, Problem, UnsupportedPlan
from planner.fields import PLAN_FORMAT
from planner.inputs.build import build
from planner.inputs.hardware import OWN_PRICE, HardwareProfile
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.model import ModelSpec
from planner.inputs.plan_document import PlanDocument
from planner.inputs.workload import Workload
from planner.inputs.yaml_file import parse_yaml, read_yaml, yaml_text
from planner.plan import Plan
from planner.registry import find
from planner.report.as_json import plan_record
from planner.report.plan_settings import settings_said, traits_with
from planner.runtimes import runtimes
from planner.runtimes.family import Job, Runtime
from planner.runtimes.settings import changed
from planner.runtimes.trait_values import expected, is_allowed
from planner.runtimes.traits import TRAITS, Traits, trait_name
from planner.runtimes.traits.former import FORMER
from planner.techniques.context import CONTEXT_METHODS
from planner.techniques.context.family import read_method
from planner.techniques.methods import METHODS
from planner.techniques.offload import OFFLOADS
from planner.techniques.offload.family import read_offload
from planner.techniques.optimizers import OPTIMIZERS
from planner.techniques.precision import PRECISIONS
from planner.techniques.recompute import RECOMPUTES
from planner.techniques.recompute.family import read_choice
from planner.techniques.schedules import SCHEDULES
from planner.techniques.schedules.engine import Pipeline, play
from planner.techniques.schedules.family import Orders, PassTimes
from planner.techniques.schedules.text import read_order
from planner.units import GIB


@dataclass(frozen=True)
class Names:
    """How the user named what a plan is for, beyond what its records say."""

    model: str
    hardware: str
    """A name that ships, or a path."""
    gpus_per_node: int | None = None
    """Accelerators of a node in use, where not all."""
    memory_limit: float | None = None
    """Device memory that may be used. [byte]"""


@dataclass(frozen=True)
class PlanFile:
    """A plan with everything that it is for.

    Parameters
    ----------
    job, runtime, plan : Job, Runtime, Plan
        As they are today.
    names : Names
        How the file names them.
    changed : tuple of str
        What differs today from what the file was written for.
    order : tuple of str, optional
        The passes of each rank, where an order was made for the plan: as `order_lines` writes them.
    """

    job: Job
    runtime: Runtime
    plan: Plan
    names: Names
    changed: tuple[str, ...]
    order: tuple[str, ...] | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """What a price of the plan is told with: what changed, and that its own order is not priced."""
        if self.order is None:
            return self.changed
        own = f"figures are those of {self.plan.schedule}; simulate plays the order that the plan holds"
        return (*self.changed, own)

    @property
    def orders(self) -> Orders | None:
        """The same as passes."""
        return None if self.order is None else plan_orders(self.plan, self.order)


def tool_version() -> str:
    """Return the version of the planner, or that it runs from its source."""
    return _version()


@cache
def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("parallelism-planner")
    except PackageNotFoundError:
        return "0+source"


def digest(record: ModelSpec | HardwareProfile | Runtime) -> str:
    """Return the SHA-256 of everything in a record that a price may depend on."""
    if isinstance(record, Runtime):
        content: Any = {"name": record.name, "traits": record.traits.flat()}
    else:
        content = record.model_dump(mode="json", exclude={"aliases", "note", "source", "published"})
    if isinstance(record, HardwareProfile):
        content = _priced_alone(content)
        content["kernels"] = [repr(pool.accelerator.kernels) for pool in record.pools]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _priced_alone(content: Any) -> Any:
    """Return a profile without the words beside a price, which no figure depends on."""
    if isinstance(content, list):
        return [_priced_alone(part) for part in content]
    if not isinstance(content, dict):
        return content
    words = ("price_seller", "price_kind")
    return {key: _priced_alone(part) for key, part in content.items() if key not in words}


def plan_yaml(job: Job, runtime: Runtime, plan: Plan, names: Names, order: str | None = None) -> str:
    """Return the text of a plan file; ``order`` has the passes of each rank in a line, where it was made."""
    plain = plain_traits(runtime, job.hardware.pool.accelerator.name, job.workload.precision)
    said, covered = settings_said(job, runtime, plain)
    traits = {name: value for name, value in changed(runtime.traits, plain).items() if name not in covered}
    cluster = {"name": placed(names.hardware), "gpus": job.gpus}
    cluster |= {"gpus_per_node": names.gpus_per_node} if names.gpus_per_node else {}
    price = job.hardware.pool.price
    if price is not None and price.source == OWN_PRICE:
        cluster["price"] = price.text
    document = {
        "format": PLAN_FORMAT,
        "version": tool_version(),
        "model": {"name": placed(names.model), "sha256": digest(job.model)},
        "hardware": cluster | {"sha256": digest(job.hardware)},
        "workload": job.workload.model_dump(mode="json", exclude_none=True),
        "runtime": {"name": runtime.name, "release": release_of(runtime).name}
        | ({"settings": said} if said else {})
        | ({"traits": traits} if traits else {})
        | {"sha256": digest(runtime)},
        "plan": {name: value for name, value in plan_record(plan).items() if value is not None},
    }
    if names.memory_limit is not None:
        document["memory_limit"] = f"{names.memory_limit / GIB!r} GiB"
    if order is not None:
        document["order"] = order.splitlines()
    return yaml_text(document)


def placed(text: str) -> str:
    """Return a name as it is, and a path so that it holds from any folder."""
    path = Path(text).expanduser()
    return str(path.resolve()) if path.exists() else text


def read_plan_file(path: Path, text: str | None = None) -> PlanFile:
    """Return what a plan file says, with the records of today.

    ``path``: a file that `plan_yaml` wrote, or that somebody wrote alike; ``text``: what stands in it, where
    it has been read already.

    Raises `InputError` if it cannot be read or is wrong, all faults at once.
    """
    where = str(path)
    content = read_yaml(path) if text is None else parse_yaml(text, where)
    if "schema" in content and "format" not in content:
        raise InputError(Problem(where, f"schema {content['schema']!r}", "a plan file, as --save writes it"))
    faults = _Faults(where)
    _check_names(content, faults)
    document = faults.attempt("", build, PlanDocument, content, where)
    if document is None:
        raise InputError(faults.problems)
    model = faults.attempt("model.name", load_model, document.model.name)
    profile = faults.attempt("hardware.name", load_hardware, document.hardware.name, "cluster")
    if profile is not None and document.hardware.gpus_per_node is not None:
        per_node = document.hardware.gpus_per_node
        profile = faults.attempt("hardware.gpus_per_node", profile.with_node_size, per_node)
    if profile is not None and document.hardware.price is not None:
        profile = profile.with_price(float(document.hardware.price))
    plan = _plan(document, faults)
    runtime = None
    if not faults.problems:
        runtime = faults.attempt("runtime.release", _runtime, document, profile, faults)
        runtime = runtime if model is None or runtime is None else runtime.for_model(model)
        model = model if model is None or runtime is None else runtime.trained(model)
    if document.order is not None and not faults.problems:
        _check_order(plan, document.order, faults)
    if faults.problems or model is None or profile is None or runtime is None:
        raise InputError(faults.problems)
    told = {
        "model": (document.model, model),
        "hardware": (document.hardware, profile),
        "runtime": (document.runtime, runtime),
    }
    changed = tuple(
        f"{part} {named.name} is not as it was when the plan was saved"
        for part, (named, record) in told.items()
        if named.sha256 and named.sha256 != digest(record)
    )
    limit = float(document.memory_limit) if document.memory_limit is not None else None
    names = Names(document.model.name, document.hardware.name, document.hardware.gpus_per_node, limit)
    job = Job(model, profile, document.hardware.gpus, Workload(**document.workload.model_dump()))
    return PlanFile(job, runtime, plan, names, changed, document.order)


def _runtime(document: PlanDocument, profile: HardwareProfile, faults: _Faults) -> Runtime:
    """Return the runtime in the release that the file names, the newest where it names none."""
    named = find(runtimes(), document.runtime.name, "runtime").name
    text = f"{named}@{document.runtime.release}" if document.runtime.release else named
    plain = named_runtime(text, profile.pool.accelerator.name, document.workload.precision)
    traits = traits_with(plain.traits, document.runtime.settings, faults.note)
    return replace(plain, traits=_traits(traits, document.runtime.traits, faults))


def plan_orders(plan: Plan, lines: Sequence[str]) -> Orders:
    """Return the passes of each rank of a plan, from a line for each rank.

    Raises `ValueError` if they are not the passes of the plan.
    """
    ranks = SCHEDULES[plan.schedule].chunk_ranks(int(plan.pp), int(plan.vpp))
    return read_order(lines, ranks, int(plan.num_microbatches))


def _check_order(plan: Plan, lines: Sequence[str], faults: _Faults) -> None:
    """Note an order that is not one of the plan's passes, or that ranks cannot run to its end."""
    schedule = SCHEDULES[plan.schedule]
    ranks = schedule.chunk_ranks(int(plan.pp), int(plan.vpp))
    try:
        orders = plan_orders(plan, lines)
        play(orders, Pipeline.uniform(ranks, PassTimes(1.0, 1.0, 1.0), schedule.routes))
    except ValueError as error:
        faults.note("order", error, "each pass of the plan once, on the rank that holds its chunk")
    except UnsupportedPlan as error:
        faults.note("order", error, "each pass after what it needs")


class _Faults:
    """Faults of one file, each with its place in it."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.problems: list[Problem] = []

    def attempt(self, key: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return what a function returns, or note what it refuses."""
        try:
            return function(*arguments)
        except InputError as error:
            for problem in error.problems:
                elsewhere = ":" in problem.where
                placed = problem if elsewhere else replace(problem, where=f"{self.where}: {key}")
                self.problems.append(placed)
            return None

    def note(self, key: str, found: object, expected: str) -> None:
        """Note a fault."""
        self.problems.append(Problem(f"{self.where}: {key}", str(found), expected))


def _check_names(content: dict[str, Any], faults: _Faults) -> None:
    """Note every unknown name of a technique or a runtime, whatever else is wrong with the file."""
    known: dict[str, dict[str, Any]] = {
        "plan": {"schedule": SCHEDULES},
        "workload": {"precision": PRECISIONS, "optimizer": OPTIMIZERS, "method": METHODS},
        "runtime": {"name": runtimes()},
    }
    for part, tables in known.items():
        section = content.get(part)
        section = section if isinstance(section, dict) else {}
        for name, table in tables.items():
            value = section.get(name)
            if isinstance(value, str):
                faults.attempt(f"{part}.{name}", find, table, value, f"{part}.{name}")


def _plan(document: PlanDocument, faults: _Faults) -> Plan:
    axes, work, gpus = document.plan, document.workload, document.hardware.gpus
    values = axes.model_dump()
    offload = faults.attempt("plan.offload", read_offload, OFFLOADS, axes.offload, "plan.offload")
    values["offload"] = offload.spelled if offload is not None else axes.offload
    context = faults.attempt("plan.cp_method", read_method, CONTEXT_METHODS, axes.cp_method, "plan.cp_method")
    values["cp_method"] = context.name if context is not None else axes.cp_method
    if not faults.problems:
        values["schedule"] = find(SCHEDULES, axes.schedule, "plan.schedule").name
    faults.attempt("plan.recompute", read_choice, dict(RECOMPUTES), axes.recompute, "plan.recompute")
    world = axes.tp * axes.pp * axes.cp * axes.dp
    if world != gpus:
        faults.note("plan", f"tp · pp · cp · dp = {world}", f"the {gpus} accelerators of hardware.gpus")
    sequences = axes.micro_batch * axes.num_microbatches * axes.dp
    if sequences != work.global_batch:
        expected = f"the {work.global_batch} sequences of workload.global_batch"
        faults.note("plan", f"micro_batch · num_microbatches · dp = {sequences}", expected)
    numbers = {name: float(value) for name, value in values.items() if type(value) is int and name != "zero"}
    return Plan(**(values | numbers))


def _traits(plain: Traits, changes: dict[str, float | bool | str], faults: _Faults) -> Traits:
    allowed: dict[str, Any] = {}
    for word, value in changes.items():
        if word in FORMER and value in FORMER[word]:
            allowed |= [FORMER[word][value]]
        elif (name := trait_name(word)) not in TRAITS:
            faults.note(f"runtime.traits.{name}", "unknown trait", f"one of {', '.join(TRAITS)}")
        elif not is_allowed(name, value):
            faults.note(f"runtime.traits.{name}", value, expected(name))
        else:
            allowed[name] = value
    return plain.with_values(**allowed)
