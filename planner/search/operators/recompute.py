"""Less recompute, for plans that recompute because nothing else fits."""

from __future__ import annotations

import numpy as np

from planner.cost.kinds import RECOMPUTED
from planner.dataclasses import dataclass, replace
from planner.search.assign.improve import Improver
from planner.search.candidates import Candidate, Screened, by_value
from planner.search.chunk import PricedRows
from planner.search.operators.assign import Assign
from planner.search.scope import KEPT_WHOLE, Scope


@dataclass(frozen=True)
class LessRecompute(Assign):
    """Takes plans that do not fit without recompute, those first that are to be fastest with less."""

    def takes(self, scope: Scope) -> bool:
        """Whether plans may recompute less than their names say, as far as memory allows."""
        return scope.uneven and {KEPT_WHOLE, "full"} <= set(scope.choices.recompute)

    def screen(self, rows: PricedRows) -> Screened | None:
        """Return the safe rows that are not safe without recompute, by the time to expect with less."""
        if rows.names[1].domain:
            return None
        if rows.names[0].recompute == KEPT_WHOLE:
            unsafe = rows.legal & ~(rows.used <= rows.scope.limit)
            rows.squeezed.add(rows.names, rows.places, rows.result, unsafe & (rows.bounds < rows.best))
            return None
        found = rows.squeezed.expected(rows.names, rows.places, rows.result, rows.scope.limit)
        if found is None:
            return None
        expected, bounds = found
        return Screened(expected, bounds, np.asarray(rows.safe & (bounds < rows.best)))

    def supports(self, bench: Improver, candidate: Candidate) -> bool:
        """Whether fewer layers may recompute, and none that differs in recompute alone was assigned."""
        plain = replace(candidate.plan, recompute=KEPT_WHOLE)
        return plain not in bench.assigned and bool(bench.counted(candidate.plan))


ENTRY = LessRecompute("recompute", turn=3, cost=21, kept=0.25, order=by_value, sheds=(RECOMPUTED,))
