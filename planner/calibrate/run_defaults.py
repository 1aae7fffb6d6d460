"""From a row of a run table to what can be priced: blanks filled by rules, contradictions refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Final

from pydantic import ValidationError

from planner.calibrate.conventions import Measured, measured_time
from planner.calibrate.era import Era
from planner.calibrate.era_statements import era_traits, stated_traits
from planner.calibrate.eras import find_era
from planner.calibrate.packing import DOCUMENT, packed
from planner.calibrate.run_checks import (
    MAX_LAYERS,
    Refusal,
    check_architecture,
    check_degrees,
    check_figures,
    check_measured,
    check_names,
    check_precision,
    check_speed,
    check_structure,
    unknown_framework,
    unknown_model,
)
from planner.calibrate.run_hardware import links, network_name, run_cluster
from planner.calibrate.run_model import BySize, Named, architecture_defaults, known_model, lacking, run_model
from planner.calibrate.run_plan import (
    batch_defaults,
    degree_defaults,
    expert_defaults,
    habit_defaults,
    run_plan,
    speed_defaults,
    stage_defaults,
)
from planner.calibrate.run_spellings import spelled
from planner.calibrate.run_table import COLUMNS, Run
from planner.errors import PlannerError
from planner.inputs.hardware import HardwareProfile, Network
from planner.inputs.model import ModelSpec
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.runtimes._family import Job, Runtime
from planner.runtimes._traits import Traits

KERNELS: Final = {"flash-3": "the accelerator's best"}
"""Attention kernels whose name in a trait says less than a reader needs."""


SIZE_ROUNDING: Final = 0.15
"""Share by which a printed size, often a label such as 7B, may differ from the model's. [-]"""


@dataclass(frozen=True)
class Fact:
    """What a source states about its runs outside the table.

    Parameters
    ----------
    source : str
        The source's key.
    where : mapping
        Column to the text that a row must have; empty means blank, ``> 160`` a number above 160, and ``~``
        begins a regular expression.
    values : mapping
        Column to value, taken where the column is blank.
    stated : str
        Where it is stated.
    assumed : bool
        Whether it is inferred, so that rows with it are scored apart.
    replaces : bool
        Whether it corrects a column that the row fills.
    """

    source: str
    where: Mapping[str, str]
    values: Mapping[str, object]
    stated: str
    assumed: bool = False
    replaces: bool = False

    def holds(self, run: Run) -> bool:
        """Whether the fact is about this run."""
        return run.source == self.source and all(
            _meets(getattr(run, column), text) for column, text in self.where.items()
        )


def _meets(value: object, text: str) -> bool:
    if text.startswith(">"):
        return isinstance(value, (int, float)) and value > float(text[1:])
    found = str(value or "")
    return bool(re.search(text[1:], found)) if text.startswith("~") else found == text


@dataclass(frozen=True)
class Catalogue:
    """Where runs find what the planner ships: clusters, networks, models, runtimes and facts.

    Parameters
    ----------
    cluster : callable
        Accelerator name and node size, where stated, to its canonical name and a usual cluster; raises
        `InputError` for an unknown one.
    network : callable
        Network kind by name, None where there is none.
    model : callable
        Model of the zoo by the name in a table, None where there is none.
    runtimes : mapping
        Runtimes by name.
    facts : mapping
        Facts of each source.
    model_names : tuple of str
        Names and aliases of the zoo's models.
    zoo : callable
        Models of the zoo by their size.
    """

    cluster: Callable[[str, int | None], tuple[str, HardwareProfile]]
    network: Callable[[str], Network | None]
    model: Named
    runtimes: Mapping[str, Runtime]
    facts: Mapping[str, tuple[Fact, ...]]
    model_names: tuple[str, ...] = ()
    zoo: Callable[[], BySize] = dict

    @cached_property
    def clusters(self) -> Callable[[str, int | None, str], tuple[str, HardwareProfile]]:
        """Cluster of an accelerator, node size and interconnect text; equal ones are the same record."""

        @lru_cache(maxsize=1024)
        def found(gpu: str, gpus_per_node: int | None, interconnect: str) -> tuple[str, HardwareProfile]:
            name, usual = self.cluster(gpu, gpus_per_node)
            if name != gpu:
                return found(name, gpus_per_node, interconnect)
            size = gpus_per_node or usual.pool.gpus_per_node
            return name, run_cluster(usual, size, interconnect, self.network)

        return found

    def known(self, run: Run) -> ModelSpec | None:
        """Return the model of the zoo that a run trains, None where there is none."""
        return known_model(run, self.model, self.zoo)

    @cached_property
    def era_runtimes(self) -> Callable[[str, Era, str, tuple[tuple[str, object], ...]], Runtime]:
        """Runtime as it was in an era; equal ones are the same record."""

        @lru_cache(maxsize=1024)
        def found(name: str, era: Era, precision: str, said: tuple[tuple[str, object], ...]) -> Runtime:
            runtime = self.runtimes[name]
            return replace(runtime, traits=era_traits(runtime.traits, era, precision, dict(said)))

        return found


@dataclass(frozen=True)
class Skip:
    """A row that cannot be priced, with its reason."""

    id: str
    reason: str


@dataclass(frozen=True)
class PricedRun:
    """A run ready to price: what it was, as the planner's records.

    Parameters
    ----------
    run : Run
        The row, blanks filled.
    job, plan, runtime : Job, Plan, Runtime
        What ran, how it was laid out, and on which software, its traits those of the era.
    era : str
        Name of the era.
    task : str
        ``pretrain``, ``sft`` or ``lora``; fine-tuning packs short documents.
    measured : Measured
        Seconds per step and the column they come from.
    defaults : mapping
        Every value taken because the row left it blank.
    stated : set of str
        Traits that the row states, which no fitted constant replaces.
    """

    run: Run
    job: Job
    plan: Plan
    runtime: Runtime
    era: str
    task: str
    measured: Measured
    defaults: Mapping[str, object]
    stated: frozenset[str] = frozenset()


def in_row(run: Run, reason: str) -> str:
    """Return a reason with the row that it is about."""
    return reason if reason.startswith("row ") else f"row {run.line}, {reason}"


def without_row(reason: str) -> str:
    """Return a reason without its row, so that equal ones can be counted.

    Examples
    --------
    >>> without_row("row 7, column tp: found 'x'"), without_row("row 8: neither")
    ("column tp: found 'x'", 'neither')
    """
    return re.sub(r"^row \d+[,:] ", "", reason)


def prepare(run: Run, catalogue: Catalogue) -> PricedRun | Skip:
    """Return a run ready to price, or the reason why it cannot be priced."""
    speeds = (run.step_time_s, run.tokens_per_s_per_gpu, run.tflops_per_gpu, run.mfu_pct)
    if not any((*speeds, run.peak_mem_gib)) and run.oom is None:
        return Skip(run.id, f"row {run.line}: neither time, memory nor outcome")
    try:
        return _prepared(run, catalogue)
    except PlannerError as error:
        return Skip(run.id, in_row(run, str(error)))
    except ValidationError as error:
        first = error.errors()[0]
        return Skip(run.id, f"row {run.line}: the columns make no model: {first['loc']}: {first['msg']}")


def _prepared(run: Run, catalogue: Catalogue) -> PricedRun:
    start = run
    run, facts = with_facts(spelled(run), catalogue)
    if not run.gpu:
        raise Refusal(run, "gpu", "blank", "the accelerator")
    gpu, hardware = catalogue.clusters(run.gpu, run.gpus_per_node, run.interconnect)
    run = run.with_values({"gpu": gpu})
    era = find_era(run.framework, gpu, run.flash_attn, run.zero)
    if era is None or era.runtime not in catalogue.runtimes:
        raise unknown_framework(run)
    spec = catalogue.known(run)
    run = filled(run, era, hardware, catalogue, spec)
    check_degrees(run)
    check_architecture(run)
    model = run_model(run, spec)
    task, workload = _workload(run)
    plan = run_plan(run, model, era)
    packs = era.packs and task != "pretrain"
    seen = packed(model) if packs else model
    job = Job(model=seen, hardware=hardware, gpus=run.num_gpus or 0, workload=workload)
    check_names(run, plan)
    check_precision(run, hardware)
    check_structure(run, plan, job)
    check_figures(run, float(hardware.pool.accelerator.memory_visible))
    measured = measured_time(run, model, plan, hardware.pool.accelerator)
    check_speed(run, job, measured)
    check_measured(run, measured)
    words = " | ".join((run.model, run.framework, run.overlap, run.notes)).lower()
    said = stated_traits(era, words, run.flash_attn, run.fused_norm, run.gpu, bool(run.seq_parallel))
    runtime = catalogue.era_runtimes(era.runtime, era, workload.precision, tuple(said.items()))
    defaults = taken(start, run, plan, facts) | assumed(start, hardware, runtime.traits, said)
    if spec is not None and catalogue.model(run.model) is None:
        defaults["model"] = spec.name
    if packs:
        defaults["document_tokens"] = DOCUMENT
    if start.params_b and abs(model.params / (start.params_b * 1e9) - 1) > SIZE_ROUNDING:
        defaults["params_b"] = round(model.params / 1e9, 2)
    return PricedRun(run, job, plan, runtime, era.name, task, measured, defaults, frozenset(said))


def with_facts(run: Run, catalogue: Catalogue) -> tuple[Run, tuple[Fact, ...]]:
    """Return a run with its blanks filled by what its source states elsewhere, and those facts."""
    facts = tuple(fact for fact in catalogue.facts.get(run.source, ()) if fact.holds(run))
    values: dict[str, object] = {
        column: value
        for fact in facts
        for column, value in fact.values.items()
        if fact.replaces or getattr(run, column) in (None, "")
    }
    if any(fact.assumed for fact in facts) and not run.mark:
        values["mark"] = "accelerator not stated"
    return run.with_values(values), facts


def filled(
    run: Run, era: Era, hardware: HardwareProfile, catalogue: Catalogue, spec: ModelSpec | None
) -> Run:
    """Return a run whose blanks are filled by rule, in the order in which one follows from another.

    Raises
    ------
    Refusal
        If a column without which nothing can be priced is blank and no rule gives it, or the model is
        unknown.
    """
    run = run.with_values({} if run.gpus_per_node else {"gpus_per_node": hardware.pool.gpus_per_node})
    run = run.with_values(degree_defaults(run, era))
    for name in ("num_gpus", "tp", "pp", "dp"):
        if getattr(run, name) is None:
            raise Refusal(run, name, "blank", "a degree: it does not follow from the others")
    run = run.with_values(architecture_defaults(run, spec))
    run = run.with_values(expert_defaults(run, era, hardware.pool.node.scaleup.domain))
    run = run.with_values(speed_defaults(run))
    run = run.with_values(batch_defaults(run))
    blank = lacking(run)
    shape = tuple(name for name in blank if name != "seq_len")
    if shape and run.model and spec is None and catalogue.model(run.model) is None:
        raise unknown_model(run, shape, catalogue.model_names)
    for name in (*blank, "micro_batch", "global_batch"):
        if getattr(run, name) is None:
            raise Refusal(run, name, "blank", "a value: it does not follow from the others")
    if (run.num_layers or 0) > MAX_LAYERS:
        raise Refusal(run, "num_layers", str(run.num_layers), f"at most {MAX_LAYERS}")
    run = run.with_values(stage_defaults(run, era))
    return run.with_values(habit_defaults(run, era))


def taken(start: Run, run: Run, plan: Plan, facts: tuple[Fact, ...]) -> dict[str, object]:
    """Return every value that a row did not state and that matters for it, by the name of its column."""
    idle = {"mark"}
    idle |= {"ep", "etp"} if not run.experts else set()
    idle |= {"cp_method"} if run.cp == 1 else set()
    idle |= {"schedule", "vpp"} if run.pp == 1 else set()
    idle |= {"seq_parallel"} if run.tp == 1 else set()
    values: dict[str, object] = {
        name: getattr(run, name)
        for name in COLUMNS
        if getattr(start, name) != getattr(run, name) and name not in idle
    }
    if start.recompute and plan.recompute not in (start.recompute, "full"):
        values["recompute"] = plan.recompute
    if plan.num_microbatches % 1:
        values["num_microbatches"] = plan.num_microbatches
    if facts:
        values["stated"] = "; ".join(fact.stated for fact in facts)
    return values


def assumed(
    start: Run, hardware: HardwareProfile, traits: Traits, said: Mapping[str, object]
) -> dict[str, object]:
    """Return what a row leaves to its cluster and era: the links, the attention kernel, the norm."""
    values: dict[str, object] = {}
    if not network_name(start.interconnect):
        values["interconnect"] = links(hardware)
    if "attention" not in said:
        values["flash_attn"] = KERNELS.get(traits.attention, traits.attention)
    if "fused_norm" not in said:
        values["fused_norm"] = int(traits.fused_norm)
    return values


def _workload(run: Run) -> tuple[str, Workload]:
    notes = run.notes.lower()
    task = next((kind for kind in ("lora", "sft") if f"task={kind}" in notes), "pretrain")
    pure = "bf16-true" in notes
    return task, workload_of(
        run.seq_len or 1, run.global_batch or 1, run.precision, "lora" if task == "lora" else "full",
        "adam8bit" if "8-bit bitsandbytes" in notes else "adamw", pure,
    )  # fmt: skip


@lru_cache(maxsize=4096)
def workload_of(
    seq_len: int, global_batch: int, precision: str, method: str, optimizer: str, pure: bool
) -> Workload:
    """Return the workload of a run; ``pure`` keeps weights and optimizer states in bf16 alone."""
    dtype = "bf16" if pure else None
    return Workload.model_validate(
        {"seq_len": seq_len, "global_batch": global_batch, "precision": precision, "method": method,
         "optimizer": optimizer, "state_dtype": dtype, "master_dtype": dtype, "gradient_dtype": dtype}
    )  # fmt: skip
