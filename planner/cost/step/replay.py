"""The guard of the closed forms: a priced plan's step, played event by event in boundedly many passes."""

from __future__ import annotations

from typing import Final

import numpy as np

from planner.cost.case import Case
from planner.cost.estimate import Estimate
from planner.cost.step.layout import split_of
from planner.cost.step.parts import PlanParts
from planner.cost.step.played import (
    MOST_PLAYED_PASSES,
    chunk_pieces,
    chunk_pipeline,
    mean_times,
    message_seconds,
)
from planner.dataclasses import replace
from planner.errors import UnsupportedPlan
from planner.numeric import Column
from planner.plan import Plan
from planner.techniques.schedules.engine import Timeline, play

FAR: Final = 0.02
"""Share of its price by which a played step is told, and ranked by. [-]"""

MOST_ROUNDS: Final = 4
"""Micro-batches for each stage up to which a step is played. [-]"""


def step_passes(plan: Plan, case: Case) -> float:
    """Passes that all ranks of a scalar plan run in a step. [-]"""
    return float(3.0 * case.schedule.routes * plan.pp * plan.vpp * plan.num_microbatches)


def is_far(price: float, played: float) -> bool:
    """Whether a played step is so far from its price that the plan is ranked by it. [s]"""
    return abs(played / price - 1.0) > FAR


def shortened(plan: Plan, case: Case) -> Plan | None:
    """Return the plan with as many micro-batches as are played, of the same rest over the stages.

    None where even one round of the pipeline is more than `MOST_PLAYED_PASSES`.
    """
    for rounds in range(MOST_ROUNDS, 0, -1):
        count = rounds * plan.pp + float(np.mod(plan.num_microbatches, plan.pp))
        few = plan if plan.num_microbatches <= count else replace(plan, num_microbatches=count)
        if step_passes(few, case) <= MOST_PLAYED_PASSES:
            return few
    return None


def played_passes(plan: Plan, case: Case) -> float:
    """Passes that are played to play a plan's step. [-]"""
    few = shortened(plan, case) if plan.pp > 1 and not PlanParts(plan, case).is_played else None
    return step_passes(few, case) if few is not None else 0.0


def played_step(known: Estimate) -> float | None:
    r"""Seconds of a priced plan's step, played event by event; None where it is too long or cannot be played.

    .. math:: t = t_{price} + \tilde t(m') - t_{price}(m'), \quad m' \le 4 p

    Of many micro-batches the first four rounds are played: each further one adds the slowest stage's time to
    both. In two directions a rank holds the stages of two, and each further one adds what the third and the
    fourth round add. [s]

    Parameters
    ----------
    known : Estimate
        The plan, priced.

    References
    ----------
    .. [1] D. Narayanan et al., arXiv:2104.04473, 2021, sec. 2.2: the bubble does not grow with the
       micro-batches.
    """
    case = known.case
    plan = known.plan
    if plan.pp == 1 or PlanParts(plan, case).is_played:
        return known.step
    few = shortened(plan, case)
    if few is None or len(split_of(plan, case)) != int(plan.pp * plan.vpp):
        return None
    off = _off(few, case)
    left = float(plan.num_microbatches - few.num_microbatches)
    if off is None or not left or case.schedule.routes == 1:
        return None if off is None else known.step + off
    rounds = 2.0 * float(plan.pp)
    if few.num_microbatches <= rounds:
        return None
    before = _off(replace(few, num_microbatches=few.num_microbatches - rounds), case)
    return None if before is None else float(known.step + off + (off - before) * left / rounds)


def _off(plan: Plan, case: Case) -> float | None:
    """Seconds by which a step is longer played than by its closed form; None where it cannot run. [s]"""
    degrees = plan.pipeline
    if case.schedule.supports(*degrees):
        return None
    parts = PlanParts(plan, case)
    chunks = chunk_pieces(plan, case)
    pipeline = chunk_pipeline(plan, case, chunks, parts.costs, message_seconds(plan, case))
    try:
        timeline = play(case.schedule.order(*degrees, mean_times(pipeline)), pipeline)
    except UnsupportedPlan:
        return None
    tails = rank_tails(parts)
    return step_span(timeline, tails, case) - float(parts.passes.busy) - float(tails.max())


def rank_tails(parts: PlanParts) -> Column:
    """Seconds of each rank after its passes: traffic, optimizer and its offload. [s]"""
    step = parts.step
    tails = np.asarray(step.data_parallel + step.optimizer + step.offload, float)
    return np.broadcast_to(tails, (int(parts.plan.pp),))


def step_span(timeline: Timeline, tails: Column, case: Case) -> float:
    """Seconds from step to step: the longest span of a rank, where ranks need not wait for all. [s]"""
    if not case.pipeline_code.ends_apart:
        return float(timeline.makespan + tails.max())
    starts = np.array([starts[0] if starts else timeline.makespan for starts in timeline.starts])
    return float(np.max(timeline.makespan + tails - starts))
