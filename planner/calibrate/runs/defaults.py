"""From a row of a run table to what can be priced: blanks filled by rules, contradictions refused."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

from pydantic import ValidationError

from planner.calibrate.eras import Era, find_era
from planner.calibrate.eras.statements import stated_traits, with_graphs
from planner.calibrate.releases import Release, era_of, find_release, named_release, releases
from planner.calibrate.runs.catalogue import Catalogue
from planner.calibrate.runs.checks import (
    Refusal,
    check_architecture,
    check_degrees,
    check_expressed,
    check_figures,
    check_links,
    check_measured,
    check_names,
    check_precision,
    check_speed,
    check_structure,
    unknown_framework,
    unknown_model,
)
from planner.calibrate.runs.conventions import Measured, measured_time
from planner.calibrate.runs.facts import Fact, with_facts
from planner.calibrate.runs.fine_tuning import fine_tuning, said_in_notes, task_of
from planner.calibrate.runs.four_bytes import in_two_bytes
from planner.calibrate.runs.hardware import links
from planner.calibrate.runs.maxtext import with_maxtext
from planner.calibrate.runs.model import architecture_defaults, lacking, run_model
from planner.calibrate.runs.networks import stated_network
from planner.calibrate.runs.plan import (
    batch_defaults,
    degree_defaults,
    expert_defaults,
    habit_defaults,
    run_plan,
    speed_defaults,
    stage_defaults,
)
from planner.calibrate.runs.spellings import spelled
from planner.calibrate.runs.table import COLUMNS, Fault, Run
from planner.cost.price import Unpriced, price
from planner.dataclasses import dataclass, replace
from planner.errors import InputError, PlannerError
from planner.inputs.hardware import HardwareProfile
from planner.inputs.layers import MAX_LAYERS
from planner.inputs.model import ModelSpec
from planner.inputs.workload import Workload, adapted_groups
from planner.plan import Plan
from planner.runtimes.family import Job, Runtime
from planner.runtimes.traits import Traits
from planner.techniques.context import CONTEXT_METHODS
from planner.techniques.context.family import read_method
from planner.techniques.optimizers import OPTIMIZERS

KERNELS: Final = {"flash-3": "the accelerator's best"}
"""Attention kernels whose name in a trait says less than a reader needs."""


PURE: Final = re.compile(r"bf16-true|\bweight_dtype[ =:]+bfloat16\b")
"""Words of LitGPT's and MaxText's for weights, gradients and optimizer states of 16 bits, without a copy."""

SIZE_ROUNDING: Final = 0.15
"""Share by which a printed size, often a label such as 7B, may differ from the model's. [-]"""


@dataclass(frozen=True)
class Skip:
    """A row that cannot be priced, with its reason."""

    id: str
    reason: str


@dataclass(frozen=True)
class PricedRun:
    """A run ready to price: what it was, as the planner's records."""

    run: Run
    """The row, blanks filled."""
    job: Job
    plan: Plan
    runtime: Runtime
    """What ran, how it was laid out, and on which software, its traits those of the era."""
    era: str
    """Name of the era."""
    task: str
    """``pretrain``, ``sft`` or ``lora``; fine-tuning packs short documents."""
    measured: Measured
    """Seconds per step and the column they come from."""
    defaults: Mapping[str, object]
    """Every value taken because the row left it blank."""
    stated: frozenset[str] = frozenset()
    """Traits that the row states, which no fitted constant replaces."""
    release: str = ""
    """The release that the row names, by its column or in the framework's text; empty where none."""


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


def prepared(rows: Iterable[Run | Fault], catalogue: Catalogue, skipped: list[Skip]) -> list[PricedRun]:
    """Return the rows that can be priced; the others go to ``skipped``."""
    ready: list[PricedRun] = []
    for row in rows:
        found = (
            Skip(row.id or f"row {row.line}", row.reason)
            if isinstance(row, Fault)
            else prepare(row, catalogue)
        )
        if isinstance(found, Skip):
            skipped.append(found)
        else:
            ready.append(found)
    return ready


def _prepared(run: Run, catalogue: Catalogue) -> PricedRun:
    start = run
    run = spelled(with_maxtext(run.with_values(said_in_notes(run))))
    run, facts = with_facts(run, catalogue.facts)
    if not run.gpu:
        raise Refusal(run, "gpu", "blank", "the accelerator")
    gpu, hardware = catalogue.clusters(run.gpu, run.gpus_per_node, run.interconnect)
    run, hardware = in_two_bytes(run.with_values({"gpu": gpu}), hardware)
    era, release = era_of_run(run)
    if era.runtime not in catalogue.runtimes:
        raise unknown_framework(run)
    framework = release.framework if release is not None and release.framework else run.framework
    tuning = f"task={task_of(run)}"
    words = " | ".join((run.model, framework, run.overlap, run.notes, tuning)).lower()
    spec = catalogue.known(run)
    check_expressed(run, spec is not None)
    run = filled(run, era, hardware, catalogue, spec)
    check_degrees(run)
    check_links(run, stated_network(run.interconnect, hardware.pool.gpus_per_node), hardware)
    check_architecture(run)
    model = catalogue.runtimes[era.runtime].trained(run_model(run, spec))
    task, tuned = fine_tuning(run, era)
    plan = run_plan(run, model, era)
    run = run.with_values(tuned)
    workload = _workload(run, era)
    job = Job(model=model, hardware=hardware, gpus=run.num_gpus or 0, workload=workload)
    check_names(run, plan)
    check_precision(run, hardware)
    check_structure(run, plan, job)
    check_figures(run, float(hardware.pool.accelerator.memory_visible))
    measured = measured_time(run, model, plan, hardware.pool.accelerator)
    check_speed(run, job, measured)
    check_measured(run, measured)
    said = stated_traits(era, words, run.flash_attn, run.fused_norm, run.gpu, bool(run.seq_parallel))
    told = release or named_release(era.runtime, run.framework)
    like = told.name if told is not None else release_like(era, run.gpu)
    runtime = catalogue.era_runtimes(era.runtime, era, workload.precision, tuple(said.items()), like)
    if start.seq_parallel is None and era.blanks.sequence_to_fit and not _fits(plan, job, runtime):
        run, plan = run.with_values({"seq_parallel": 1}), replace(plan, sequence_parallel=True)
    defaults = taken(start, run, plan, facts) | assumed(start, plan, hardware, runtime.traits, said)
    if spec is not None and catalogue.model(run.model) is None:
        defaults["model"] = spec.name
    if start.params_b and abs(model.params / (start.params_b * 1e9) - 1) > SIZE_ROUNDING:
        defaults["params_b"] = round(model.params / 1e9, 2)
    name = told.name if told is not None else ""
    if told is None and like:
        defaults["release"] = like
    return PricedRun(run, job, plan, runtime, era.name, task, measured, defaults, frozenset(said), name)


def _fits(plan: Plan, job: Job, runtime: Runtime) -> bool:
    """Whether a plan without sequence parallelism that could have it is predicted to fit."""
    if plan.sequence_parallel or plan.tp == 1:
        return True
    priced = price(plan, job, runtime)
    return isinstance(priced, Unpriced) or priced.peak <= priced.capacity


def era_of_run(run: Run) -> tuple[Era, Release | None]:
    """Return the era that prices a run, and the release that its column names.

    The column goes before the framework's text. A release that is priced as its runtime's own files run has
    the habits of the text's era, for blanks, and none of its traits.

    Raises `Refusal` if no runtime prices the framework, or it has no such release.
    """
    words = " | ".join((run.model, run.framework, run.overlap, run.notes)).lower()
    era = find_era(with_graphs(run.framework, words), run.gpu, run.flash_attn, run.zero)
    if era is None:
        raise unknown_framework(run)
    if not run.release:
        return era, None
    try:
        release = find_release(era.runtime, run.release)
    except InputError as error:
        (problem,) = error.problems
        raise Refusal(run, "release", problem.found, problem.expected, problem.nearest) from None
    if not release.framework:
        return _as_files_run(era, release.name), release
    named = find_era(with_graphs(release.framework, words), run.gpu, run.flash_attn, run.zero)
    return named or era, release


@lru_cache(maxsize=256)
def release_like(era: Era, gpu: str) -> str:
    """Return the newest release that is priced as an era on an accelerator; empty where none is."""
    known = releases().get(era.runtime)
    eras = ((one.name, era_of(one, gpu)) for one in (known.releases if known is not None else ()))
    return next((name for name, own in eras if own is not None and own.name == era.name), "")


@lru_cache(maxsize=256)
def _as_files_run(era: Era, release: str) -> Era:
    """Return an era without traits of its own, for a release that is priced as the runtime itself."""
    name = f"{era.runtime}@{release}"
    none = ("traits", "half_traits", "sequence_traits", "hopper_traits")
    return era.model_copy(update={"name": name} | {kind: {} for kind in none})


def filled(
    run: Run, era: Era, hardware: HardwareProfile, catalogue: Catalogue, spec: ModelSpec | None
) -> Run:
    """Return a run whose blanks are filled by rule, in the order in which one follows from another.

    Raises `Refusal` if a column without which nothing can be priced is blank and no rule gives it, or the
    model is unknown.
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
    if run.micro_batch is None and run.global_batch is None:
        raise Refusal(
            run, "global_batch", "blank beside micro_batch", "the sequences of a step, or of a pass"
        )
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
    stated = vars(start)
    values: dict[str, object] = {
        name: value
        for name, value in vars(run).items()
        if value is not stated[name] and value != stated[name] and name not in idle and name in COLUMNS
    }
    if start.recompute and plan.recompute not in (start.recompute, "full"):
        values["recompute"] = plan.recompute
    if plan.num_microbatches % 1:
        values["num_microbatches"] = plan.num_microbatches
    if facts:
        values["stated"] = "; ".join(fact.stated for fact in facts)
    return values


def assumed(
    start: Run, plan: Plan, hardware: HardwareProfile, traits: Traits, said: Mapping[str, object]
) -> dict[str, object]:
    """Return what a row leaves to its cluster and era: the links, the attention kernel, the norm."""
    values: dict[str, object] = {}
    if not stated_network(start.interconnect, hardware.pool.gpus_per_node).whole:
        values["interconnect"] = links(hardware)
    if "attention" not in said and not (plan.cp > 1 and read_method(CONTEXT_METHODS, plan.cp_method).kernel):
        values["flash_attn"] = KERNELS.get(traits.attention.kernel, traits.attention.kernel)
    if "fused_norm" not in said:
        values["fused_norm"] = int(traits.kernels.fused_norm)
    return values


def _workload(run: Run, era: Era) -> Workload:
    words = f"{run.notes} {run.overlap}".lower()
    pure = bool(PURE.search(words)) or (era.blanks.states == "bf16" and run.precision == "bf16")
    tuned = (run.method or "full", run.lora_rank, run.lora_targets, run.document_tokens)
    sizes = (run.seq_len or 1, run.global_batch or 1, run.precision)
    states = "bf16" if pure or "moments in bf16" in words else None
    return workload_of(sizes, tuned, _optimizer(run), (states, "bf16" if pure else None))


def _optimizer(run: Run) -> str:
    """Return the optimizer that the notes state, AdamW where they state none.

    Raises `Refusal` if they state one that the planner does not know.
    """
    notes = run.notes.lower()
    if "8-bit bitsandbytes" in notes:
        return "adam8bit"
    stated = re.search(r"(?<![\w-])optimizer=([a-z0-9]+)", notes)
    name = stated[1] if stated else "adamw"
    known = next((one for one, entry in OPTIMIZERS.items() if name in (one, *entry.aliases)), "")
    if not known:
        raise Refusal(run, "notes", f"optimizer={name}", f"one of {', '.join(OPTIMIZERS)}")
    return known


@lru_cache(maxsize=4096)
def workload_of(
    size: tuple[int, int, str],
    tuned: tuple[str, int | None, str, int | None],
    optimizer: str,
    dtypes: tuple[str | None, str | None],
) -> Workload:
    """Return the workload of a run.

    ``size`` has sequence length, batch and precision; ``tuned`` method, rank, targets and document length;
    ``dtypes`` those of optimizer states, and of masters and gradients, None for the usual ones.
    """
    states, dtype = dtypes
    seq_len, global_batch, precision = size
    method, rank, targets, document = tuned
    fields = {
        "seq_len": seq_len, "global_batch": global_batch, "precision": precision, "method": method,
        "optimizer": optimizer, "state_dtype": states, "master_dtype": dtype, "gradient_dtype": dtype,
        "document_tokens": document if document and document < seq_len else None,
    }  # fmt: skip
    if method != "full":
        fields |= {"lora_rank": rank} if rank else {}
        fields |= {"lora_targets": adapted_groups(targets) or None} if targets else {}
    return Workload.model_validate(fields)
