"""The scan: every legal plan of the space priced in columns, technique combination by combination."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from planner.cost.case import Case, case_of
from planner.cost.kinds import backed_rows, most_doubt
from planner.cost.memory.host_rules import host_activation_rules
from planner.cost.memory.weights import stage_weights
from planner.cost.step.step import PassPrice, StepPrice, mean_weights, price_passes, whole_step
from planner.cost.step.step_end import StepEnd, step_end
from planner.cost.traffic.sharing import sharing
from planner.dataclasses import dataclass, field, replace
from planner.numeric import Column
from planner.plan import Plan
from planner.search.candidates import ScanReport, Screened
from planner.search.chunk import Chunk, Ends, Pieces, PricedRows
from planner.search.legality import (
    Legal,
    Legality,
    PassNames,
    StateNames,
    named,
    obeying,
    plan_rows,
)
from planner.search.operators import OPERATORS, SearchOperator
from planner.search.scope import KEPT_WHOLE, Scope
from planner.search.squeezed import Squeezed
from planner.search.tables import LayerGrid, Rows, StageTables, representatives, taken_rows

CHUNK_ROWS = 16384
"""Rows priced at once, so that the columns stay in the cache."""

MOST_HOPEFUL = 0.7
"""Share of the rows of a chunk up to which it is worth while to price them apart. [-]"""

PLAIN = StateNames(0, "none")
"""States that passes are priced with: they do not matter there."""

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
        tables = StageTables(self.space.rows, self.split)
        legality = Legality(self.space.rows, self.job, self.runtime, self.choices, self.shards, self.known)
        for _, members in groupby(self.choices.passes(), lambda one: (one.sequence_parallel, one.cp_method)):
            cases = [legality.rows_of(names, report.removed) for names in members]
            grid, self._squeezed = LayerGrid(self.space.rows, self._either(cases)), Squeezed()
            for legal in cases:
                ends = self._ends(legal, legality.layout, grid, tables, report)
                for start in range(0, legal.rows.size, CHUNK_ROWS):
                    part = slice(start, start + CHUNK_ROWS)
                    self._price(legal.part(part), ends.part(part), grid, tables, objective, report)
                    yield
                if progress is not None:
                    progress(len(self.choices.states()))

    def _either(self, cases: Sequence[Legal]) -> Rows:
        """Return the rows of any of these."""
        wanted = np.zeros(self.space.size, dtype=bool)
        for legal in cases:
            wanted[legal.rows] = True
        return np.flatnonzero(wanted)

    def _ends(
        self, legal: Legal, layout: Rows, grid: LayerGrid, tables: StageTables, report: ScanReport
    ) -> Ends:
        """Price the end of a step once for every layout of the cluster, whatever the micro-batch.

        A few rows are not worth it: they get theirs with their passes.
        """
        if legal.rows.size <= CHUNK_ROWS:
            return Ends((None,) * len(legal.masks), legal.rows)
        started = time.perf_counter()
        index, which = representatives(layout[legal.rows])
        index = legal.rows[index]
        rows = plan_rows(self.space.rows, index)
        case = case_of(named(rows, legal.names, PLAIN, self.shards), self.job, self.runtime)
        stages, totals = tables.stages(case, index)
        costs = grid.costs(case, [*stages.counts, *totals], index)
        held, mean = stage_weights(case, costs, stages), mean_weights(case, rows, costs, totals)
        ends: list[StepEnd | None] = []
        for one, mask in zip(self.choices.states(), legal.masks, strict=True):
            plan = named(rows, legal.names, one, self.shards)
            whole = case_of(plan, self.job, self.runtime)
            if not mask.any() or one.domain:
                ends.append(None)
                continue
            ends.append(step_end(whole, sharing(whole, plan, held), sharing(whole, plan, mean)))
        report.seconds += time.perf_counter() - started
        return Ends(tuple(ends), which, (held, mean))

    def _price(
        self,
        legal: Legal,
        ends: Ends,
        grid: LayerGrid,
        tables: StageTables,
        objective: Objective,
        report: ScanReport,
    ) -> None:
        """Price the passes of some rows once, and then the step for every choice of states."""
        names, states = legal.names, self.choices.states()
        rows = plan_rows(self.space.rows, legal.rows)
        case = case_of(named(rows, names, PLAIN, self.shards), self.job, self.runtime)
        stages, totals = tables.stages(case, legal.rows)
        started = time.perf_counter()
        costs = grid.costs(case, [*stages.counts, *totals], legal.rows)
        passes = price_passes(case, named(rows, names, PLAIN), costs, stages, totals, ends.taken())
        if (kept := self._hopeful(case, passes, legal, report)) is not None:
            passes = taken_rows(passes, kept, legal.rows.size)
            legal, ends, rows = legal.part(kept), ends.part(kept), plan_rows(rows, kept)
            stages, totals = tables.stages(case, legal.rows)
            costs = grid.costs(case, [*stages.counts, *totals], legal.rows)
        report.seconds += time.perf_counter() - started
        pieces = costs, totals
        for one, mask, end in zip(states, legal.masks, ends.states, strict=True):
            if mask.any() and one.domain:
                chunk = Chunk(names, legal.rows, passes, grid, tables)
                self._price_replicas(chunk, one, mask, objective, report)
            elif mask.any():
                plan = named(rows, names, one, self.shards)
                whole = case_of(plan, self.job, self.runtime)
                mask = obeying(host_activation_rules(plan, whole, passes.layers), mask, 1, report.removed)
                started = time.perf_counter()
                known = end.taken(ends.which) if end is not None else None
                result = whole_step(whole, plan, passes, stages, known)
                report.seconds += time.perf_counter() - started
                priced = (mask, plan, whole, passes, result)
                self._collect((names, one), legal.rows, priced, objective, lambda: pieces, report)

    def _collect(
        self,
        names: tuple[PassNames, StateNames],
        places: Rows,
        priced: tuple[NDArray[np.bool_], Plan, Case, PassPrice, StepPrice],
        objective: Objective,
        pieces: Callable[[], Pieces],
        report: ScanReport,
    ) -> None:
        """Keep the best of some priced rows, and what each operator could make good plans of."""
        rows = PricedRows(self, names, places, *priced, objective(priced[-1]), pieces, self._squeezed, report)
        rows.collect()
        backed: dict[tuple[str, ...], NDArray[np.bool_]] = {}
        if report.backed is not None:
            for sheds in dict.fromkeys([*(one.sheds for one in self.operators), ()]):
                backed[sheds] = rows.legal & backed_rows(rows.plan, self.job, self.runtime, sheds)
            own = replace(rows, legal=backed[()], report=report.backed)
            if own.legal.any():
                own.collect()
        for operator in self.operators:
            if (screened := operator.screen(rows)) is None:
                continue
            self._keep(rows, operator, screened)
            if report.backed is not None and (among := screened.among & backed[operator.sheds]).any():
                self._keep(own, operator, replace(screened, among=among))

    def _keep(self, rows: PricedRows, operator: SearchOperator, screened: Screened) -> None:
        """Keep what an operator could make good plans of; where it must, better ones than the best row."""
        report, keep = rows.report, operator.keeps(self)
        if report.best and operator.beats and not self.by_memory:
            screened = replace(screened, among=screened.among & (screened.bounds < report.best[0].value))
        report.candidates[operator.name] = rows.merged(
            report.of(operator.name), screened, keep, operator.order
        )

    def _worst_kept(self, report: ScanReport) -> float:
        """Seconds that a row must beat to be kept; infinite where memory is what counts."""
        worst = self._worst_of(report)
        if report.backed is None or worst == np.inf:
            return worst
        return max(worst, min(self._worst_of(report.backed), report.best[0].value * (1.0 + self.doubt)))

    def _worst_of(self, report: ScanReport) -> float:
        promising = report.of("split")
        if self.by_memory or len(report.best) < max(self.keep, self.shown) or len(promising) < self.keep:
            return float(np.inf)
        return max(report.best[-1].value, promising[-1].bound)

    def _hopeful(self, case: Case, passes: PassPrice, legal: Legal, report: ScanReport) -> Rows | None:
        """Return the rows that could be kept, of a space that is priced for several settings; None for all.

        No bound keeps them from being among the best, or they recompute because nothing else fits. The others
        are counted alone.
        """
        worst, size = self._worst_kept(report), legal.rows.size
        if self.known is None or worst == np.inf or case.offload.layers:
            return None
        hopeful = np.broadcast_to(np.asarray(passes.bound), (size,)) < worst
        if legal.names.recompute != KEPT_WHOLE:
            hopeful = hopeful | self._squeezed.places(legal.names, self.space.size)[legal.rows]
        kept = np.flatnonzero(hopeful)
        if kept.size > MOST_HOPEFUL * size:
            return None
        left = int(np.count_nonzero(legal.masks)) - int(np.count_nonzero(legal.masks[:, kept]))
        report.valid, report.skipped = report.valid + left, report.skipped + left
        return kept

    def _price_replicas(
        self,
        chunk: Chunk,
        states: StateNames,
        mask: NDArray[np.bool_],
        objective: Objective,
        report: ScanReport,
    ) -> None:
        """Price the rows that could be among the best with replicas of shards; others are counted alone."""
        rows = chunk.below(self._worst_kept(report), mask)
        left = int(np.count_nonzero(mask)) - rows.size
        report.valid, report.skipped = report.valid + left, report.skipped + left
        if not rows.size:
            return
        started = time.perf_counter()
        places = chunk.places[rows]
        plan = named(plan_rows(self.space.rows, places), chunk.names, states, self.shards)
        case = case_of(plan, self.job, self.runtime)
        stages, totals = chunk.tables.stages(case, places)
        passes = taken_rows(chunk.passes, rows, mask.size)
        result = whole_step(case, plan, passes, stages)
        report.seconds += time.perf_counter() - started
        priced = (np.ones(rows.size, dtype=bool), plan, case, passes, result)
        self._collect(
            (chunk.names, states), places, priced, objective,
            lambda: (chunk.grid.costs(case, [*stages.counts, *totals], places), totals), report,
        )  # fmt: skip
