"""Optimizer states on the host: no greater a share than memory wants."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from planner.cost.case import Case, case_of
from planner.cost.estimate import Estimate, floor_seconds
from planner.cost.memory.reserve import needed_share
from planner.cost.step.parts import PlanParts
from planner.cost.step.step import StepPrice
from planner.dataclasses import dataclass, replace
from planner.numeric import Column
from planner.plan import Plan
from planner.search.assign.improve import Improver
from planner.search.candidates import Candidate, Screened, by_value
from planner.search.chunk import PricedRows
from planner.search.legality import obeying, plan_rows
from planner.search.operators.family import SearchOperator
from planner.search.operators.split import other_splits
from planner.search.scope import Scope
from planner.search.tables import Rows
from planner.techniques.engines.zero_gradients import NORM_BYTES
from planner.techniques.offload import OFFLOADS
from planner.techniques.offload.family import read_offload

WHOLE = "optimizer"
"""All states on the host, of which a share may stay."""

STEPS = 50
"""Shares that are told apart: a fiftieth each."""


@dataclass(frozen=True)
class Share(SearchOperator):
    """Takes plans with all optimizer states on the host that leave room on the device."""

    def takes(self, scope: Scope) -> bool:
        """Whether the user leaves it open, and the runtime has it."""
        return not scope.by_memory and len(scope.choices.offload) > 1 and WHOLE in scope.choices.offload

    def screen(self, rows: PricedRows) -> Screened | None:
        """Return the safe rows that could be the best with less on the host, by what they take at least.

        Those with room for all states need none of it there.
        """
        if not self.takes(rows.scope) or rows.names[1].offload != WHOLE or rows.names[1].domain:
            return None
        spared = spared_seconds(rows.case, rows.result, rows.scope.limit)
        most = most_freed_bytes(rows.case, rows.result)
        needed = np.asarray(rows.result.total_bytes) + most > rows.scope.limit
        some = np.flatnonzero(rows.safe & needed & (rows.bounds - spared < rows.best))
        if not some.size:
            return None
        legal = np.zeros(len(rows.legal), dtype=bool)
        legal[some] = _divisible(rows, some)
        return Screened(rows.values - spared, rows.bounds - spared, legal)

    def bound(self, bench: Improver, candidate: Candidate) -> float:
        """Seconds that a candidate takes at least under the splits that are tried, however played. [s]"""
        return min(_least_seconds(plan, bench.scan) for plan in _splits(candidate.plan, bench.scan))

    def refine(self, bench: Improver, candidate: Candidate) -> Iterator[Estimate]:
        """Yield the plan with the least share on the host that makes it safe, of its splits the fastest."""
        scope = bench.scan
        plans = (least_share(plan, bench) for plan in _splits(candidate.plan, scope))
        found = [known for known in plans if known is not None]
        if not found:
            return
        best = min(found, key=lambda known: known.step)
        yield best
        if best.plan.pp > 1 and scope.uneven and (split := bench.best(best.plan)) is not None:
            again = least_share(split.plan, bench)
            yield min((split, again or split), key=lambda known: known.step)

    def replaces(self, known: Estimate, found: Estimate) -> bool:
        """Whether a plan is the same but for more on the host, and no faster."""
        same = replace(found.plan, offload=known.plan.offload, stage_layers=known.plan.stage_layers)
        more = hosted_share(known.plan) > hosted_share(found.plan)
        return known.plan == same and more and known.step >= found.step


def least_share(plan: Plan, bench: Improver) -> Estimate | None:
    """Return the plan with the least share on the host that makes it safe, or nothing there; else None.

    What a stage needs at a moment falls in a straight line with the share, and what the plan needs nearly so:
    shares are tried where the line between the nearest known ones meets the limit.
    """
    bare, limit = replace(plan, offload="none"), bench.scan.limit
    if (known := bench.safe(bare)) is not None:
        return known
    best = _shared(plan, 1.0)
    if (least := bench.peak(best)) > limit:
        return None
    low, high, above = 0, STEPS, bench.peak(bare)
    while high - low > 1:
        spare = (above - limit) / max(above - least, 1.0)
        middle = min(max(low + math.ceil((high - low) * spare), low + 1), high - 1)
        tried = _shared(plan, middle / STEPS)
        if (peak := bench.peak(tried)) <= limit:
            best, least, high = tried, peak, middle
        else:
            low, above = middle, peak
    return bench.safe(best)


def spared_seconds(case: Case, result: StepPrice, limit: float) -> Column:
    r"""Seconds by which a step is shorter at most where no more is on the host than memory wants. [s]

    .. math:: \min\left(1, \frac{M - M_1}{b \min_s \psi_s}\right) \max_s h_s

    of plans that need :math:`M_1` of :math:`M` bytes with all states away, and whose stages :math:`s` step
    :math:`\psi_s` parameters of :math:`b` bytes of states on the host in :math:`h_s`.
    """
    room = np.maximum(limit - np.asarray(result.total_bytes), 0.0)
    seconds = _stage_seconds(result)
    freed = np.min(_stepped(case, seconds), axis=0) * case.optimizer_bytes
    spared: Column = np.minimum(1.0, room / np.maximum(freed, 1.0)) * np.max(seconds, axis=0)
    return spared


def most_freed_bytes(case: Case, result: StepPrice) -> Column:
    """Bytes that a device lacks at most once no state is on the host any more. [byte]

    Gradients rest on it too where the host had them, and the step's own buffers come beside the passes'.
    """
    rest = case.gradient_bytes + case.traits.optimizer.gradient_copy_bytes
    stepping = case.step_bytes and max(case.step_bytes + rest, NORM_BYTES * case.engine.lays_gradients)
    each = case.optimizer_bytes + rest * case.hosts_gradients + stepping
    freed: Column = np.max(_stepped(case, _stage_seconds(result)), axis=0) * (
        each * (1.0 + needed_share(case))
    )
    return freed


def _stage_seconds(result: StepPrice) -> Column:
    """Seconds of the host and its link: of shape (stages, rows), or (stages,) of one plan. [s]"""
    seconds = np.atleast_1d(np.asarray(result.offload, dtype=float))
    return seconds if seconds.ndim > 1 or np.ndim(result.total_bytes) == 0 else seconds[None]


def _stepped(case: Case, seconds: Column) -> Column:
    """Parameters that each stage's rank has stepped on the host in so many seconds. [-]"""
    link = (case.host_gradient_bytes + case.offload.up_bytes) / case.host_copy
    stepped: Column = seconds / (link + case.node_ranks * case.engine.host_adam_seconds)
    return stepped


def _splits(plan: Plan, scope: Scope) -> Iterator[Plan]:
    yield replace(plan, stage_layers=scope.split)
    yield from other_splits(plan, scope)


def _least_seconds(plan: Plan, scope: Scope) -> float:
    parts = PlanParts(plan, case_of(plan, scope.job, scope.runtime))
    return floor_seconds(parts, parts.step) - float(spared_seconds(parts.case, parts.step, scope.limit))


def _divisible(rows: PricedRows, some: Rows) -> NDArray[np.bool_]:
    """Return which of some rows may have a share of their states on the host."""
    plan = _shared(plan_rows(rows.plan, some), 0.5)
    rules = rows.scope.runtime.own_rules(plan, rows.scope.job, rows.scope.runtime)
    return obeying(rules, np.ones(some.size, dtype=bool), 0, Counter())


def _shared(plan: Plan, share: float) -> Plan:
    return replace(plan, offload=OFFLOADS[WHOLE].of_share(share).spelled)


def hosted_share(plan: Plan) -> float:
    """Return the share of the optimizer states that a plan has on the host. [-]"""
    return float(read_offload(OFFLOADS, plan.offload).hosted)


ENTRY = Share("share", turn=7, cost=4, order=by_value, proves=True, rank=5)
