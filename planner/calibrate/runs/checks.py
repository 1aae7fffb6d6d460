"""What makes a row impossible to price: unknown names, wrong degrees, speeds above the peak."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Final

from planner.calibrate.eras import eras, find_era
from planner.calibrate.runs.conventions import Measured, disagreement, peak_share
from planner.calibrate.runs.hardware import named_in
from planner.calibrate.runs.networks import Stated
from planner.calibrate.runs.table import Run
from planner.calibrate.runs.unexpressed import unexpressed
from planner.errors import InputError, PlannerError, nearest
from planner.inputs.hardware import HardwareProfile
from planner.inputs.kernels import PEAK_OF
from planner.plan import Plan
from planner.registry import find
from planner.rules import structural_rules, violations
from planner.runtimes.family import Job
from planner.techniques.offload import OFFLOADS
from planner.techniques.offload.family import read_offload
from planner.techniques.precision import PRECISIONS
from planner.techniques.recompute import RECOMPUTES
from planner.techniques.recompute.family import read_choice
from planner.techniques.schedules import SCHEDULES
from planner.units import GIB

LOOSE_RULES: Final = ("batch-divides", "stages-have-layers", "split-has-all-stages")
"""Rules that real runs bend: a smaller last micro-batch, virtual stages with only embedding or head."""
FULL: Final = 100.0
"""The whole of a rate. [%]"""
ENDS: Final = 2
"""Stages that may hold no layer: those of the embedding and the head. [-]"""


LINKS: Final = "the kind of a network, ports or a rate, such as 8x400Gb/s InfiniBand NDR; blank: as usual"
"""What may stand in the column ``interconnect``."""


class Refusal(InputError):
    """A row that cannot be priced because of one of its columns, or of a rule that several break together."""

    def __init__(
        self, run: Run, column: str, found: str, expected: str, near: str = "", what: str = "column"
    ) -> None:
        hint = f"; nearest: {near}" if near else ""
        text = f"row {run.line}, {what} {column}: found {found}; expected {expected}{hint}"
        PlannerError.__init__(self, text)
        self.problems = ()


@cache
def framework_names() -> tuple[str, ...]:
    """Return what to offer in place of a framework that nobody knows: runtimes, and eras without years."""
    names = (name for era in eras() for name in (era.runtime, re.sub(r"(-\d\d(\d\d)?)+$", "", era.name)))
    return tuple(name for name in dict.fromkeys(names) if find_era(name, "", None))


@lru_cache(maxsize=4096)
def near(word: str, choices: tuple[str, ...]) -> str:
    """Return the nearest choices; a table may have the same wrong word in each of its rows."""
    return nearest(word, choices)


def unknown_framework(run: Run) -> Refusal:
    """Return what to say of a framework that no runtime prices, or that is not named."""
    found = repr(run.framework) if run.framework else "blank"
    return Refusal(
        run,
        "framework",
        found,
        "a framework that some runtime prices",
        near(run.framework, framework_names()),
    )


def unknown_model(run: Run, blank: Sequence[str], names: tuple[str, ...]) -> Refusal:
    """Return what to say of a model that is not in the zoo and whose columns ``blank`` do not describe it."""
    expected = f"a model of the zoo, or its {', '.join(blank)}, which the row leaves blank"
    return Refusal(run, "model", repr(run.model), expected, near(run.model, names))


def check_names(run: Run, plan: Plan) -> None:
    """Refuse a run whose techniques the planner does not know.

    Raises `Refusal` if precision, schedule, offload or recompute names no technique.
    """
    for column, name, table in (
        ("precision", run.precision, PRECISIONS),
        ("schedule", plan.schedule, SCHEDULES),
    ):
        if name not in table and not any(name in entry.aliases for entry in table.values()):
            raise Refusal(run, column, repr(name), f"one of {', '.join(table)}", nearest(name, table))
    read_choice(dict(RECOMPUTES), plan.recompute, f"row {run.line}, column recompute")
    read_offload(OFFLOADS, plan.offload, f"row {run.line}, column offload")


def check_precision(run: Run, hardware: HardwareProfile) -> None:
    """Refuse a run in a number format that its accelerator does not compute in.

    Raises `Refusal` with the formats that it has.
    """
    recipe = find(PRECISIONS, run.precision, f"row {run.line}, column precision")
    rates = hardware.pool.accelerator.peak
    if recipe.peak not in rates or not set(PEAK_OF[recipe.linear]) & set(rates):
        found = f"{run.precision!r} on {run.gpu}"
        raise Refusal(run, "precision", found, f"a format that it computes in: {', '.join(sorted(rates))}")


def check_degrees(run: Run) -> None:
    """Refuse a run whose degrees do not make up its cluster, or leave stages without a layer.

    Raises `Refusal` with the product, or the stages.
    """
    degrees = {name: int(getattr(run, name)) for name in ("tp", "pp", "cp", "dp")}
    world = math.prod(degrees.values())
    if world != run.num_gpus:
        product = " · ".join(f"{name} {value}" for name, value in degrees.items())
        raise Refusal(
            run, "num_gpus", f"{run.num_gpus} but {product} = {world}", "degrees that multiply to it"
        )
    stages = degrees["pp"] * (run.vpp or 1)
    if stages > (run.num_layers or 0) + ENDS:
        found = f"{degrees['pp']} · vpp {run.vpp} stages for {run.num_layers} layers"
        raise Refusal(run, "pp", found, "a layer for each stage, embedding and head counted")


def check_links(run: Run, stated: Stated, hardware: HardwareProfile) -> None:
    """Refuse a run beyond its fast links of whose interconnect nothing is understood.

    Raises `Refusal` with the words that mean nothing known.
    """
    if stated.known or named_in(run.interconnect, hardware):
        return
    if (run.num_gpus or 1) <= hardware.pool.scaleup_domain:
        return
    raise Refusal(run, "interconnect", repr("; ".join(stated.strange)), LINKS)


def check_expressed(run: Run, known: bool) -> None:
    """Refuse a run of an architecture that no model record expresses, as `planner models import` does.

    Raises `Refusal` with what cannot be expressed.
    """
    if reason := unexpressed(run.model, run.notes, known):
        found = f"{run.model!r} with {reason}"
        raise Refusal(run, "model", found, "a model and a step that can be expressed exactly")


def check_architecture(run: Run) -> None:
    """Refuse a run whose architecture columns contradict each other.

    Raises `Refusal` with the column, and what it would have to be.
    """
    heads, groups, experts, layers = run.heads or 1, run.kv_heads or 1, run.experts or 0, run.num_layers or 0
    if heads % groups:
        raise Refusal(run, "kv_heads", str(groups), f"a divisor of {heads} heads")
    if experts and (run.topk or 0) > experts:
        raise Refusal(run, "topk", str(run.topk), f"at most {experts} experts")
    if experts and (run.n_moe_layers or 0) > layers:
        raise Refusal(run, "n_moe_layers", str(run.n_moe_layers), f"at most {layers} layers")


def check_structure(run: Run, plan: Plan, job: Job) -> None:
    """Refuse a run whose batch or experts do not divide.

    Raises `Refusal` with the rule that is broken, what stands there and what would be right.
    """
    found = f"{run.global_batch} over micro-batch {run.micro_batch} · dp {run.dp}"
    if plan.num_microbatches < 1:
        raise Refusal(run, "global_batch", found, "at least one micro-batch")
    if plan.pp > 1 and plan.num_microbatches % 1:
        raise Refusal(run, "global_batch", found, "a whole number of micro-batches, since pp is above 1")
    if plan.cp * plan.dp % plan.zero_shards and run.zero.startswith("hsdp"):
        raise Refusal(run, "zero", repr(run.zero), f"shards that divide dp {run.dp} · cp {run.cp}")
    for violation in violations(structural_rules(plan, job.model, job.workload, job.gpus)):
        if violation.rule not in LOOSE_RULES:
            raise Refusal(run, violation.rule, violation.found, violation.expected, what="rule")


SLACK: Final = 1.25
"""Device memory that a source may print over what the accelerator shows: GB for GiB, and odd rows. [-]"""


def check_figures(run: Run, capacity: float) -> None:
    """Refuse a run that prints more than all of its accelerator's rate or memory.

    Raises `Refusal` with the figure and its limit.
    """
    for column in ("mfu_pct", "hfu_pct"):
        share = getattr(run, column)
        if share is not None and share > FULL:
            raise Refusal(run, column, f"{share:g}", "at most 100% of the peak")
    if run.peak_mem_gib is not None and run.peak_mem_gib * GIB > SLACK * capacity:
        limit = f"what a {run.gpu} has, {capacity / GIB:.0f} GiB"
        raise Refusal(run, "peak_mem_gib", f"{run.peak_mem_gib:g}", limit)


def check_speed(run: Run, job: Job, measured: Measured) -> None:
    """Refuse a run whose speeds contradict each other or the accelerator's peak.

    Raises `Refusal` with both values.
    """
    if clash := disagreement(run):
        raise Refusal(run, "step_time_s", clash, "speeds that agree within 10%")
    if measured.seconds is None:
        return
    trained = 2 / 3 if job.workload.method != "full" else 1.0
    share = peak_share(job.model, run, measured.seconds, job.hardware.pool.accelerator, trained)
    if share > 1:
        text = f"{measured.seconds:.4g} s ({share:.0%} of the {run.gpu}'s dense {run.precision} peak)"
        raise Refusal(run, measured.basis, text, "at most 100% of the peak")


def check_measured(run: Run, measured: Measured) -> None:
    """Refuse a run whose only figure is a rate of which nobody says what it counts.

    Raises `Refusal` with the column that would say it.
    """
    if measured.seconds is not None or run.peak_mem_gib is not None or run.oom is not None:
        return
    column = "tflops_per_gpu" if run.tflops_per_gpu else "mfu_pct"
    found = f"{run.flops_convention!r} beside {column}" if run.flops_convention else f"blank beside {column}"
    raise Refusal(run, "flops_convention", found, "which FLOPs it counts, since the row has no other measure")
