"""Plans whose step takes another time, played event by event, than its price says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from planner.cost.estimate import Estimate
from planner.cost.step.replay import is_far, played_step
from planner.dataclasses import dataclass
from planner.report.page import Page, significant
from planner.search.result import SearchResult
from planner.units import percent


@dataclass(frozen=True)
class PlayedStep:
    """A plan, its name among those shown, its place from 1 (0: no place), and its step, played. [s]"""

    name: str
    rank: int
    answer: Estimate
    seconds: float

    @property
    def off(self) -> float:
        """Share by which the played step is longer than the price. [-]"""
        return self.seconds / self.answer.step - 1.0


def far_steps(result: SearchResult) -> tuple[PlayedStep, ...]:
    """Return the played steps of the plans and baselines of a search whose price is far from them."""
    shown = [(f"plan {rank}", rank, answer) for rank, answer in enumerate(result.plans, 1)]
    shown += [(f"the baseline {name}", 0, answer) for name, answer in result.baselines]
    return tuple(
        PlayedStep(*row, seconds)
        for row, seconds in zip(shown, result.played, strict=True)
        if seconds is not None
    )


def far_step(answer: Estimate) -> PlayedStep | None:
    """Return the played step of one plan, where its price is far from it."""
    seconds = played_step(answer)
    far = seconds is not None and is_far(answer.step, seconds)
    return PlayedStep("the plan", 0, answer, seconds) if far and seconds is not None else None


def played_records(played: Sequence[PlayedStep]) -> list[Mapping[str, object]]:
    """Return what a search tells of these plans."""
    return [
        {
            "plan": one.answer.plan.slug,
            "rank": one.rank or None,
            "step_time_s": one.answer.step,
            "played_step_s": one.seconds,
        }
        for one in played
    ]


def played_page(played: Sequence[PlayedStep]) -> Page:
    """Return the same in words; nothing where no price is far."""
    told = [
        f"{one.name} takes {significant(one.seconds)} s, {percent(abs(one.off), 1)} "
        f"{'more' if one.off > 0 else 'less'} than its price"
        for one in played
    ]
    ranked = " Such plans are ranked by that." if any(one.rank for one in played) else ""
    return [f"Played event by event, {'; '.join(told)}.{ranked}"] if told else []
