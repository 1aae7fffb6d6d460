"""Any split, and no more recompute than must be, of the best plans so far."""

from __future__ import annotations

from collections.abc import Iterator

from planner.cost.estimate import Estimate
from planner.dataclasses import dataclass
from planner.search.assign.improve import Improver
from planner.search.candidates import Candidate, by_value
from planner.search.operators.family import SearchOperator
from planner.search.scope import Scope


@dataclass(frozen=True)
class Assign(SearchOperator):
    """Takes plans that another operator found."""

    def takes(self, scope: Scope) -> bool:
        """Whether stages may differ."""
        return scope.uneven

    def refine(self, bench: Improver, candidate: Candidate) -> Iterator[Estimate]:
        """Yield the fastest safe plan of all splits and recompute choices that are tried."""
        if (found := bench.best(candidate.plan)) is not None:
            yield found


ENTRY = Assign("assign", turn=2, cost=50, order=by_value, follows="split", sure=True)
