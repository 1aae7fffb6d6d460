"""The scan: every legal plan of the space priced in columns, technique combination by combination."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.cost.block_cost import LayerCost, taken
from planner.cost.case import Case, case_of
from planner.cost.legal import offload_rules, technique_rules
from planner.cost.stages import Piece
from planner.cost.step import StepPrice, price_passes, price_step
from planner.numeric import Column, Num
from planner.plan import DEGREES, Plan
from planner.rules import Rule
from planner.runtimes._family import Job, Runtime
from planner.search.relaxed import is_splittable, least_bytes
from planner.search.space import Space
from planner.search.tables import LayerGrid, Rows, StageTables

CHUNK_ROWS = 16384
"""Rows priced at once, so that the columns stay in the cache."""


@dataclass(frozen=True)
class PassNames:
    """Techniques that the passes of a step depend on."""

    sequence_parallel: bool
    cp_method: str
    recompute: str
    schedule: str


@dataclass(frozen=True)
class StateNames:
    """Techniques that only states and the end of a step depend on."""

    zero: int
    offload: str


@dataclass(frozen=True)
class Choices:
    """Names that a search may take for each technique; the first of each is the plain one."""

    zero: tuple[int, ...]
    recompute: tuple[str, ...]
    sequence_parallel: tuple[bool, ...]
    cp_method: tuple[str, ...]
    schedule: tuple[str, ...]
    offload: tuple[str, ...]

    def passes(self) -> list[PassNames]:
        """Return every combination that the passes depend on."""
        return [
            PassNames(*names)
            for names in product(self.sequence_parallel, self.cp_method, self.recompute, self.schedule)
        ]

    def states(self) -> list[StateNames]:
        """Return every combination that only the end of a step depends on."""
        return [StateNames(*names) for names in product(self.zero, self.offload)]


def named(plan: Plan, passes: PassNames, states: StateNames, shards: int | None = None) -> Plan:
    """Return the plan with these techniques, sharded over ``shards`` ranks, or over all that may."""
    ranks = plan.dp * plan.cp
    wanted = ranks if shards is None else np.full_like(ranks, float(shards))
    sharded = wanted if states.zero else np.ones_like(ranks)
    return replace(plan, zero_shards=sharded, **vars(passes), **vars(states))


@dataclass(frozen=True)
class Candidate:
    """A priced row of the scan."""

    value: float
    bound: float
    total_bytes: float
    plan: Plan


@dataclass
class ScanReport:
    """What a scan saw: counts by rule, and candidates.

    Parameters
    ----------
    enumerated, valid, fits, close : int
        Cells, legal plans, those that fit, and of these those too close to the limit to be offered.
    seconds : float
        Time spent in pricing. [s]
    removed : Counter
        Cells by the first rule that they break.
    best, promising : list of Candidate
        The safe plans of least value, and of least bound.
    smallest : Candidate, optional
        The legal plan that needs the least memory.
    tight : list of Candidate
        Plans of least bound that are not safe with their default split, and may be with another one.
    """

    enumerated: int = 0
    valid: int = 0
    fits: int = 0
    close: int = 0
    seconds: float = 0.0
    removed: Counter[str] = field(default_factory=Counter)
    best: list[Candidate] = field(default_factory=list)
    promising: list[Candidate] = field(default_factory=list)
    smallest: Candidate | None = None
    tight: list[Candidate] = field(default_factory=list)


@dataclass(frozen=True)
class Legal:
    """Rows that are legal plans under the techniques of their passes with some choice of states.

    Parameters
    ----------
    names : PassNames
        Those techniques.
    rows : array (rows,)
        Their places in the space.
    masks : array (states, rows)
        Which of them each choice of states makes legal.
    """

    names: PassNames
    rows: Rows
    masks: NDArray[np.bool_]

    def part(self, rows: slice) -> Legal:
        """Return some of the rows."""
        return Legal(self.names, self.rows[rows], self.masks[:, rows])


Objective = Callable[[StepPrice], Column]


def twin_passes(plan: Plan, names: PassNames, choices: Choices) -> NDArray[np.bool_]:
    """Whether a row is the same plan as one with plainer names for its passes."""
    plainer = names.sequence_parallel != min(choices.sequence_parallel)
    twin: NDArray[np.bool_] = (np.asarray(plan.tp) == 1) & plainer
    other: NDArray[np.bool_] = (np.asarray(plan.cp) == 1) & (names.cp_method != choices.cp_method[0])
    return np.logical_or(twin, other)


def twin_states(plan: Plan, names: StateNames, choices: Choices) -> NDArray[np.bool_]:
    """Whether a row is the same plan as one with a lower ZeRO stage: there is nobody to share with.

    Offloading is left alone, since runtimes offer it with some stages only.
    """
    plainer = names.zero != min(choices.zero) and names.offload == choices.offload[0]
    twin: NDArray[np.bool_] = (np.asarray(plan.dp * plan.cp) == 1) & plainer
    return twin


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
        for _, members in groupby(self.choices.passes(), lambda one: (one.sequence_parallel, one.cp_method)):
            cases = [self._legal(names, report) for names in members]
            grid = LayerGrid(self.space.rows, self._either(cases))
            for legal in cases:
                for start in range(0, legal.rows.size, CHUNK_ROWS):
                    self._price(legal.part(slice(start, start + CHUNK_ROWS)), grid, tables, objective, report)
                    yield
                if progress is not None:
                    progress(len(self.choices.states()))

    def _either(self, cases: Sequence[Legal]) -> Rows:
        """Return the rows of any of these."""
        wanted = np.zeros(self.space.size, dtype=bool)
        for legal in cases:
            wanted[legal.rows] = True
        return np.flatnonzero(wanted)

    def _legal(self, names: PassNames, report: ScanReport) -> Legal:
        """Return the rows that some choice of states makes legal plans; count the rules that others break."""
        states = self.choices.states()
        plan = named(self.space.rows, names, states[0], self.shards)
        case = case_of(plan, self.job, self.runtime)
        rows = self._legal_passes(plan, case, names, len(states), report)
        masks = np.zeros((len(states), rows.size), dtype=bool)
        for start in range(0, rows.size, CHUNK_ROWS):
            part = slice(start, start + CHUNK_ROWS)
            degrees = plan_rows(self.space.rows, rows[part])
            for index, one in enumerate(states):
                masks[index, part] = self._legal_states(named(degrees, names, one, self.shards), one, report)
        some = masks.any(axis=0)
        return Legal(names, rows[some], masks[:, some])

    def _legal_passes(
        self, plan: Plan, case: Case, names: PassNames, states: int, report: ScanReport
    ) -> NDArray[np.intp]:
        """Return the rows that keep the rules of the techniques, each standing for ``states`` plans."""
        twins = twin_passes(plan, names, self.choices)
        report.removed["same-as-another"] += states * int(np.count_nonzero(twins))
        return np.flatnonzero(obeying(technique_rules(plan, case), twins.size, states, report, ~twins))

    def _legal_states(self, plan: Plan, states: StateNames, report: ScanReport) -> NDArray[np.bool_]:
        """Return which plans keep the rules of offload and runtime."""
        twins = twin_states(plan, states, self.choices)
        report.removed["same-as-another"] += int(np.count_nonzero(twins))
        case = case_of(plan, self.job, self.runtime)
        rules = [*offload_rules(plan, case), *self.runtime.rules(plan, self.job)]
        return obeying(rules, twins.size, 1, report, ~twins)

    def _price(
        self, legal: Legal, grid: LayerGrid, tables: StageTables, objective: Objective, report: ScanReport
    ) -> None:
        """Price the passes of some rows once, and then the step for every choice of states."""
        names, states = legal.names, self.choices.states()
        rows = plan_rows(self.space.rows, legal.rows)
        case = case_of(named(rows, names, states[0], self.shards), self.job, self.runtime)
        stages, totals = tables.stages(case, legal.rows)
        started = time.perf_counter()
        costs = grid.costs(case, [*stages.counts, *totals], legal.rows)
        passes = price_passes(case, named(rows, names, StateNames(0, "none")), costs, stages, totals)
        report.seconds += time.perf_counter() - started
        for one, mask in zip(states, legal.masks, strict=True):
            if mask.any():
                plan = named(rows, names, one, self.shards)
                whole = case_of(plan, self.job, self.runtime)
                started = time.perf_counter()
                result = price_step(whole, plan, passes, stages)
                report.seconds += time.perf_counter() - started
                self._collect(result, plan, mask, objective, report)
                if self.uneven and self.split is None and is_splittable(whole):
                    self._collect_tight(whole, plan, result, mask, costs, totals, report)

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
            report.smallest = _candidate(result, plan, values, smallest)
        made = partial(_candidate, result, plan, values)
        report.best = merged(report.best, np.where(fits, values, np.inf), self.keep, made, by_value)
        bounds = np.where(fits, result.bound, np.inf)
        report.promising = merged(report.promising, bounds, self.keep, made, by_bound)

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
        """Keep plans that could be the fastest, and fit in the mean over their stages only."""
        best = report.best[0].value if report.best else np.inf
        worst = report.tight[-1].bound if len(report.tight) >= self.keep else np.inf
        hopeful = legal & (result.total_bytes > self.limit) & (result.bound < min(best, worst))
        rows = np.flatnonzero(hopeful & (np.asarray(plan.pp) > 1) & (np.asarray(plan.vpp) == 1))
        if not rows.size:
            return
        some = {piece: taken(cost, np.shape(plan.pp), rows) for piece, cost in costs.items()}
        counts = {piece: count if np.ndim(count) == 0 else count[rows] for piece, count in totals.items()}  # type: ignore[index]
        least = least_bytes(case, plan_rows(plan, rows), some, counts)
        bounds = np.full(len(hopeful), np.inf)
        bounds[rows] = np.where(least <= self.limit, np.asarray(result.bound)[rows], np.inf)
        made = partial(_candidate, result, plan, np.asarray(result.step))
        report.tight = merged(report.tight, bounds, self.keep, made, by_bound)


def by_value(candidate: Candidate) -> float:
    """Order by the objective."""
    return candidate.value


def by_bound(candidate: Candidate) -> float:
    """Order by what no assignment of layers can beat."""
    return candidate.bound


def merged(
    known: list[Candidate],
    keys: Column,
    keep: int,
    made: Callable[[int], Candidate],
    order: Callable[[Candidate], float],
) -> list[Candidate]:
    """Return the ``keep`` least of the known candidates and the rows with the least finite ``keys``."""
    worst = order(known[-1]) if len(known) >= keep else np.inf
    better = np.flatnonzero(keys < worst)
    if better.size > keep:
        better = better[np.argpartition(keys[better], keep - 1)[:keep]]
    return sorted([*known, *(made(int(index)) for index in better)], key=order)[:keep]


def _candidate(result: StepPrice, plan: Plan, values: Column, index: int) -> Candidate:
    return Candidate(
        value=float(values[index]),
        bound=float(np.asarray(result.bound)[index]),
        total_bytes=float(np.asarray(result.total_bytes)[index]),
        plan=plan.row((index,)),
    )


def obeying(
    rules: Sequence[Rule],
    size: int,
    weight: int,
    report: ScanReport,
    among: NDArray[np.bool_] | None = None,
) -> NDArray[np.bool_]:
    """Return the rows that keep every rule; count the others by the first they break, ``weight`` times."""
    left = np.ones(size, dtype=bool) if among is None else among
    for rule in rules:
        if np.all(rule.holds):
            continue
        holds = np.broadcast_to(np.asarray(rule.holds), (size,))
        report.removed[rule.name] += weight * int(np.count_nonzero(left & ~holds))
        left = left & holds
        if not left.any():
            break
    return left


def plan_rows(plan: Plan, index: Rows) -> Plan:
    """Return the rows of a plan of columns at ``index``."""
    degrees: dict[str, Any] = {name: np.asarray(getattr(plan, name))[index] for name in DEGREES}
    return replace(plan, **degrees)
