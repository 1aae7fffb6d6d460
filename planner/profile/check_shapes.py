"""The operators of a plan's peak stage, with the shapes that they are priced for."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from planner.cost.case import Case, case_of
from planner.cost.estimate import Estimate
from planner.cost.layer.block_cost import PricedLayer, again_share, layer_cost, priced_layer
from planner.cost.layer.layer_costs import LayerCost
from planner.cost.layer.shapes import Recorder, Shape
from planner.cost.stages import Piece
from planner.cost.step.layout import choice_for, ranks_of, with_split
from planner.dataclasses import dataclass
from planner.errors import InputError, Problem
from planner.inputs.model import Experts
from planner.plan import Plan


@dataclass(frozen=True)
class CheckedPart:
    """One kind of layer, or an end of the model, on the stage."""

    name: str
    """Block, ``embedding`` or ``head``."""
    layer: PricedLayer
    """Its operators."""
    cost: LayerCost
    """Its cost under the plan's recompute choice."""
    count: float
    """How many of it the stage has. [-]"""
    repeats: Mapping[str, float]
    """Operator to how often its forward pass runs for one micro-batch. [-]"""
    shapes: Mapping[str, Shape]
    """Operator to its shape."""


def checked_case(estimate: Estimate) -> tuple[Case, Plan, list[str]]:
    """Return the case to check, in bf16 where the plan computes in fewer bits, and notes.

    Kernels are timed alone: what a training step loses beside that, its prices have and this case has not.
    """
    if estimate.job.model.diffusion is not None:
        found = f"{estimate.job.model.name}, a diffusion transformer"
        raise InputError(Problem("planner check", found, "a language model: its blocks alone have benches"))
    case = estimate.case
    job, notes = estimate.job, []
    if case.precision.quantises:
        workload = job.workload.model_copy(update={"precision": "bf16"})
        job = type(job)(job.model, job.hardware, job.gpus, workload)
        notes.append(f"products of {estimate.job.workload.precision} are compared in bf16, on both sides")
    if case.derate != 1.0:
        notes.append(f"kernels are compared alone; the step is priced at {case.derate:.1%} of their rate")
    if case.traits.kernels.fused_weight_gradient and case.method.trains_base:
        notes.append("weight gradients are added to their buffers by kernels of their own, on both sides")
    bare = {"compute_derate": 1.0 / case.pool.compute_rate, "fused_weight_gradient": False}
    case = case_of(estimate.plan, job, estimate.runtime.with_traits(**bare))
    return case, with_split(estimate.plan, case), notes


def stage_parts(case: Case, plan: Plan) -> list[CheckedPart]:
    """Return the parts of the stage with the most work for a micro-batch."""
    stages = [
        [_part(case, plan, piece, count) for piece, count in rank.items()] for rank in ranks_of(plan, case)
    ]
    return max(
        stages, key=lambda parts: sum(part.count * float(np.asarray(part.cost.seconds)) for part in parts)
    )


def _part(case: Case, plan: Plan, piece: Piece, count: float) -> CheckedPart:
    recorder = Recorder(case, plan)
    layer = priced_layer(recorder, piece[0])
    choice = choice_for(piece, case)
    products = [operator.name for operator in layer.operators if np.any(operator.flops)]
    skipped = (
        products[-1:]
        if choice.whole_layer and case.checkpointing.stops_early and not recorder.kept_attention
        else []
    )
    block = case.model.blocks.get(piece[0])
    if block is not None and isinstance(block.ffn, Experts):
        _keep_experts(recorder, block.ffn)
    if block is not None and block.recurrent is not None and block.recurrent.has_scan:
        recorder.keep("scan", "scan", seq=case.workload.seq_len, heads=block.recurrent.state_heads)
    return CheckedPart(
        name=piece[0],
        layer=layer,
        cost=layer_cost(layer, choice, recorder),
        count=float(count),
        repeats={
            operator.name: 1.0
            + (operator.name not in skipped) * float(np.asarray(again_share(operator, choice, recorder)))
            for operator in layer.operators
        },
        shapes=recorder.shapes,
    )


def _keep_experts(recorder: Recorder, ffn: Experts) -> None:
    """Keep the shapes of the grouped products, which are priced apart."""
    plan, hidden = recorder.plan, ffn.width(recorder.case.model.hidden)
    rows = recorder.shapes["permute"].sizes["elements"] / hidden
    width, local = ffn.inner / plan.etp, ffn.experts / plan.ep
    wide = 2 * width if ffn.gated else width
    for name, inputs, outputs in (("experts_in", hidden, wide), ("experts_out", width, hidden)):
        recorder.keep(name, "grouped", rows=rows, experts=local, inputs=inputs, outputs=outputs)
