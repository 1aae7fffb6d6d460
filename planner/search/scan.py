"""The scan: every legal plan of the space priced in columns, technique combination by combination."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.cost.block_cost import LayerCost, PricedLayer, taken
from planner.cost.case import Case, case_of
from planner.cost.layout import layer_weights, piece_costs, priced_layers
from planner.cost.legal import offload_rules, technique_rules
from planner.cost.stages import (
    Piece,
    Stages,
    deciding_ranks,
    default_split,
    rank_counts,
    stage_table,
)
from planner.cost.step import StepPrice, price_passes, price_step, total_table
from planner.numeric import Column, Num
from planner.plan import DEGREES, Plan
from planner.rules import Rule
from planner.runtimes._family import Job, Runtime
from planner.search.space import Space

CHUNK_ROWS = 16384
"""Rows priced at once, so that the columns stay in the cache."""

FAR_BATCH = 1e6
"""Micro-batches at which ranks are compared for what they hold in flight."""


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

    def run(self, objective: Objective, progress: Callable[[int], None] | None = None) -> ScanReport:
        """Price every legal plan and keep the best that fit."""
        report = ScanReport()
        passes, states = self.choices.passes(), self.choices.states()
        grid = LayerGrid(self.space.rows)
        tables = StageTables(self.space.rows, self.split)
        for names in passes:
            plan = named(self.space.rows, names, states[0], self.shards)
            case = case_of(plan, self.job, self.runtime)
            rows = self._legal_passes(plan, case, names, len(states), report)
            for start in range(0, rows.size, CHUNK_ROWS):
                chunk = rows[start : start + CHUNK_ROWS]
                self._scan_chunk(names, case, chunk, grid, tables, objective, report)
            if progress is not None:
                progress(len(states))
        combinations = len(passes) * len(states)
        report.enumerated = self.space.cells * combinations
        report.removed.update({rule: count * combinations for rule, count in self.space.removed.items()})
        return report

    def _legal_passes(
        self, plan: Plan, case: Case, names: PassNames, states: int, report: ScanReport
    ) -> NDArray[np.intp]:
        """Return the rows that keep the rules of the techniques, each standing for ``states`` plans."""
        twins = twin_passes(plan, names, self.choices)
        report.removed["same-as-another"] += states * int(np.count_nonzero(twins))
        rows = np.flatnonzero(~twins)
        left = obeying(technique_rules(plan_rows(plan, rows), case), rows.size, states, report)
        return rows[left]

    def _scan_chunk(
        self,
        names: PassNames,
        case: Case,
        chunk: NDArray[np.intp],
        grid: LayerGrid,
        tables: StageTables,
        objective: Objective,
        report: ScanReport,
    ) -> None:
        """Price the passes of some rows once, and then the step for every choice of states."""
        rows = plan_rows(self.space.rows, chunk)
        stages, totals = tables.stages(case, chunk)
        started = time.perf_counter()
        costs = grid.costs(case, [*stages.counts, *totals], chunk)
        passes = price_passes(case, named(rows, names, StateNames(0, "none")), costs, stages, totals)
        report.seconds += time.perf_counter() - started
        for states in self.choices.states():
            plan = named(rows, names, states, self.shards)
            twins = twin_states(plan, states, self.choices)
            report.removed["same-as-another"] += int(np.count_nonzero(twins))
            whole = case_of(plan, self.job, self.runtime)
            rules = [*offload_rules(plan, whole), *self.runtime.rules(plan, self.job)]
            legal = ~twins & obeying(rules, chunk.size, 1, report, ~twins)
            if not legal.any():
                continue
            started = time.perf_counter()
            result = price_step(whole, plan, passes, stages)
            report.seconds += time.perf_counter() - started
            self._collect(result, plan, legal, objective, report)

    def _collect(
        self,
        result: StepPrice,
        plan: Plan,
        legal: NDArray[np.bool_],
        objective: Objective,
        report: ScanReport,
    ) -> None:
        used = np.where(legal, result.total_bytes, np.inf)
        fits = used <= self.limit
        roomy = int(np.count_nonzero(used <= self.capacity))
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
        holds = np.broadcast_to(np.asarray(rule.holds), (size,))
        if not holds.all():
            report.removed[rule.name] += weight * int(np.count_nonzero(left & ~holds))
            left = left & holds
    return left


class StageTables:
    """What the deciding ranks hold for each distinct (pp, vpp), by schedule and recompute choice."""

    def __init__(self, rows: Plan, split: tuple[int, ...] | None = None) -> None:
        self.split = split
        keys = np.stack([np.asarray(rows.pp), np.asarray(rows.vpp)])
        self.pairs, inverse = np.unique(keys, axis=1, return_inverse=True)
        self.inverse = inverse.reshape(-1)
        self._known: dict[tuple[str, object], tuple[Stages, dict[Piece, Num]]] = {}

    def stages(self, case: Case, rows: NDArray[np.intp]) -> tuple[Stages, dict[Piece, Num]]:
        """Return the stages of some rows, and the pieces of the whole model."""
        key = (case.schedule.name, case.recompute)
        if key not in self._known:
            self._known[key] = self._table(case)
        table, totals = self._known[key]
        index = self.inverse[rows]
        return table.taken(index), {
            piece: count if isinstance(count, float) else count[index] for piece, count in totals.items()
        }

    def _table(self, case: Case) -> tuple[Stages, dict[Piece, Num]]:
        weights = layer_weights(case.model, case.workload.seq_len)
        all_ranks, deciding = [], []
        for pp, vpp in self.pairs.T.astype(int).tolist():
            split = self.split or default_split(case.model, pp * vpp, weights)
            ranks = rank_counts(case.model, case.schedule, (pp, vpp), split, case.recompute)
            in_flight = case.schedule.in_flight_chunks(
                float(pp), float(vpp), FAR_BATCH, np.arange(pp, dtype=float)
            )
            all_ranks.append(ranks)
            deciding.append(deciding_ranks(ranks, np.broadcast_to(in_flight, (pp,))))
        return stage_table(all_ranks, deciding), total_table(all_ranks)


class LayerGrid:
    """Distinct combinations of the degrees that a layer's cost depends on, priced once for each technique."""

    def __init__(self, rows: Plan) -> None:
        keys = np.stack(
            [np.asarray(getattr(rows, axis)) for axis in ("tp", "cp", "ep", "etp", "micro_batch")]
        )
        distinct, inverse = np.unique(keys, axis=1, return_inverse=True)
        self.plan = Plan(
            tp=distinct[0], cp=distinct[1], ep=distinct[2], etp=distinct[3], micro_batch=distinct[4]
        )
        self.shape = (distinct.shape[1],)
        self.inverse = inverse.reshape(-1)
        self._layers: dict[tuple[bool, str], dict[str, PricedLayer]] = {}
        self._costs: dict[tuple[bool, str, object], dict[Piece, LayerCost]] = {}

    def costs(self, case: Case, pieces: Sequence[Piece], rows: NDArray[np.intp]) -> dict[Piece, LayerCost]:
        """Return the cost of each piece for some rows."""
        index = self.inverse[rows]
        return {piece: taken(cost, self.shape, index) for piece, cost in self._priced(case, pieces).items()}

    def _priced(self, case: Case, pieces: Sequence[Piece]) -> dict[Piece, LayerCost]:
        key = (case.sequence_parallel, case.context.name)
        if key not in self._layers:
            self._layers[key] = {}
        missing = [piece for piece in pieces if piece[0] not in self._layers[key]]
        self._layers[key] |= priced_layers(case, self.plan, missing)
        full = (*key, case.recompute)
        if full not in self._costs:
            self._costs[full] = {}
        known = self._costs[full]
        known |= piece_costs(
            case, self.plan, self._layers[key], [piece for piece in pieces if piece not in known]
        )
        return known


def plan_rows(plan: Plan, index: NDArray[np.intp]) -> Plan:
    """Return the rows of a plan of columns at ``index``."""
    degrees: dict[str, Any] = {name: np.asarray(getattr(plan, name))[index] for name in DEGREES}
    return replace(plan, **degrees)
