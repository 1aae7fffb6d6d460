"""The usual settings, for plans that do not fit with those of the scan: buffers of overlap take memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from planner.cost.estimate import Estimate, parts_of
from planner.dataclasses import dataclass, replace
from planner.plan import Plan
from planner.search.assign.improve import Improver
from planner.search.candidates import Candidate, Screened
from planner.search.chunk import PricedRows
from planner.search.known import peak_of, priced
from planner.search.operators.family import SearchOperator
from planner.search.scope import Scope

FREED: Final = 2.0
"""Times its limit that a plan may need with the settings of the scan, to be tried. [-]"""


@dataclass(frozen=True)
class Plainer(SearchOperator):
    """Takes plans that need too much memory, those first that could be fastest."""

    def takes(self, scope: Scope) -> bool:
        """Whether the scan has other settings than the usual ones."""
        return not scope.by_memory and scope.usual is not None and scope.usual != scope.runtime

    def screen(self, rows: PricedRows) -> Screened:
        """Return the rows that need up to `FREED` times the memory there is."""
        return rows.short_of_memory(FREED)

    def supports(self, bench: Improver, candidate: Candidate) -> bool:
        """Whether the plan fits with the usual settings."""
        scope, usual = bench.scan, bench.scan.usual
        if usual is None:
            return False
        plan = _whole(candidate, scope)
        return peak_of(plan, scope.job, usual, lambda one: parts_of(one, scope.job, usual)) <= scope.limit

    def refine(self, bench: Improver, candidate: Candidate) -> Iterator[Estimate]:
        """Yield the plan with the usual settings."""
        scope = bench.scan
        if scope.usual is not None:
            found = priced(_whole(candidate, scope), scope.job, scope.usual, bench.memory_limit)
            if bench.is_offered(found):
                yield found


def _whole(candidate: Candidate, scope: Scope) -> Plan:
    return replace(candidate.plan, stage_layers=scope.split)


ENTRY = Plainer("plainer", turn=2.5, cost=1, kept=0.5)
