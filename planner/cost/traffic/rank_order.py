"""Where ranks of a group lie: stages of a pipeline apart and replicas side by side, or the other way round.

Ranks count along tp and cp first. Then come dp and pp, unless the pipeline's stages are inside
(``stages_inside``): a pipeline's ranks are neighbours then, and data parallelism spans what lies apart.

References
----------
.. [1] NVIDIA, Megatron-LM d98e8a64, ``megatron/training/initialize.py``: ``--use-tp-pp-dp-mapping`` makes the
   order ``tp-cp-ep-pp-dp`` of ``tp-cp-ep-dp-pp``.
.. [2] NVIDIA, Megatron-Bridge 067f987d, ``src/megatron/bridge/training/initialize.py``: the same of
   ``dist.use_tp_pp_dp_mapping``.
"""

from __future__ import annotations

import numpy as np

from planner.cost.case import Case
from planner.numeric import Num
from planner.plan import Plan
from planner.rules import Mask, Rule, divides
from planner.runtimes.family import Job
from planner.runtimes.traits import Traits

Order = tuple[float, float]
"""Consecutive ranks of a stage, and of a pipeline whose stages are inside; 0 where they are not. [-]"""


def data_stride(plan: Plan, traits: Traits) -> Num:
    """Distance of neighbours of a data-parallel group. [-]"""
    return plan.tp * plan.pp if traits.pipeline.stages_inside else plan.tp


def stage_order(case: Case, plan: Plan) -> Order:
    """Return where the stages of a scalar plan lie."""
    if case.traits.pipeline.stages_inside:
        return float(plan.tp * plan.cp), float(plan.tp * plan.cp * plan.pp)
    return float(case.job.gpus / plan.pp), 0.0


def order_of_degrees(case: Case, pp: float) -> Order:
    """Return the same for any plan of so many stages, as near as they may lie."""
    return (1.0, pp) if case.traits.pipeline.stages_inside else (case.job.gpus / pp, 0.0)


def order_rules(plan: Plan, case: Case) -> list[Rule]:
    """Return the rules of stages that are inside: groups whose ranks lie evenly, and one copy of a stage."""
    if not case.traits.pipeline.stages_inside:
        return []

    def rule(name: str, holds: Mask, found: str, expected: str) -> Rule:
        return Rule(f"stages-inside-{name}", holds, lambda: (f"rank_order with {found}", expected, OFF))

    return [
        rule(
            "without-context", np.equal(plan.cp, 1), f"cp {plan.cp:g}", "cp 1: its groups would lie unevenly"
        ),
        rule("dense", not case.has_experts, "experts", "none: theirs is an order of its own"),
        rule(
            "one-copy",
            case.schedule.weight_copies == 1.0,
            plan.schedule,
            "a schedule with one copy of a stage",
        ),
        rule(
            "elementwise",
            case.optimizer.matrix is None,
            case.optimizer.name,
            "an optimizer whose states are sharded by elements",
        ),
    ]


OFF = "--set rank_order=data-inside"


def island_rules(plan: Plan, job: Job, traits: Traits) -> list[Rule]:
    """Return the rules of islands: a job fills them, a stage lies in one or fills several.

    Where stages are inside it is a pipeline that does.
    """
    islands = job.hardware.pool.islands
    if islands is None or job.gpus <= islands.gpus:
        return []
    inside = traits.pipeline.stages_inside
    part = plan.tp * plan.cp * plan.pp if inside else job.gpus / plan.pp
    word = "pipelines" if inside else "stages"
    return [
        Rule(
            "islands-are-whole",
            job.gpus % islands.gpus == 0,
            lambda: (
                f"{job.gpus} accelerators in islands of {islands.gpus}",
                "whole islands",
                f"{job.gpus // islands.gpus * islands.gpus}",
            ),
        ),
        Rule(
            f"{word}-keep-to-islands",
            divides(part, islands.gpus) | (np.equal(np.mod(part, islands.gpus), 0) & (not inside)),
            lambda: (
                f"{word} of {float(part):.0f} ranks in islands of {islands.gpus}",
                "pipelines that fill an island together"
                if inside
                else "stages that fill an island together, or islands that fill a stage",
                f"pp {max(1, islands.gpus // int(plan.tp * plan.cp))}"
                if inside
                else f"pp {job.gpus // islands.gpus}",
            ),
        ),
    ]
