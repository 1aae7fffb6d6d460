"""Rows of a space, priced once for all searches of it: those differ in what they look for, not in prices."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby
from typing import Final

import numpy as np
from numpy.typing import NDArray

from planner.cost.case import Case, case_of
from planner.cost.layer.layer_costs import LayerCost
from planner.cost.memory.weights import StageWeights, stage_weights
from planner.cost.stages import Piece, Stages
from planner.cost.step.step import PassPrice, StepPrice, mean_weights, price_passes, whole_step
from planner.cost.step.step_end import StepEnd, step_end, taken_weights
from planner.cost.traffic.sharing import sharing
from planner.dataclasses import dataclass
from planner.numeric import Num
from planner.plan import DEGREES, Plan
from planner.search.legality import (
    LAYOUT_AXES,
    Choices,
    Legal,
    Legality,
    PassNames,
    StateNames,
    named,
    plan_rows,
)
from planner.search.scope import Scope
from planner.search.tables import LayerGrid, Rows, StageTables, distinct, representatives, taken_rows
from planner.techniques.methods import METHODS

CHUNK_ROWS: Final = 16384
"""Rows priced at once, so that the columns stay in the cache."""

MOST_ROWS: Final = 2**15
"""Priced rows of a space that are remembered for other scans, of some kilobytes each; and of all others."""

MOST_SPACES: Final = 16
"""Spaces whose prices are remembered: the last ones."""

PLAIN: Final = StateNames(0, "none")
"""States that passes are priced with, where these do not matter there."""


Pieces = tuple[Mapping[Piece, LayerCost], Mapping[Piece, Num]]
"""Cost of each piece of the model, and how often the whole model has it."""


@dataclass(frozen=True)
class Passes:
    """Rows whose passes are priced."""

    names: PassNames
    """Techniques of the passes."""
    places: Rows
    """Shape (rows,): their places in the space."""
    rows: Plan
    case: Case
    """The rows with states that do not matter."""
    stages: Stages
    """What the stages of each hold."""
    pieces: Callable[[], Pieces]
    """Returns the cost of each piece of the model, and how often the whole model has it."""
    price: PassPrice
    """What the passes take."""

    def below(self, seconds: float, among: NDArray[np.bool_]) -> Rows:
        """Return the rows among some that no bound of their passes keeps from taking less. [s]"""
        bounds = np.broadcast_to(np.asarray(self.price.bound), among.shape)
        return np.flatnonzero(among & (bounds < seconds))


@dataclass(frozen=True)
class Ends:
    """The end of a step under every choice of states, priced once for each layout of the cluster."""

    states: tuple[StepEnd | None, ...]
    """For each choice of states; None where it is not known."""
    which: Rows
    """Shape (rows,): the layout of each row."""
    weights: tuple[StageWeights, StageWeights] | None = None
    """Weights of each stage, and of the mean one, of each layout; None where they are not known."""

    def part(self, rows: slice | Rows) -> Ends:
        """Return those of some rows."""
        return Ends(self.states, self.which[rows], self.weights)

    def taken(self) -> tuple[StageWeights, StageWeights] | None:
        """Return the weights of the rows."""
        if self.weights is None:
            return None
        held, mean = (taken_weights(one, self.which) for one in self.weights)
        return held, mean


Group = tuple[LayerGrid, list[Legal]]
"""Layers priced for the degrees of some rows, and the rows by the techniques of their passes."""


class SpacePrices:
    """Which rows of a space are legal plans, and their prices under each choice of techniques.

    ``scope``: job, runtime, space, and what is left to another scan; which techniques its search may choose,
    and what it looks for, do not matter.
    """

    def __init__(self, scope: Scope) -> None:
        self.job, self.runtime, self.rows = scope.job, scope.runtime, scope.space.rows
        self.shards, self.size = scope.shards, scope.space.size
        self.tables = StageTables(self.rows, scope.split)
        self.seconds = 0.0
        self.left = MOST_ROWS if self.size <= MOST_ROWS else 0
        self._groups: dict[Choices, list[tuple[Group, Counter[str]]]] = {}
        self._passes: dict[tuple[PassNames, StateNames, bytes], Passes] = {}
        self._steps: dict[tuple[PassNames, bytes, StateNames], tuple[Plan, Case, StepPrice]] = {}
        self._ends: dict[tuple[str, bool, bytes, StateNames], StepEnd] = {}

    def groups(self, scope: Scope, removed: Counter[str]) -> Iterator[Group]:
        """Yield the rows that are legal under the choices of a scope, those together whose layers cost alike.

        The rules that others break are counted.
        """
        known = self._groups.get(scope.choices)
        for group, broken in self._made(scope) if known is None else known:
            removed.update(broken)
            self._ends = {}
            yield group

    def _made(self, scope: Scope) -> Iterator[tuple[Group, Counter[str]]]:
        choices, found = scope.choices, []
        legality = Legality(
            self.rows, self.job, self.runtime, choices, self.shards, scope.known, scope.beside
        )
        for _, members in groupby(choices.passes(), lambda one: (one.sequence_parallel, one.cp_method)):
            broken: Counter[str] = Counter()
            cases = [legality.rows_of(names, broken) for names in members]
            made = (LayerGrid(self.rows, self._either(cases)), cases), broken
            if self.left:
                found.append(made)
            yield made
        if self.left:
            self._groups[choices] = found

    def _either(self, cases: Sequence[Legal]) -> Rows:
        """Return the rows of any of these."""
        wanted = np.zeros(self.size, dtype=bool)
        for legal in cases:
            wanted[legal.rows] = True
        return np.flatnonzero(wanted)

    def by_passes(self, legal: Legal, states: Sequence[StateNames]) -> Iterator[tuple[StateNames, Legal]]:
        """Yield states that stand for others in the price of passes, and what is legal with any of these.

        ZeRO's stage matters to passes beside adapters, whose inputs are cast where nothing is sharded.
        """
        if METHODS[self.job.workload.method].trains_base:
            yield PLAIN, legal
            return
        for stage in sorted({one.zero for one in states}):
            chosen = [place for place, one in enumerate(states) if one.zero == stage]
            yield StateNames(stage, "none"), legal.with_any(chosen)

    def ends(
        self, legal: Legal, grid: LayerGrid, states: Sequence[StateNames], plain: StateNames = PLAIN
    ) -> Ends:
        """Price the end of a step once for every layout of the cluster, whatever the micro-batch.

        A few rows are not worth it: they get theirs with their passes. ``plain`` are the states that passes
        are priced with.
        """
        if legal.rows.size <= CHUNK_ROWS:
            return Ends((None,) * len(legal.masks), legal.rows)
        started = time.perf_counter()
        index, which = representatives(self._layout[legal.rows])
        index = legal.rows[index]
        rows = plan_rows(self.rows, index)
        case = case_of(named(rows, legal.names, plain, self.shards), self.job, self.runtime)
        stages, totals = self.tables.stages(case, index)
        costs = grid.costs(case, [*stages.counts, *totals], index)
        held, mean = stage_weights(case, costs, stages), mean_weights(case, rows, costs, totals)
        ends: list[StepEnd | None] = []
        for one, mask in zip(states, legal.masks, strict=True):
            plan = named(rows, legal.names, one, self.shards)
            whole = case_of(plan, self.job, self.runtime)
            if not mask.any() or one.domain:
                ends.append(None)
                continue
            ends.append(step_end(whole, sharing(whole, plan, held), sharing(whole, plan, mean)))
        self.seconds += time.perf_counter() - started
        return Ends(tuple(ends), which, (held, mean))

    @cached_property
    def _layout(self) -> Rows:
        """The layout of the cluster that each row has."""
        return distinct([np.atleast_1d(getattr(self.rows, axis)) for axis in LAYOUT_AXES])[1]

    def passes(
        self, names: PassNames, places: Rows, grid: LayerGrid, ends: Ends, plain: StateNames = PLAIN
    ) -> Passes:
        """Price the passes of some rows, with the states that are ``plain`` there."""
        key = (names, plain, places.tobytes())
        if (known := self._passes.get(key)) is not None:
            return known
        rows = plan_rows(self.rows, places)
        case = case_of(named(rows, names, plain, self.shards), self.job, self.runtime)
        stages, totals = self.tables.stages(case, places)
        started = time.perf_counter()
        costs = grid.costs(case, [*stages.counts, *totals], places)
        price = price_passes(case, named(rows, names, plain), costs, stages, totals, ends.taken())
        self.seconds += time.perf_counter() - started
        made = Passes(names, places, rows, case, stages, lambda: (costs, totals), price)
        if self._keeps(places):
            self._passes[key] = made
        return made

    def some(self, passes: Passes, kept: Rows, grid: LayerGrid) -> Passes:
        """Return some of the rows whose passes are priced."""
        case, places, started = passes.case, passes.places[kept], time.perf_counter()
        stages, totals = self.tables.stages(case, places)
        price = taken_rows(passes.price, kept, passes.places.size)
        self.seconds += time.perf_counter() - started
        return Passes(
            passes.names, places, plan_rows(passes.rows, kept), case, stages,
            lambda: (grid.costs(case, [*stages.counts, *totals], places), totals), price,
        )  # fmt: skip

    def step(
        self, passes: Passes, states: StateNames, end: StepEnd | None = None
    ) -> tuple[Plan, Case, StepPrice]:
        """Price the step of rows whose passes are priced, under a choice of states."""
        key = (passes.names, passes.places.tobytes(), states)
        if (known := self._steps.get(key)) is not None:
            return known
        plan = named(passes.rows, passes.names, states, self.shards)
        case, started = case_of(plan, self.job, self.runtime), time.perf_counter()
        made = (
            plan,
            case,
            whole_step(case, plan, passes.price, passes.stages, end or self._end(passes, states, case, plan)),
        )
        self.seconds += time.perf_counter() - started
        if self._keeps(passes.places):
            self._steps[key] = made
        return made

    def _end(self, passes: Passes, states: StateNames, case: Case, plan: Plan) -> StepEnd:
        """Return what the end of a step takes, priced once for all choices of recompute.

        Of these matters alone whether whole layers run again, whose weights some engines gather once more.
        """
        key = (passes.names.schedule, case.recompute.whole_layer, passes.places.tobytes(), states)
        if (known := self._ends.get(key)) is None:
            shared = (sharing(case, plan, held) for held in (passes.price.weights, passes.price.mean))
            known = self._ends[key] = step_end(case, *shared)
        return known

    def _keeps(self, places: Rows) -> bool:
        """Whether prices of some more rows are remembered."""
        if enough := places.size <= self.left:
            self.left -= places.size
        return enough


RECENT: Final[list[tuple[Scope, SpacePrices]]] = []
"""Small spaces whose prices are remembered, the last one last, each with the scope that asked first."""


def prices_of(scope: Scope) -> SpacePrices:
    """Return the prices of a scope's space, where it is small those of an earlier scan of the same."""
    if scope.space.size > MOST_ROWS:
        return SpacePrices(scope)
    found = next((made for first, made in reversed(RECENT) if _same(first, scope)), None)
    if found is None:
        while len(RECENT) >= MOST_SPACES or sum(MOST_ROWS - made.left for _, made in RECENT) > MOST_ROWS:
            del RECENT[0]
        found = SpacePrices(scope)
        RECENT.append((scope, found))
    return found


def _same(one: Scope, other: Scope) -> bool:
    """Whether rows of two scopes are the same plans of one job at the same prices."""
    rows = one.space.rows
    return (
        one.job is other.job
        and one.runtime is other.runtime
        and one.beside is other.beside
        and one.space.size == other.space.size
        and (one.shards, one.split) == (other.shards, other.split)
        and all(np.array_equal(getattr(rows, name), getattr(other.space.rows, name)) for name in DEGREES)
    )
