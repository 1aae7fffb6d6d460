"""The scan: every legal plan of the space priced in columns, technique combination by combination."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from planner.cost.case import Case
from planner.cost.kinds import backed_rows, most_doubt
from planner.cost.memory.host_rules import host_activation_rules
from planner.cost.step.step import StepPrice
from planner.dataclasses import dataclass, field, replace
from planner.numeric import Column
from planner.plan import Plan
from planner.search.candidates import ScanReport, Screened
from planner.search.chunk import PricedRows
from planner.search.legality import Legal, StateNames, obeying
from planner.search.operators import OPERATORS, SearchOperator
from planner.search.priced import CHUNK_ROWS, Ends, Passes, SpacePrices, prices_of
from planner.search.scope import KEPT_WHOLE, Scope
from planner.search.squeezed import Squeezed
from planner.search.tables import LayerGrid, Rows

MOST_HOPEFUL = 0.7
"""Share of the rows of a chunk up to which it is worth while to price them apart. [-]"""

Objective = Callable[[StepPrice], Column]


@dataclass
class Scan(Scope):
    """Prices the space of a scope."""

    _squeezed: Squeezed = field(default_factory=Squeezed, repr=False)

    @cached_property
    def operators(self) -> list[SearchOperator]:
        """What the candidates are kept for: where the best row alone is asked for, what takes all rows."""
        return [one for one in OPERATORS if one.takes(self) and (self.keep > 1 or one.leads)]

    @cached_property
    def doubt(self) -> float:
        """Share of a step up to which a plan of kinds without a run must be faster to lead. [-]"""
        return most_doubt(self.job, self.runtime)

    def run(self, objective: Objective, progress: Callable[[int], None] | None = None) -> ScanReport:
        """Price every legal plan and keep the best that fit."""
        report = ScanReport()
        for _ in self.steps(objective, report, progress):
            pass
        combinations = len(self.choices.passes()) * len(self.choices.states())
        report.enumerated = self.space.cells * combinations
        report.removed.update({rule: count * combinations for rule, count in self.space.removed.items()})
        return report

    def steps(
        self, objective: Objective, report: ScanReport, progress: Callable[[int], None] | None = None
    ) -> Iterator[None]:
        """Add one chunk of priced rows after another to ``report``."""
        if self.keep > 1 and not self.by_memory and self.doubt:
            report.backed = ScanReport()
        prices = prices_of(self)
        before = prices.seconds
        for grid, cases in prices.groups(self, report.removed):
            self._squeezed = Squeezed()
            for legal in cases:
                for plain, own in prices.by_passes(legal, self.choices.states()):
                    ends = prices.ends(own, grid, self.choices.states(), plain)
                    for start in range(0, own.rows.size, CHUNK_ROWS):
                        part = own.part(chunk := slice(start, start + CHUNK_ROWS))
                        end = ends.part(chunk)
                        passes = prices.passes(part.names, part.rows, grid, end, plain)
                        self._price(prices, grid, (passes, part, end), (objective, report))
                        report.seconds = prices.seconds - before
                        yield
                if progress is not None:
                    progress(len(self.choices.states()))

    def _price(
        self,
        prices: SpacePrices,
        grid: LayerGrid,
        rows: tuple[Passes, Legal, Ends],
        into: tuple[Objective, ScanReport],
    ) -> None:
        """Price the step of some rows, whose passes are priced once, for every choice of states."""
        (passes, legal, ends), report = rows, into[1]
        if (kept := self._hopeful(passes, legal, report)) is not None:
            legal, ends, passes = legal.part(kept), ends.part(kept), prices.some(passes, kept, grid)
        for one, mask, end in zip(self.choices.states(), legal.masks, ends.states, strict=True):
            if not mask.any():
                continue
            own, known = passes, end.taken(ends.which) if end is not None else None
            if one.domain:
                below = passes.below(self.worst_kept(report), mask)
                left = int(np.count_nonzero(mask)) - below.size
                report.valid, report.skipped = report.valid + left, report.skipped + left
                if not below.size:
                    continue
                own, mask = prices.some(passes, below, grid), np.ones(below.size, dtype=bool)
            plan, case, result = prices.step(own, one, known)
            mask = obeying(host_activation_rules(plan, case, own.price.layers), mask, 1, report.removed)
            self._collect(own, one, (mask, plan, case, result), into)

    def _collect(
        self,
        passes: Passes,
        states: StateNames,
        priced: tuple[NDArray[np.bool_], Plan, Case, StepPrice],
        into: tuple[Objective, ScanReport],
    ) -> None:
        """Keep the best of some priced rows, and what each operator could make good plans of."""
        (legal, plan, case, result), (objective, report) = priced, into
        rows = PricedRows(
            self, (passes.names, states), passes.places, legal, plan, case, passes.price, result,
            objective(result), passes.pieces, self._squeezed, report,
        )  # fmt: skip
        rows.collect()
        backed = cache(lambda sheds: rows.legal & backed_rows(rows.plan, self.job, self.runtime, sheds))
        if report.backed is not None:
            own = replace(rows, legal=backed(()), report=report.backed)
            if own.legal.any():
                own.collect()
        for operator in self.operators:
            if (screened := operator.screen(rows)) is None or not screened.among.any():
                continue
            self._keep(rows, operator, screened)
            if report.backed is not None and (among := screened.among & backed(operator.sheds)).any():
                self._keep(own, operator, replace(screened, among=among))

    def _keep(self, rows: PricedRows, operator: SearchOperator, screened: Screened) -> None:
        """Keep what an operator could make good plans of; where it must, better ones than the best row."""
        report, keep = rows.report, operator.keeps(self)
        if report.best and operator.beats and not self.by_memory:
            screened = replace(screened, among=screened.among & (screened.bounds < report.best.value(0)))
        report.candidates[operator.name] = rows.merged(
            report.of(operator.name), screened, keep, operator.order
        )

    def worst_kept(self, report: ScanReport) -> float:
        """Seconds that a row must beat to be kept; infinite where memory is what counts."""
        worst = self._worst_of(report)
        if report.backed is not None and worst < np.inf:
            worst = max(worst, min(self._worst_of(report.backed), report.best.value(0) * (1.0 + self.doubt)))
        return min(worst, self.beaten)

    def _worst_of(self, report: ScanReport) -> float:
        promising = report.of("split")
        if self.by_memory or len(report.best) < max(self.keep, self.shown) or len(promising) < self.keep:
            return float(np.inf)
        return max(report.best.value(-1), promising.bound(-1))

    def _hopeful(self, passes: Passes, legal: Legal, report: ScanReport) -> Rows | None:
        """Return the rows that could be kept, of a space that is priced for several settings; None for all.

        No bound keeps them from being among the best, or they recompute because nothing else fits. The others
        are counted alone.
        """
        worst, size = self.worst_kept(report), legal.rows.size
        if self.known is None or worst == np.inf or passes.case.offload.layers:
            return None
        hopeful = np.broadcast_to(np.asarray(passes.price.bound), (size,)) < worst
        if legal.names.recompute != KEPT_WHOLE:
            hopeful = hopeful | self._squeezed.places(legal.names, self.space.size)[legal.rows]
        kept = np.flatnonzero(hopeful)
        if kept.size > MOST_HOPEFUL * size:
            return None
        left = int(np.count_nonzero(legal.masks)) - int(np.count_nonzero(legal.masks[:, kept]))
        report.valid, report.skipped = report.valid + left, report.skipped + left
        return kept
