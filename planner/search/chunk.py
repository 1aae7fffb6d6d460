"""Rows that a scan prices together: what their plans share, and their prices under some techniques."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.cost.case import Case
from planner.cost.step.step import PassPrice, StepPrice
from planner.dataclasses import dataclass
from planner.numeric import Column
from planner.plan import DEGREES, Plan
from planner.search.candidates import Order, ScanReport, Screened, Shortlist, by_bound, by_value
from planner.search.legality import PassNames, StateNames
from planner.search.priced import Pieces
from planner.search.scope import Scope
from planner.search.squeezed import Squeezed
from planner.search.tables import Rows


@dataclass(frozen=True)
class PricedRows:
    """Rows with their prices under one choice of techniques."""

    scope: Scope
    """What the scan may take."""
    names: tuple[PassNames, StateNames]
    """The techniques."""
    places: Rows
    """Shape (rows,): places of the rows in the space."""
    legal: NDArray[np.bool_]
    """Shape (rows,): which of them are legal plans so."""
    plan: Plan
    case: Case
    """The rows as plans."""
    passes: PassPrice
    result: StepPrice
    """Their prices."""
    values: Column
    """Shape (rows,): the objective."""
    pieces: Callable[[], Pieces]
    """Returns what the pieces of the model cost."""
    squeezed: Squeezed
    """Rows that do not fit without recompute, as far as the scan has come."""
    report: ScanReport
    """What the scan has seen so far."""

    @property
    def best(self) -> float:
        """Least value of a safe plan so far, of measured kinds alone where these are kept too."""
        report = self.report.backed or self.report
        return report.best.value(0) if report.best else float(np.inf)

    def worst(self, operator: str, keep: int) -> float:
        """Least bound from which no row is kept for an operator that takes them by their bounds."""
        lists = [one.of(operator) for one in (self.report, self.report.backed) if one is not None]
        return max(known.bound(-1) if len(known) >= keep else float(np.inf) for known in lists)

    @property
    def bounds(self) -> Column:
        """Seconds that no split of the layers beats. [s]"""
        return np.asarray(self.result.bound)

    @property
    def used(self) -> Column:
        """Bytes that the peak rank uses. [byte]"""
        return np.asarray(self.result.total_bytes)

    @property
    def safe(self) -> NDArray[np.bool_]:
        """Which rows are legal plans that keep the limit."""
        safe: NDArray[np.bool_] = self.legal & (self.used <= self.scope.limit)
        return safe

    def short_of_memory(self, most: float) -> Screened:
        """Return the rows that could be the best, and need up to ``most`` times the memory there is."""
        near = (self.used > self.scope.limit) & (self.used <= most * self.scope.limit)
        return Screened(self.values, self.bounds, np.asarray(self.legal & near & (self.bounds < self.best)))

    def collect(self) -> None:
        """Count the rows, and keep the best of them and the smallest."""
        scope, report, used = self.scope, self.report, np.where(self.legal, self.used, np.inf)
        safe = self.safe
        roomy = int(np.count_nonzero(self.legal & (used <= scope.capacity)))
        report.valid += int(np.count_nonzero(self.legal))
        report.fits += roomy
        report.close += roomy - int(np.count_nonzero(safe))
        screened = Screened(self.values, self.bounds, safe)
        smallest = int(np.argmin(used))
        if report.smallest is None or used[smallest] < report.smallest.total_bytes:
            report.smallest = self._taken(screened, self.values, np.array([smallest]))[0]
        report.best = self.merged(report.best, screened, max(scope.keep, scope.shown), by_value)

    def merged(self, known: Shortlist, screened: Screened, keep: int, order: Order) -> Shortlist:
        """Return the ``keep`` first of the known candidates and of these rows."""
        keys = screened.bounds if order is by_bound else screened.values
        return known.merged(keys, screened.among, keep, lambda rows: self._taken(screened, keys, rows))

    def _taken(self, screened: Screened, keys: Column, rows: Rows) -> Shortlist:
        """Return some rows as what is kept of them."""
        columns = (screened.values, screened.bounds, self.used, *(getattr(self.plan, one) for one in DEGREES))
        table = np.empty((len(columns), len(rows)))
        for place, column in enumerate(map(np.asarray, columns)):
            table[place] = column[rows] if column.size > 1 else column
        names = np.empty(len(rows), dtype=object)
        names[:] = self._names
        return Shortlist(keys[rows], table, names)

    @cached_property
    def _names(self) -> dict[str, Any]:
        """The fields of the plans that are no degrees."""
        return {name: value for name, value in vars(self.plan).items() if name not in DEGREES}
