"""Activations on the host: as few layers as memory wants, or as many as time allows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from planner.cost.estimate import Estimate
from planner.dataclasses import dataclass, replace
from planner.search.assign.improve import Improver
from planner.search.candidates import Candidate, Screened, by_value
from planner.search.chunk import PricedRows
from planner.search.hostable import least_hosted_bytes, least_hosted_seconds
from planner.search.legality import plan_rows
from planner.search.operators.family import SearchOperator
from planner.search.scope import KEPT_WHOLE, Scope
from planner.techniques.offload import HOSTED, OFFLOADS
from planner.techniques.offload.family import read_offload


@dataclass(frozen=True)
class Host(SearchOperator):
    """Takes plans that keep all they may on the device, and do not fit; all of them where memory counts."""

    def takes(self, scope: Scope) -> bool:
        """Whether the user leaves it open, and runtime and machine can."""
        return scope.hostable is not None

    def screen(self, rows: PricedRows) -> Screened | None:
        """Return the rows that could be the best so, by what they then take or need at least."""
        (passes, states), scope = rows.names, rows.scope
        if scope.hostable is None or states.domain:
            return None
        if passes.recompute != KEPT_WHOLE or states.offload != scope.choices.offload[0]:
            return None
        slow, small = rows.bounds <= scope.within, (rows.used > scope.limit) & (rows.bounds < rows.best)
        some = np.flatnonzero(rows.legal & scope.hostable[rows.places] & (slow if scope.by_memory else small))
        if not some.size:
            return None
        plan, known = plan_rows(rows.plan, some), (rows.passes, rows.result, some)
        least = np.full(len(rows.legal), np.inf)
        if scope.by_memory:
            found = least_hosted_bytes(rows.case, plan, *known, scope.within)
            least[some] = np.where(found <= scope.limit, found, np.inf)
        else:
            least[some] = least_hosted_seconds(rows.case, plan, *known, scope.limit)
        return Screened(least, least, least < rows.best)

    def refine(self, bench: Improver, candidate: Candidate) -> Iterator[Estimate]:
        """Yield the plan with the fewest layers on the host that make it safe, or the most that are in time.

        Each layer on the host frees memory of the device and takes time. The host's own memory is a rule:
        where it cannot hold what it must, no plan is.
        """
        if (found := hosted(bench, candidate)) is not None:
            yield found

    def replaces(self, known: Estimate, found: Estimate) -> bool:
        """Whether a plan is the same but for more layers whose activations are on the host."""
        same = replace(found.plan, offload=known.plan.offload, stage_layers=known.plan.stage_layers)
        return known.plan == same and activation_layers(known) > activation_layers(found)


def hosted(bench: Improver, candidate: Candidate) -> Estimate | None:
    """Return the plan by bisection over the layers on the host; None where no number of them will do."""
    scope = bench.scan
    plan = replace(candidate.plan, stage_layers=scope.split)
    low, high, best = 1, scope.job.model.num_layers - 1, None
    while low <= high:
        middle = (low + high) // 2
        tried = replace(plan, offload=HOSTED.of(middle).spelled)
        if scope.by_memory:
            known = bench.price(tried)
            good = known.step <= scope.within and not known.violations
        else:
            good = bench.peak(tried) <= scope.limit
        best = tried if good else best
        if good == scope.by_memory:
            low = middle + 1
        else:
            high = middle - 1
    return None if best is None else bench.safe(best)


def activation_layers(known: Estimate) -> float:
    """Return the layers of each stage whose activations are on the host; 0 where that is something else."""
    return float(read_offload(OFFLOADS, known.plan.offload).layers)


ENTRY = Host("host", turn=6, cost=4, order=by_value, proves=True, rank=5)
