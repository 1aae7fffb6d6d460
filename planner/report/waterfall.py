"""Where the step of a plan goes: parts that add up, along the stage that takes longest for a micro-batch."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final

import numpy as np

from planner.cost.case import Case
from planner.cost.estimate import Estimate
from planner.cost.layer.block_cost import PricedLayer, priced_layer
from planner.cost.layer.casts import gradient_cast_seconds, input_cast_seconds
from planner.cost.layer.operators import Operator, product_curve
from planner.cost.layer.shapes import Product, Recorder
from planner.cost.stages import Piece
from planner.cost.step.parts import PlanParts
from planner.dataclasses import dataclass, replace
from planner.formulas.gemm import gemm_compute_seconds, gemm_memory_seconds, gemm_seconds
from planner.formulas.roofline import roofline_seconds
from planner.report.estimate_page import TIME_WORDS

COMPUTE_PARTS: Final = {
    "useful": "GEMMs at peak rate",
    "rate": "GEMMs: achieved rate below peak",
    "tiles": "GEMMs: tile and wave quantization",
    "memory_side": "GEMMs: memory bound",
    "launch": "GEMMs: kernel launches",
    "casts": "GEMMs: casts to low precision",
    "accumulation": "GEMMs: gradient accumulation, adapters",
    "attention": "attention kernels, below peak",
    "grouped": "GEMMs of experts or an encoder, below peak",
    "memory_bound": "norms, activations, residuals, loss",
    "host": "waiting for the host's kernel launches",
    "recompute": "recompute",
}
"""Parts of the time on the device, and what each is."""

OTHER_PARTS: Final = (
    *("tp_comm", "cp_comm", "ep_comm", "pp_comm", "bubble", "dp_comm"),
    *("optimizer", "offload", "other"),
)
"""The other parts: terms of the estimate as they are."""

MEANING: Final = COMPUTE_PARTS | {name: TIME_WORDS[name] for name in OTHER_PARTS}

ROUNDING: Final = 1e-12
"""Share of a layer's time that is left over by the rounding of sums alone. [-]"""

UNHIDDEN: Final = ("tp_exposed", "cp_exposed", "ep_exposed", "pp_exposed", "dp_exposed")
"""Traits that are 1 where no compute hides a communication."""


@dataclass(frozen=True)
class WaterfallPart:
    """One bar of the waterfall."""

    name: str
    """A key of `MEANING`."""
    seconds: float
    """What it adds to the step. [s]"""
    hidden: float = 0.0
    """What runs beside compute and adds nothing, for communication. [s]"""

    @property
    def meaning(self) -> str:
        """What it is, in words."""
        return MEANING[self.name]


@dataclass(frozen=True)
class Anatomy:
    """A priced plan taken apart: every layer with its operators, and the stage that is told."""

    answer: Estimate
    """What was priced."""

    @cached_property
    def case(self) -> Case:
        """The job and its techniques."""
        return self.answer.case

    @cached_property
    def parts(self) -> PlanParts:
        """What its ranks hold, and what each piece costs."""
        return PlanParts(self.answer.plan, self.case)

    @cached_property
    def pricers(self) -> dict[str, Recorder]:
        """One pricer for each kind of layer, with the shapes of its operators."""
        return {name: Recorder(self.case, self.answer.plan) for name, _ in self.parts.totals}

    @cached_property
    def layers(self) -> dict[str, PricedLayer]:
        """Operators and messages of each kind of layer."""
        return {name: priced_layer(pricer, name) for name, pricer in self.pricers.items()}

    def counts(self) -> dict[Piece, float]:
        """Pieces of the stage that is told. [-]"""
        return {piece: float(count[self.parts.slowest]) for piece, count in self.parts.stages.counts.items()}

    def on_stage(self, field: str) -> float:
        """Return a detail summed over the stage that is told, for a whole step."""
        return self.parts.microbatches * self.parts.on_stage(field)

    @cached_property
    def unhidden(self) -> Anatomy:
        """The same plan where no compute hides a communication."""
        runtime = self.answer.runtime
        exposed: dict[str, Any] = dict.fromkeys(UNHIDDEN, 1.0)
        return Anatomy(replace(self.answer, runtime=runtime.with_traits(**exposed)))


Parts = dict[str, float]
"""Seconds by cause. [s]"""


def operator_parts(op: Operator, shape: Product | None, case: Case) -> Parts:
    """Split the time of one operator, both passes of a micro-batch, by cause. [s]"""
    whole = float(op.forward + op.backward)
    if shape is not None:
        return _product_parts(whole, shape, op.name, case)
    if not float(op.flops):
        return {"memory_bound": whole}
    core = op.module == "core_attn"
    passes = 3.0 if core or case.method.trains_base else 2.0
    if not float(op.backward):
        passes = 1.0
    useful = passes * float(op.flops) / case.peak_rate
    return {"useful": useful, "attention" if core else "grouped": whole - useful}


def _product_parts(whole: float, shape: Product, name: str, case: Case) -> Parts:
    """Split a linear layer by the terms of its formula; what is left adds up gradients or is an adapter's."""
    curve = product_curve(case, name)
    rows, inputs, outputs = shape
    parts = dict.fromkeys(("useful", "rate", "tiles", "memory_side", "launch"), 0.0)
    products = [(rows, outputs, inputs), (rows, inputs, outputs)]
    if case.method.trains_base:
        products.append((outputs, inputs, rows))
    for m, n, k in products:
        flops = 2.0 * m * n * k
        compute = float(gemm_compute_seconds(m, n, k, curve))
        both = float(roofline_seconds(compute, gemm_memory_seconds(m, n, k, curve)))
        parts["useful"] += flops / case.peak_rate
        parts["rate"] += flops / curve.rate - flops / case.peak_rate
        parts["tiles"] += compute - flops / curve.rate
        parts["memory_side"] += both - compute
        parts["launch"] += curve.launch
        if curve.residuals is not None:
            parts["rate"] += float(gemm_seconds(m, n, k, curve)) - curve.launch - both
    casts = input_cast_seconds(case, name, rows * inputs, curve)
    parts["casts"] = float(casts + gradient_cast_seconds(case, name, rows * outputs, curve))
    parts["rate"] += sum(parts.values()) * (1.0 / case.derate - 1.0)
    parts["accumulation"] = whole - sum(parts.values())
    return parts


def compute_parts(anatomy: Anatomy) -> Parts:
    """Split the time on the device of the stage that is told, for a whole step. [s]"""
    parts = dict.fromkeys(COMPUTE_PARTS, 0.0)
    for piece, count in anatomy.counts().items():
        layer, detail = anatomy.layers[piece[0]], anatomy.parts.details[piece]
        shapes = anatomy.pricers[piece[0]].products
        times = anatomy.parts.microbatches * count
        left = float(detail.compute) - float(detail.recompute)
        parts["recompute"] += times * float(detail.recompute)
        for op in layer.operators:
            for name, seconds in operator_parts(op, shapes.get(op.name), anatomy.case).items():
                parts[name] += times * seconds
                left -= seconds
        if abs(left) > ROUNDING * float(detail.compute):
            parts["host"] += times * left
    return parts


def hidden_seconds(anatomy: Anatomy) -> Mapping[str, float]:
    """Communication of a step that runs beside compute, by its term. [s]"""
    parts, bare, time = anatomy.parts, anatomy.unhidden.parts, anatomy.answer.time
    alone = {
        f"{name}_comm": parts.microbatches * bare.on_stage(name, parts.slowest) for name in ("tp", "cp", "ep")
    }
    hops = np.broadcast_to(bare.passes.hop, (len(parts.ranks),))
    alone["pp_comm"] = parts.microbatches * float(hops[parts.slowest])
    here = parts.step
    there = bare.stepped(parts.passes)
    tail = int(np.argmax(here.data_parallel + here.optimizer + here.offload))
    alone["dp_comm"] = float(np.asarray(there.data_parallel)[tail])
    return {name: max(0.0, seconds - getattr(time, name)) for name, seconds in alone.items()}


def waterfall(anatomy: Anatomy) -> tuple[WaterfallPart, ...]:
    """Return the parts of a step in the order of `MEANING`; their seconds add up to the step."""
    compute, hidden = compute_parts(anatomy), hidden_seconds(anatomy)
    parts = [WaterfallPart(name, compute[name]) for name in COMPUTE_PARTS]
    time = anatomy.answer.time
    return (
        *parts,
        *(WaterfallPart(name, getattr(time, name), hidden.get(name, 0.0)) for name in OTHER_PARTS),
    )
