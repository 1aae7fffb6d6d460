"""Recompute of modules, for plans that do not fit where whole layers may not be recomputed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from planner.cost.estimate import Estimate
from planner.dataclasses import dataclass, replace
from planner.plan import Plan
from planner.rules import violations
from planner.search.assign.improve import Improver
from planner.search.candidates import Candidate, Screened, by_value
from planner.search.chunk import PricedRows
from planner.search.operators.family import SearchOperator
from planner.search.operators.split import best_of
from planner.search.scope import KEPT_WHOLE, Scope

FREED: Final = 1.5
"""Times its limit that a plan may need, to be tried. [-]"""


SPREAD: Final = Plan(dp=2.0, ep=2.0, zero=1)
"""A plan that sends tokens to experts: rules on overlap bind those alone."""


@dataclass(frozen=True)
class Granular(SearchOperator):
    """Takes plans that do not fit without recompute, those first that are fastest without it."""

    def takes(self, scope: Scope) -> bool:
        """Whether recompute is open, and what runs allows modules of a layer and no whole ones.

        Overlap of expert messages and graphs of all passes do so, for example.
        """
        if scope.by_memory or not {KEPT_WHOLE, "full"} <= set(scope.choices.recompute):
            return False
        kept, whole = (
            {one.rule for one in violations(scope.runtime.rules(replace(SPREAD, recompute=name), scope.job))}
            for name in (KEPT_WHOLE, "full")
        )
        return not whole <= kept

    def screen(self, rows: PricedRows) -> Screened | None:
        """Return the rows that need too much memory, though not by far, by what they take without."""
        passes, states = rows.names
        if passes.recompute != KEPT_WHOLE or states.domain or states.offload != rows.scope.choices.offload[0]:
            return None
        return rows.short_of_memory(FREED)

    def refine(self, bench: Improver, candidate: Candidate) -> Iterator[Estimate]:
        """Yield the plan that recomputes the fewest modules with which it is safe, at its best split."""
        found = bench.fewest_modules(replace(candidate.plan, stage_layers=bench.scan.split))
        if found is not None:
            yield best_of(replace(candidate, plan=found.plan), bench)


ENTRY = Granular("granular", turn=3.5, cost=16, order=by_value)
