"""The guard of a ranking: plans that would be shown are played, and ranked by that where they are far off."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Final, NamedTuple

from planner.cost.estimate import Estimate
from planner.cost.step.replay import is_far, played_passes, played_step
from planner.plan import Plan
from planner.runtimes.family import Job, Runtime
from planner.search.meshes import Mesh, choice_of, mesh_of

MOST_PLAYED: Final = 300_000
"""Passes that a search plays, all plans together: about a second. [-]"""

VARIANTS: Final = 3
"""Further plans of one mesh that are looked at, to be named beside its best. [-]"""

NEARLY: Final = 0.01
"""Share by which a plan may be worse than the best of its mesh to be named beside it. [-]"""

Key = Callable[[Estimate, float], tuple[float, float]]
"""What a ranking minimises first, and then, of a plan and its seconds."""


class Ranking(NamedTuple):
    """Plans, best first, and for each the variants of its mesh that are nearly as good."""

    plans: tuple[Estimate, ...]
    variants: tuple[tuple[Estimate, ...], ...]


@dataclass
class Guard:
    """Plays plans, each once, as long as its passes last."""

    passes: float = MOST_PLAYED
    """Passes that may still be played. [-]"""
    _known: dict[tuple[Plan, int, int], float | None] = field(default_factory=dict, repr=False)

    def played(self, answer: Estimate) -> float | None:
        """Seconds of a plan's step, played; None where it cannot be played or there is no time for it. [s]"""
        key = _key(answer)
        if key not in self._known:
            case = answer.case
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

    def knows(self, plan: Plan, job: Job, runtime: Runtime) -> bool:
        """Whether a plan was played already."""
        return (plan, id(job), id(runtime)) in self._known

    def ranked(self, answers: Iterable[Estimate], most: int, key: Key) -> list[Estimate]:
        """Return the ``most`` best plans, each of them played; others only if they could be among them."""
        best: list[Estimate] = []
        for answer in self._in_order(answers, key):
            if len(best) == most:
                break
            best.append(answer)
        return sorted(best, key=lambda answer: key(answer, self.seconds(answer)))

    def different(self, answers: Iterable[Estimate], most: int, key: Key) -> Ranking:
        """Return plans that differ, each played: the best of each choice, then of each mesh, then any others.

        A choice is a cluster, a number of its accelerators and a runtime.

        Parameters
        ----------
        answers : iterable of Estimate
            All that were refined.
        most : int
            Plans to return, where there are so many.
        key : Key
            What the ranking minimises.

        Returns
        -------
        Ranking
            Plans, best first, with the variants of their meshes.
        """
        answers = list(answers)
        meshes = self._first_of_each(answers, most, key, mesh_of)
        found = {id(own[0]): own for own in self._first_of_each(answers, most, key, choice_of)}
        for own in meshes:
            if len(found) < most:
                found.setdefault(id(own[0]), own)
        taken = {mesh_of(own[0]): own for own in meshes}
        shown = [own[0] for own in found.values()]
        if len(shown) < most:
            known = {_axes(answer) for answer in shown}
            rest = [one for one in answers if _axes(one) not in known]
            shown += [own[0] for own in self._first_of_each(rest, most - len(shown), key, _axes)]
        shown.sort(key=lambda answer: key(answer, self.seconds(answer)))
        return Ranking(tuple(shown), tuple(self._nearly(answer, taken, shown, key) for answer in shown))

    def _first_of_each(
        self, answers: Iterable[Estimate], most: int, key: Key, kind: Callable[[Estimate], Hashable]
    ) -> list[list[Estimate]]:
        """Return the best kinds, of each its first few plans, the best first."""
        found: dict[Hashable, list[Estimate]] = {}
        for answer in self._in_order(answers, key, lambda one: len(found.get(kind(one), ())) > VARIANTS):
            if kind(answer) not in found and len(found) == most:
                break
            found.setdefault(kind(answer), []).append(answer)
        return list(found.values())

    def _nearly(
        self, answer: Estimate, found: Mapping[Mesh, list[Estimate]], shown: list[Estimate], key: Key
    ) -> tuple[Estimate, ...]:
        """Return the variants of a mesh's best plan that are nearly as good, and are not shown themselves."""
        first, *others = found.get(mesh_of(answer), [answer])
        if answer is not first:
            return ()
        least = key(answer, self.seconds(answer))[0] * (1.0 + NEARLY)
        taken = {id(one) for one in shown}
        return tuple(
            one for one in others if id(one) not in taken and key(one, self.seconds(one))[0] <= least
        )

    def _in_order(
        self, answers: Iterable[Estimate], key: Key, skip: Callable[[Estimate], bool] | None = None
    ) -> Iterator[Estimate]:
        """Yield plans, the best first by their played steps; each is played when its price comes first."""
        order = count()
        heap = [(key(answer, answer.step), next(order), False, answer) for answer in answers]
        heapq.heapify(heap)
        while heap:
            _, place, settled, answer = heapq.heappop(heap)
            if settled:
                yield answer
            elif skip is None or not skip(answer):
                heapq.heappush(heap, (key(answer, self.seconds(answer)), place, True, answer))


def _axes(answer: Estimate) -> tuple[int, Plan]:
    """What tells a plan from others in a list: its settings are no part of that."""
    return choice_of(answer), answer.plan


def _key(answer: Estimate) -> tuple[Plan, int, int]:
    """What tells the plans of a search apart; its jobs and runtimes live as long as it does."""
    return answer.plan, id(answer.job), id(answer.runtime)
