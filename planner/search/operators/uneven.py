"""Another split, for plans that do not fit with their default one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from planner.cost.estimate import Estimate
from planner.cost.layer.layer_costs import taken
from planner.dataclasses import dataclass
from planner.search.assign.improve import Improver
from planner.search.candidates import Candidate, Screened
from planner.search.chunk import PricedRows
from planner.search.legality import plan_rows
from planner.search.operators.family import SearchOperator
from planner.search.operators.split import apart, balanced
from planner.search.relaxed import is_splittable, least_bytes
from planner.search.scope import Scope


@dataclass(frozen=True)
class Uneven(SearchOperator):
    """Takes plans that fit in the mean over their stages; where memory counts, those that may need less."""

    def most(self, scope: Scope) -> int:
        """Return how many candidates it may refine: where memory counts, two splits of each are priced."""
        return super().most(scope) // (4 if scope.by_memory else 1)

    def takes(self, scope: Scope) -> bool:
        """Whether stages may differ in layers."""
        return (scope.uneven or scope.by_memory) and scope.split is None

    def screen(self, rows: PricedRows) -> Screened | None:
        """Return the rows of several stages without chunks that some split may make fit."""
        scope, case = rows.scope, rows.case
        if not is_splittable(case):
            return None
        if scope.by_memory:
            hopeful = rows.legal & (rows.bounds <= scope.within)
        else:
            worst = min(rows.best, rows.worst(self.name, self.keeps(scope)))
            hopeful = rows.legal & (rows.used > scope.limit) & (rows.bounds < worst)
        pp = np.asarray(rows.plan.pp)
        divided = (pp > 1) & (pp <= case.model.num_layers) & (np.asarray(rows.plan.vpp) == 1)
        some = np.flatnonzero(hopeful & divided)
        if not some.size:
            return None
        costs, totals = rows.pieces()
        counts = {piece: count if np.ndim(count) == 0 else count[some] for piece, count in totals.items()}  # type: ignore[index]
        own = {piece: taken(cost, some) for piece, cost in costs.items()}
        least = np.full(len(hopeful), np.inf)
        least[some] = least_bytes(case, plan_rows(rows.plan, some), own, counts)
        if scope.by_memory:
            return Screened(least, least, least <= min(rows.best, scope.limit))
        return Screened(rows.values, rows.bounds, least <= scope.limit)

    def bound(self, bench: Improver, candidate: Candidate) -> float:
        """Seconds that the best split takes at least; infinite where none fits, or bytes. [s]"""
        return candidate.bound if bench.scan.by_memory else bench.split_bound(candidate.plan)

    def refine(self, bench: Improver, candidate: Candidate) -> Iterator[Estimate]:
        """Yield the plan with its best split, where one fits; where memory counts, each split in time."""
        plan, scope = candidate.plan, bench.scan
        if scope.by_memory:
            splits = [other for make in (balanced, apart) if (other := make(plan, scope)) is not None]
            yield from filter(bench.is_offered, map(bench.price, splits))
        elif (found := bench.with_split(plan)) is not None:
            yield found


ENTRY = Uneven("uneven", turn=4, cost=0.5, kept=2.0, proves=True)
