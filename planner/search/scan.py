"""The scan: every legal plan of the space priced in columns, technique combination by combination."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from planner.cost.block_cost import LayerCost, taken
from planner.cost.case import Case, case_of
from planner.cost.legal import host_activation_rules
from planner.cost.memory import stage_weights
from planner.cost.stages import Piece
from planner.cost.step import PassPrice, StepPrice, mean_weights, price_passes, price_step
from planner.cost.step_end import StepEnd, step_end
from planner.numeric import Column, Num
from planner.plan import Plan
from planner.runtimes._family import Job, Runtime
from planner.search.candidates import Candidate, ScanReport, by_bound, by_value, candidate, merged
from planner.search.chunk import Chunk, Ends
from planner.search.hostable import least_hosted_bytes, least_hosted_seconds
from planner.search.legality import (
    Choices,
    KnownLegal,
    Legal,
    Legality,
    PassNames,
    StateNames,
    named,
    obeying,
    plan_rows,
)
from planner.search.relaxed import is_splittable, least_bytes
from planner.search.space import Space
from planner.search.squeezed import KEPT_WHOLE, Squeezed
from planner.search.tables import LayerGrid, Rows, StageTables, representatives, taken_rows

CHUNK_ROWS = 16384
"""Rows priced at once, so that the columns stay in the cache."""

KEEP_HOSTED = 256
"""Candidates kept that might do with activations on the host."""

KEEP_SQUEEZED = 64
"""Candidates kept that might do with less recompute."""

MOST_HOPEFUL = 0.7
"""Share of the rows of a chunk up to which it is worth while to price them apart. [-]"""

PLAIN = StateNames(0, "none")
"""States that passes are priced with: they do not matter there."""

Objective = Callable[[StepPrice], Column]


@dataclass
class Scan:
    """Prices a space for one job and runtime.

    Parameters
    ----------
    job, runtime : Job, Runtime
        What is planned and who runs it.
    space : Space
        Structurally legal rows.
    choices : Choices
        Technique names to combine.
    limit : float
        Bytes of device memory that a plan may be predicted to use.
    capacity : float
        Bytes that it has.
    keep : int
        Candidates to return.
    shards : int, optional
        Ranks over which states are sharded; all that may where none is given.
    split : tuple of int, optional
        Layers of each virtual stage, where the user has set them.
    uneven : bool
        Whether to look for plans that may be safe with another split than the default one.
    shown : int
        Plans of least value to keep, where that is more than ``keep``.
    by_memory : bool
        Whether the value is memory and not seconds.
    within : float
        Seconds that a step may take, where memory is the value. [s]
    hostable : array (rows,), optional
        Rows of the space that may keep activations on the host, where the search is to try that.
    known : dict, optional
        Legal rows, shared with scans of the same space for other settings.
    """

    job: Job
    runtime: Runtime
    space: Space
    choices: Choices
    limit: float
    capacity: float
    keep: int = 64
    shards: int | None = None
    split: tuple[int, ...] | None = None
    uneven: bool = False
    shown: int = 0
    by_memory: bool = False
    within: float = np.inf
    hostable: NDArray[np.bool_] | None = None
    known: KnownLegal | None = None
    _squeezed: Squeezed = field(default_factory=Squeezed, repr=False)

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
            ends.append(step_end(whole, plan, held, mean) if mask.any() and not one.domain else None)
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
                result = price_step(whole, plan, passes, stages, known)
                report.seconds += time.perf_counter() - started
                self._collect(result, plan, mask, objective, report)
                if self.squeezes:
                    self._collect_squeezed((names, one), legal.rows, plan, result, mask, report)
                if self.hostable is not None and self._may_host(names, one):
                    among = mask & self.hostable[legal.rows]
                    self._collect_hosted(whole, plan, passes, result, among, report)
                if self.splits and is_splittable(whole):
                    self._collect_tight(whole, plan, result, mask, costs, totals, report)

    def _worst_kept(self, report: ScanReport) -> float:
        """Seconds that a row must beat to be kept; infinite where memory is what counts."""
        return float(np.inf) if self.by_memory else report.worst_kept(self.keep, self.shown)

    def _hopeful(self, case: Case, passes: PassPrice, legal: Legal, report: ScanReport) -> Rows | None:
        """Return the rows that could be kept, of a space that is priced for several settings; None for all.

        No bound keeps them from being among the best, or they recompute because nothing else fits. The others
        are counted alone.
        """
        worst, size = self._worst_kept(report), legal.rows.size
        if self.known is None or worst == np.inf or case.offload.layers:
            return None
        hopeful = np.broadcast_to(np.asarray(passes.bound), (size,)) < worst
        if self.squeezes and legal.names.recompute != KEPT_WHOLE:
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
        result = price_step(case, plan, taken_rows(chunk.passes, rows, mask.size), stages)
        report.seconds += time.perf_counter() - started
        every = np.ones(rows.size, dtype=bool)
        self._collect(result, plan, every, objective, report)
        if self.splits and is_splittable(case):
            costs = chunk.grid.costs(case, [*stages.counts, *totals], places)
            self._collect_tight(case, plan, result, every, costs, totals, report)

    def _collect(
        self,
        result: StepPrice,
        plan: Plan,
        legal: NDArray[np.bool_],
        objective: Objective,
        report: ScanReport,
    ) -> None:
        used = np.where(legal, result.total_bytes, np.inf)
        fits = legal & (used <= self.limit)
        roomy = int(np.count_nonzero(legal & (used <= self.capacity)))
        report.valid += int(np.count_nonzero(legal))
        report.fits += roomy
        report.close += roomy - int(np.count_nonzero(fits))
        values = objective(result)
        smallest = int(np.argmin(used))
        if report.smallest is None or used[smallest] < report.smallest.total_bytes:
            report.smallest = candidate(result, plan, values, smallest)
        made = partial(candidate, result, plan, values)
        report.best = merged(report.best, values, fits, max(self.keep, self.shown), made, by_value)
        report.promising = merged(report.promising, np.asarray(result.bound), fits, self.keep, made, by_bound)

    @property
    def splits(self) -> bool:
        """Whether to look for plans that do better with another split than the default one."""
        return (self.uneven or self.by_memory) and self.split is None

    @property
    def squeezes(self) -> bool:
        """Whether plans may recompute less than their names say, as far as memory allows."""
        return self.uneven and {KEPT_WHOLE, "full"} <= set(self.choices.recompute)

    def _collect_squeezed(
        self,
        names: tuple[PassNames, StateNames],
        rows: Rows,
        plan: Plan,
        result: StepPrice,
        legal: NDArray[np.bool_],
        report: ScanReport,
    ) -> None:
        """Keep plans that recompute because nothing else fits, those first that could be the fastest."""
        best = report.best[0].value if report.best else np.inf
        used = np.asarray(result.total_bytes)
        fits = used <= self.limit
        if names[0].recompute == KEPT_WHOLE:
            self._squeezed.add(names, rows, result, legal & ~fits & (np.asarray(result.bound) < best))
            return
        if (found := self._squeezed.expected(names, rows, result, self.limit)) is None:
            return
        expected, bounds = found
        among = legal & fits & (bounds < best)

        def made(index: int) -> Candidate:
            return Candidate(
                float(expected[index]), float(bounds[index]), float(used[index]), plan.row((index,))
            )

        report.squeezed = merged(report.squeezed, expected, among, KEEP_SQUEEZED, made, by_value)

    def _may_host(self, names: PassNames, states: StateNames) -> bool:
        """Whether these techniques keep all that may be on the device, so that more may go to the host."""
        return names.recompute == KEPT_WHOLE and states.offload == self.choices.offload[0]

    def _collect_hosted(
        self,
        case: Case,
        plan: Plan,
        passes: PassPrice,
        result: StepPrice,
        among: NDArray[np.bool_],
        report: ScanReport,
    ) -> None:
        """Keep plans that could be the best with activations on the host; of the fastest those too large."""
        best = report.best[0].value if report.best else np.inf
        bounds, used = np.asarray(result.bound), np.asarray(result.total_bytes)
        hopeful = bounds <= self.within if self.by_memory else (used > self.limit) & (bounds < best)
        rows = np.flatnonzero(among & hopeful)
        if not rows.size:
            return
        least, most = (
            (least_hosted_bytes, self.within) if self.by_memory else (least_hosted_seconds, self.limit)
        )
        found = least(case, plan_rows(plan, rows), passes, result, rows, most)
        if self.by_memory:
            found = np.where(found <= self.limit, found, np.inf)

        def made(index: int) -> Candidate:
            row, value = int(rows[index]), float(found[index])
            bound = float(bounds[row]) if self.by_memory else value
            return Candidate(value, bound, float(used[row]), plan.row((row,)))

        report.hosted = merged(report.hosted, found, found < best, KEEP_HOSTED, made, by_value)

    @property
    def keep_tight(self) -> int:
        """Candidates kept that may fit with another split, of which most do not. [-]"""
        return 2 * self.keep

    def _collect_tight(
        self,
        case: Case,
        plan: Plan,
        result: StepPrice,
        legal: NDArray[np.bool_],
        costs: Mapping[Piece, LayerCost],
        totals: Mapping[Piece, Num],
        report: ScanReport,
    ) -> None:
        """Keep plans that could be the best, and fit in the mean over their stages only."""
        best = report.best[0].value if report.best else np.inf
        worst = report.tight[-1].bound if len(report.tight) >= self.keep_tight else np.inf
        if self.by_memory:
            hopeful = legal & (result.bound <= self.within)
        else:
            hopeful = legal & (result.total_bytes > self.limit) & (result.bound < min(best, worst))
        pp = np.asarray(plan.pp)
        divided = (pp > 1) & (pp <= case.model.num_layers) & (np.asarray(plan.vpp) == 1)
        rows = np.flatnonzero(hopeful & divided)
        if not rows.size:
            return
        some = {piece: taken(cost, rows) for piece, cost in costs.items()}
        counts = {piece: count if np.ndim(count) == 0 else count[rows] for piece, count in totals.items()}  # type: ignore[index]
        least = least_bytes(case, plan_rows(plan, rows), some, counts)
        among = np.zeros(len(hopeful), dtype=bool)
        among[rows] = least <= (min(best, self.limit) if self.by_memory else self.limit)
        values, order = np.asarray(result.step), by_bound
        if self.by_memory:
            values, order = np.full(len(hopeful), np.inf), by_value
            values[rows] = least
        made = partial(candidate, result, plan, values)
        keys = values if self.by_memory else np.asarray(result.bound)
        report.tight = merged(report.tight, keys, among, self.keep_tight, made, order)
