"""Ties: of plans that the cost model cannot tell apart, the most careful one comes first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from planner.cost.estimate import Estimate
from planner.cost.kinds import unmeasured_kinds
from planner.plan import MESH
from planner.search.guard import Ranking
from planner.search.meshes import choice_of

TIE: Final = 0.01
"""Share of the objective within which plans are equally good. [-]"""

RISKY: Final = 0.01
"""Probability of running out of memory from which a plan that is no better comes after one below it. [-]"""

T = TypeVar("T")

Value = Callable[[Estimate], float]
"""The objective of a plan."""


def caution(answer: Estimate) -> tuple[bool, int, int]:
    """Return what speaks against a plan beside its price, the weightiest first: the least comes first.

    Its risk of running out of memory, its kinds that no measured run is of, and the axes that it uses.
    """
    plan = answer.plan
    axes = sum(float(getattr(plan, name)) > 1.0 for name in MESH)
    axes += (plan.recompute != "none") + (plan.offload != "none") + (plan.stage_layers is not None)
    return answer.oom_probability > RISKY, len(unmeasured_kinds(plan, answer.job, answer.runtime)), axes


def with_careful_lead(ranking: Ranking, *values: Value) -> Ranking:
    """Return a ranking whose first plan is the most careful of those of its choice that tie with the best.

    ``ranking``: plans, best first, with the variants of their meshes; ``values``: what was minimised, and by
    what ties in it are broken, which has ties of its own.
    """
    if not ranking.plans:
        return ranking
    best = choice_of(ranking.plans[0])
    known = [
        (row, answer)
        for row, (plan, variants) in enumerate(zip(*ranking, strict=True))
        for answer in (plan, *variants)
        if choice_of(answer) == best
    ]
    row, lead = most_careful(known, *values)
    plans, variants = list(ranking.plans), list(ranking.variants)
    own, others = plans.pop(row), variants.pop(row)
    if lead is not own:
        others = (own, *(other for other in others if other is not lead))
    return Ranking((lead, *plans), (others, *variants))


def most_careful(known: Sequence[tuple[T, Estimate]], *values: Value) -> tuple[T, Estimate]:
    """Return the most careful of the answers that tie with the best, with what stands beside it."""
    for value in values:
        least = min(value(answer) for _, answer in known) * (1.0 + TIE)
        known = [(own, answer) for own, answer in known if value(answer) <= least]
    return min(known, key=lambda one: (caution(one[1]), *(value(one[1]) for value in values)))
