"""The guard of a ranking: plans that would be shown are played, and ranked by that where they are far off."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from planner.cost.case import case_of
from planner.cost.estimate import Estimate
from planner.cost.replay import is_far, played_passes, played_step
from planner.plan import Plan

MOST_PLAYED: Final = 300_000
"""Passes that a search plays, all plans together: about a second. [-]"""

Key = Callable[[Estimate, float], tuple[float, float]]
"""What a ranking minimises first, and then, of a plan and its seconds."""


@dataclass
class Guard:
    """Plays plans, each once, as long as its passes last.

    Parameters
    ----------
    passes : float
        Passes that may still be played. [-]
    """

    passes: float = MOST_PLAYED
    _known: dict[tuple[Plan, int, int], float | None] = field(default_factory=dict, repr=False)

    def played(self, answer: Estimate) -> float | None:
        """Seconds of a plan's step, played; None where it cannot be played or there is no time for it. [s]"""
        key = _key(answer)
        if key not in self._known:
            case = case_of(answer.plan, answer.job, answer.runtime)
            self.passes -= played_passes(answer.plan, case)
            self._known[key] = played_step(answer) if self.passes >= 0.0 else None
        return self._known[key]

    def far(self, answer: Estimate) -> float | None:
        """Seconds of a plan's step, played, where its price is far from them; else None. [s]"""
        played = self.played(answer)
        return played if played is not None and is_far(answer.step, played) else None

    def seconds(self, answer: Estimate) -> float:
        """Seconds by which a plan is ranked: its price, unless played it takes a far other time. [s]"""
        played = self.far(answer)
        return answer.step if played is None else played

    def known_seconds(self, answer: Estimate) -> float:
        """Seconds by which a plan is ranked, where it was played already; else its price. [s]"""
        played = self._known.get(_key(answer))
        return played if played is not None and is_far(answer.step, played) else answer.step

    def ranked(self, answers: Iterable[Estimate], most: int, key: Key) -> list[Estimate]:
        """Return the ``most`` best plans, each of them played; others only if they could be among them."""
        order = count()
        heap = [(key(answer, answer.step), next(order), False, answer) for answer in answers]
        heapq.heapify(heap)
        best: list[Estimate] = []
        while heap and len(best) < most:
            _, place, settled, answer = heapq.heappop(heap)
            if settled:
                best.append(answer)
            else:
                heapq.heappush(heap, (key(answer, self.seconds(answer)), place, True, answer))
        return sorted(best, key=lambda answer: key(answer, self.seconds(answer)))


def _key(answer: Estimate) -> tuple[Plan, int, int]:
    """What tells the plans of a search apart; its jobs and runtimes live as long as it does."""
    return answer.plan, id(answer.job), id(answer.runtime)
