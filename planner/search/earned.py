"""The lead of an answer: a plan of a kind that no measured run has must gain more than its kind's doubt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from planner.cost.estimate import Estimate
from planner.cost.kinds import unmeasured_kinds, unseen_doubt, unusual_kinds
from planner.plan import Plan
from planner.runtimes.family import Job, Runtime
from planner.search.guard import NEARLY, Guard, Key, Ranking
from planner.search.meshes import choice_of, mesh_of
from planner.search.ties import RISKY, TIE, Value

Kinds = Callable[[Plan, Job, Runtime], tuple[str, ...]]
"""Kinds of a plan that speak against it."""

DOUBTS: Final[tuple[tuple[Kinds, Callable[[float], float]], ...]] = (
    (unusual_kinds, float),
    (unmeasured_kinds, unseen_doubt),
)
"""Kinds that must earn their lead, each with what of its band a plan of them must gain, in this order."""

Led = tuple[Ranking, tuple[Estimate, ...]]
"""A ranking, and the plans that are better on paper than its first."""

NEAR: Final = 4
"""Best plans of other kinds that are played. [-]"""


def doubt_of(answer: Estimate) -> tuple[float, tuple[str, ...]]:
    """Return what a plan must gain over those without its kinds, and these; 0 where it has no such. [-]

    Without a band nothing says how much.
    """
    for kinds, doubt in DOUBTS if answer.error_band is not None else ():
        if found := kinds(answer.plan, answer.job, answer.runtime):
            return doubt(_own_band(answer)), found
    return 0.0, ()


def _own_band(answer: Estimate) -> float:
    """Return the band of a plan, less what all plans there have in common: a lender's, another's. [-]"""
    return float(answer.error_band or 0.0) / answer.band_shared


def is_backed(answer: Estimate) -> bool:
    """Whether measured runs have all kinds of a plan."""
    return not unmeasured_kinds(answer.plan, answer.job, answer.runtime)


def without(kinds: Kinds, plans: Sequence[Estimate]) -> list[Estimate]:
    """Return the plans of none of the kinds."""
    return [one for one in plans if not kinds(one.plan, one.job, one.runtime)]


Near = Callable[[Kinds], Sequence[Estimate]]
"""The best plans, the best first, that are of none of some kinds and may lead in the place of another."""


def earned(lead: Estimate, near: Near, value: Value) -> Estimate:
    """Return a plan, or where it gains too little the best without its kinds, of ties one with little risk.

    ``lead``: the best by its price; ``near``: returns plans of the same choice without some kinds.
    """
    for kinds, doubt in DOUBTS if lead.error_band is not None else ():
        others = near(kinds) if kinds(lead.plan, lead.job, lead.runtime) else ()
        if others and value(lead) * (1.0 + doubt(_own_band(lead))) >= value(others[0]):
            lead = least_risky(others, value)
    return lead


def least_risky(plans: Sequence[Estimate], value: Value) -> Estimate:
    """Return the best of some plans, or of those that tie with it one with little risk of not fitting."""
    least = min(map(value, plans)) * (1.0 + TIE)
    tied = [one for one in plans if value(one) <= least]
    return min(tied, key=lambda one: (one.oom_probability > RISKY, value(one)))


def with_earned_lead(
    ranking: Ranking, others: Sequence[Estimate], value: Value, guard: Guard, key: Key
) -> Ranking:
    """Return a ranking that is led by the best plan that earns it, of each choice one.

    ``ranking``: plans, best first, with the variants of their meshes; ``others``: all plans that may be
    shown; ``guard`` and ``key``: play plans that could lead, and rank them.
    """

    def first(best: Estimate) -> Estimate:
        own = [one for one in others if choice_of(one) == choice_of(best)]
        lead = earned(best, lambda kinds: guard.ranked(without(kinds, own), NEAR, key), value)
        if lead is not best or best is ranking.plans[0]:
            return lead
        near = [one for one in guard.ranked(own, NEAR, key) if not doubt_of(one)[1]]
        return least_risky([best, *near], value)

    if not ranking.plans or first(ranking.plans[0]) is ranking.plans[0]:
        return ranking
    return led_by(min(map(first, _first_of_choices(ranking)), key=value), ranking, value)


def on_paper(lead: Estimate, ranking: Ranking, value: Value) -> tuple[Estimate, ...]:
    """Return the plans of a ranking that are better than a lead by more than a tie."""
    least = value(lead)
    return tuple(plan for plan in ranking.plans if value(plan) * (1.0 + TIE) < least)


def not_beyond(lead: Estimate, plans: Sequence[Estimate], value: Value) -> list[Estimate]:
    """Return the plans that may stand below a lead: those no better, or without a doubt."""
    least = value(lead)
    return [one for one in plans if value(one) >= least or not doubt_of(one)[1]]


def led_by(lead: Estimate, ranking: Ranking, value: Value) -> Ranking:
    """Return a ranking of as many plans whose first is ``lead``."""
    rows = list(zip(*ranking, strict=True))
    least, own = value(lead) / (1.0 + NEARLY), tuple[Estimate, ...]()
    for row, (plan, variants) in enumerate(rows):
        if plan is lead or (mesh_of(plan) == mesh_of(lead) and value(plan) >= least):
            own = tuple(one for one in (plan, *variants) if one is not lead)
            del rows[row]
            break
    else:
        rows = [(plan, tuple(one for one in variants if one is not lead)) for plan, variants in rows]
        of_choice = Counter(choice_of(plan) for plan, _ in [(lead, own), *rows])
        last = (row for row in reversed(range(len(rows))) if of_choice[choice_of(rows[row][0])] > 1)
        del rows[next(last, -1)]
    plans, variants_of = zip((lead, own), *rows, strict=True)
    return Ranking(plans, variants_of)


def _first_of_choices(ranking: Ranking) -> Iterator[Estimate]:
    seen = set[int]()
    for plan in ranking.plans:
        if choice_of(plan) not in seen:
            seen.add(choice_of(plan))
            yield plan


def best_without(
    kinds: Kinds, lead: Estimate, plans: Sequence[Estimate], guard: Guard, key: Key
) -> Estimate | None:
    """Return the best of ``plans`` of none of the ``kinds``; None where the lead is of none."""
    if not kinds(lead.plan, lead.job, lead.runtime):
        return None
    return next(iter(guard.ranked(without(kinds, plans), 1, key)), None)
