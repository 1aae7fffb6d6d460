"""Plans whose step takes another time, played event by event, than its price says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from planner.cost.case import case_of
from planner.cost.estimate import Estimate
from planner.cost.played import MOST_PASSES, is_played
from planner.report.page import Page, significant
from planner.simulate.plan import play_plan
from planner.techniques.schedules import SCHEDULES
from planner.units import percent

FAR: Final = 0.01
"""Share of its price by which a played step is told. [-]"""

FEW_ROUNDS: Final = 4
"""Micro-batches for each stage up to which unlike stages of 1F1B can hide a part of the bubble."""


@dataclass(frozen=True)
class PlayedStep:
    """A plan's place among those shown, from 1, and its step, played. [s]"""

    rank: int
    answer: Estimate
    seconds: float

    @property
    def off(self) -> float:
        """Share by which the played step is longer than the price. [-]"""
        return self.seconds / self.answer.step - 1.0


def may_be_far(answer: Estimate) -> bool:
    """Whether a played step can be far: with few micro-batches, or an order that fills idle time."""
    plan, schedule = answer.plan, SCHEDULES[answer.plan.schedule]
    passes = 3 * schedule.routes * plan.pp * plan.vpp * plan.num_microbatches
    few = plan.schedule == "1f1b" and plan.num_microbatches <= FEW_ROUNDS * plan.pp
    case = case_of(plan, answer.job, answer.runtime)
    fills = (schedule.splits_backward or schedule.routes > 1) and not is_played(case, plan)
    return bool(plan.pp > 1 and passes <= MOST_PASSES and (fills or few))


def far_steps(answers: Sequence[Estimate]) -> tuple[PlayedStep, ...]:
    """Return the played steps of the plans whose price is far from them."""
    played = [
        PlayedStep(rank, answer, play_plan(answer.plan, answer.job, answer.runtime).step)
        for rank, answer in enumerate(answers, 1)
        if may_be_far(answer)
    ]
    return tuple(one for one in played if abs(one.off) > FAR)


def played_records(played: Sequence[PlayedStep]) -> list[Mapping[str, object]]:
    """Return what a search tells of these plans."""
    return [
        {
            "plan": one.answer.plan.slug,
            "rank": one.rank,
            "step_time_s": one.answer.step,
            "played_step_s": one.seconds,
        }
        for one in played
    ]


def played_page(played: Sequence[PlayedStep]) -> Page:
    """Return the same in words; nothing where no price is far."""
    told = [
        f"plan {one.rank} takes {significant(one.seconds)} s, {percent(abs(one.off), 1)} "
        f"{'more' if one.off > 0 else 'less'} than its price"
        for one in played
    ]
    return [f"Played event by event, {'; '.join(told)}."] if told else []
