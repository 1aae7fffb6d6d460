"""Plans given as columns, priced at once: one price for ten thousand of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from planner.cost.case import Case, case_of
from planner.cost.estimate import Estimate
from planner.cost.legal import all_rules, degree_rules
from planner.cost.price import price
from planner.cost.step.step import PassPrice, price_passes, whole_step
from planner.dataclasses import dataclass, replace
from planner.numeric import Column, Truth
from planner.plan import Plan
from planner.runtimes.family import Job, Runtime
from planner.search.legality import plan_rows
from planner.search.tables import LayerGrid, StageTables
from planner.shown import Short

TECHNIQUES: Final = ("sequence_parallel", "cp_method", "recompute", "schedule", "zero", "offload")
"""Fields of a plan that are names or switches: rows with the same ones are priced together."""


@dataclass(frozen=True, repr=False)
class PricedColumns(Short):
    """Prices of plans, one element for each.

    Parameters
    ----------
    step, peak : array (plans,)
        Seconds of a step, and bytes on the fullest stage; NaN where the degrees leave no price. [s], [byte]
    legal, fits : array (plans,)
        Whether a plan obeys all rules, and whether it fits too.
    """

    step: Column
    peak: Column
    legal: NDArray[np.bool_]
    fits: NDArray[np.bool_]


def price_columns(
    plan: Plan,
    techniques: Mapping[str, Sequence[Any]],
    job: Job,
    runtime: Runtime,
    limit: float | None = None,
) -> PricedColumns:
    """Price a batch of plans.

    Parameters
    ----------
    plan : Plan
        Degrees as columns of one length.
    techniques : mapping
        For each of `TECHNIQUES` one value for each plan.
    job, runtime : Job, Runtime
        What is planned and who runs it.
    limit : float, optional
        Device memory that may be used. [byte]
    """
    size = len(np.atleast_1d(plan.tp))
    has = job.hardware.pool.accelerator.memory_usable
    capacity = min(has, limit or has)
    step, peak, legal = np.full(size, np.nan), np.full(size, np.nan), np.zeros(size, dtype=bool)
    for names, rows in _groups(techniques):
        part = replace(plan_rows(plan, rows), **names)
        whole = np.ones(rows.size, dtype=bool)
        for rule in degree_rules(part, job, runtime):
            whole &= np.broadcast_to(rule.holds, rows.size)
        if whole.any():
            kept, some = rows[whole], plan_rows(part, np.flatnonzero(whole))
            step[kept], peak[kept], legal[kept] = _priced(some, job, runtime, capacity)
    return PricedColumns(step, peak, legal, legal & (peak <= capacity))


def _groups(
    techniques: Mapping[str, Sequence[Any]],
) -> Iterator[tuple[dict[str, Any], NDArray[np.intp]]]:
    """Yield each choice of techniques, and the places of its plans."""
    known: dict[tuple[Any, ...], list[int]] = {}
    columns = [techniques[name] for name in TECHNIQUES]
    for place, values in enumerate(zip(*columns, strict=True)):
        known.setdefault(values, []).append(place)
    for values, places in known.items():
        yield dict(zip(TECHNIQUES, values, strict=True)), np.asarray(places, dtype=np.intp)


def _priced(
    plan: Plan, job: Job, runtime: Runtime, capacity: float
) -> tuple[Column, Column, NDArray[np.bool_]]:
    """Return seconds, bytes and legality of plans of the same techniques; one by one where played."""
    size = len(np.atleast_1d(plan.tp))
    rows = np.arange(size)
    case = case_of(plan, job, runtime)
    legal = np.ones(size, dtype=bool)
    for rule in all_rules(plan, case):
        legal &= np.broadcast_to(rule.holds, size)
    tables, grid = StageTables(plan), LayerGrid(plan, rows)
    stages, totals = tables.stages(case, rows)
    costs = grid.costs(case, [*stages.counts, *totals], rows)
    passes = price_passes(case, plan, costs, stages, totals)
    result = whole_step(case, plan, passes, stages)
    step = np.array(np.broadcast_to(result.step, size), dtype=float)
    peak = np.array(np.broadcast_to(result.total_bytes, size), dtype=float)
    for place in np.flatnonzero(np.broadcast_to(_alone(plan, case, passes), size)):
        one = price(plan.row((int(place),)), job, runtime, capacity)
        if isinstance(one, Estimate):
            step[place], peak[place] = one.step, one.peak
    return step, peak, legal


def _alone(plan: Plan, case: Case, passes: PassPrice) -> Truth:
    """Whether a plan's passes may be played, so that columns do not have its price."""
    if plan.offload.startswith("activations"):
        return True
    return np.greater(plan.pp, 1) & (case.plays | np.asarray(passes.unlike))
