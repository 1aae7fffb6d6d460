"""Assignment by decomposition: blocks priced by counting, stages by a dynamic program; exact, and fast.

Blocks start at their lower bounds. Only a block that could stand in an answer as good as the best known is
counted out, and the dynamic program runs again, until all blocks of its answer are exact: then no other
answer is better.
"""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from planner.dataclasses import dataclass
from planner.errors import Infeasible, SolverError
from planner.numeric import Column
from planner.search.assign.blocks import BlockTable, make_blocks
from planner.search.assign.counting import fastest
from planner.search.assign.problem import (
    ROUNDING,
    Assignment,
    AssignProblem,
    NoAssignment,
    Segment,
    Stage,
    layer_kinds,
    least_bytes,
    price,
)
from planner.search.assign.sweep import Partition, best_partition, block_columns, bottleneck, least_sums

MOST_ROUNDS = 2_000
"""Runs of the dynamic program at most."""


@dataclass(frozen=True)
class Solution:
    """An assignment, and what is known of the best."""

    assignment: Assignment
    """What each stage holds."""
    incumbent: float
    bound: float
    """Its seconds for all passes of a step, and seconds that no assignment beats. [s]"""
    seconds: float
    """Time that it took. [s]"""
    method: str
    """``decomposition`` or ``integer program``."""
    note: str = ""
    """Why a solver was not used or not believed, where one was asked."""

    @property
    def gap(self) -> float:
        """Share of the incumbent that a better assignment could save at most. [-]"""
        return max(0.0, 1.0 - self.bound / self.incumbent) if self.incumbent > 0 else 0.0


def decompose(problem: AssignProblem) -> Solution:
    """Solve a problem by decomposition.

    Raises `Infeasible` if no assignment fits; names the stage and the smallest capacity that would do.
    """
    started = time.perf_counter()
    check_capacity(problem)
    search = _Search(problem)
    found = search.run()
    if found is None:
        raise Infeasible("no assignment of the layers fits")
    assignment, bound = search.assignment(found[0]), found[1]
    seconds = price(problem, assignment).seconds
    return Solution(assignment, seconds, min(bound, seconds), time.perf_counter() - started, "decomposition")


def check_capacity(problem: AssignProblem) -> None:
    """Raise NoAssignment where the layers do not fit the stages, with the capacity of a stage that would do.

    Raises `ValueError` if there are more stages than layers.
    """
    if problem.stages > problem.layers:
        raise ValueError(f"{problem.layers} layers cannot give each of {problem.stages} stages one")
    blocks = make_blocks(problem, problem.layers - problem.stages + 1)
    needs = np.stack([least_bytes(problem, stage, blocks.counts) for stage in range(problem.stages)])
    check_excess(block_columns(needs - problem.capacity[:, None], blocks.index), problem.capacity)


def check_excess(columns: Column, capacity: Column) -> None:
    """Raise NoAssignment where some stage exceeds its capacity in every partition."""
    worst = bottleneck(columns)
    if worst <= ROUNDING * float(capacity.max()):
        return
    partition = best_partition(np.where(columns <= worst, columns, np.inf), 0.0, 1.0)
    sizes = partition.sizes if partition is not None else ()
    ends = np.cumsum(sizes)
    found = [float(columns[stage, ends[stage], size]) for stage, size in enumerate(sizes)]
    stage = int(np.argmax(found))
    raise NoAssignment(stage, float(capacity[stage]) + found[stage], float(capacity[stage]))


class _Search:
    """Prices of blocks that become exact where it matters."""

    def __init__(self, problem: AssignProblem) -> None:
        self.problem = problem
        self.weights = (problem.sum_weight, problem.slowest_weight)
        self.table = BlockTable(problem, problem.layers - problem.stages + 1)
        self.prices: Column = self.table.bounds.copy()
        self.bounds: Column = self.prices.copy()
        self.exact: NDArray[np.bool_] = ~np.isfinite(self.prices)
        self.stages: dict[tuple[int, int], Stage] = {}
        self.best: Partition | None = None

    def run(self) -> tuple[Partition, float] | None:
        """Return the best partition, and a bound for all; None where nothing fits."""
        index = self.table.blocks.index
        for _ in range(MOST_ROUNDS):
            columns = block_columns(self.prices, index)
            partition = best_partition(columns, *self.weights)
            if partition is None:
                break
            used = self._places(partition)
            if all(self.exact[place] for place in used):
                self._offer(partition)
                break
            for place in used:
                self._count(*place)
            self._offer(partition)
            self._count_where_it_matters(columns)
        lowest = best_partition(block_columns(self.bounds, index), *self.weights)
        if lowest is None:
            return None
        if self.best is None:
            raise SolverError("the decomposition found no assignment and no proof that there is none")
        return self.best, min(lowest.value, self.best.value)

    def assignment(self, partition: Partition) -> Assignment:
        """Return what each stage of a partition holds, in the order of the model."""
        kinds, start, stages = layer_kinds(self.problem), 0, []
        for place, size in zip(self._places(partition), partition.sizes, strict=True):
            stages.append(_placed(self.stages[place], kinds[start : start + size]))
            start += size
        return tuple(stages)

    def prices_of(self, partition: Partition) -> Column:
        """Return the price of each part of a partition."""
        return np.array([self.prices[place] for place in self._places(partition)])

    def _places(self, partition: Partition) -> list[tuple[int, int]]:
        """Return stage and block of each part of a partition."""
        starts = np.cumsum((0, *partition.sizes[:-1]))
        index = self.table.blocks.index
        return [
            (stage, int(index[start, size]))
            for stage, (start, size) in enumerate(zip(starts, partition.sizes, strict=True))
        ]

    def _count(self, stage: int, block: int) -> None:
        """Price a block on a stage exactly."""
        if self.exact[stage, block]:
            return
        blocks, extra = self.table.blocks, float(self.table.extra[stage])
        choice = fastest(self.table.relaxations[stage], blocks.keys[block], blocks.counts[block].tolist())
        self.prices[stage, block] = choice.seconds + extra
        self.bounds[stage, block] = max(self.bounds[stage, block], choice.bound + extra)
        self.exact[stage, block] = True
        self.stages[stage, block] = choice.stage

    def _offer(self, partition: Partition) -> None:
        """Keep a partition, at its exact prices, where it is the best so far."""
        prices = self.prices_of(partition)
        value = self.weights[0] * float(prices.sum()) + self.weights[1] * float(prices.max())
        if np.isfinite(value) and (self.best is None or value < self.best.value):
            self.best = Partition(partition.sizes, value, float(prices.sum()), float(prices.max()))

    def _count_where_it_matters(self, columns: Column) -> None:
        """Count out the blocks that could stand in a better answer than the best known.

        Such an answer is no better than the least sum through the block and the slowest stage that is at
        least the block and at least the shortest possible one.
        """
        if self.best is None:
            return
        before = least_sums(columns)
        after = _sums_after(columns)
        shortest = bottleneck(columns)
        ends = np.arange(columns.shape[1])[:, None] - np.arange(columns.shape[2])[None, :]
        starts = np.maximum(ends, 0)
        for stage in range(self.problem.stages):
            total = before[stage][starts] + columns[stage] + after[stage + 1][:, None]
            inside = np.isfinite(total) & (ends >= 0)
            longest = np.maximum(columns[stage], shortest)
            value = self.weights[0] * total[inside] + self.weights[1] * longest[inside]
            inside[inside] = value < self.best.value * (1 + ROUNDING)
            end, size = np.nonzero(inside)
            for block in np.unique(self.table.blocks.index[end - size, size]):
                self._count(stage, int(block))


def _sums_after(columns: Column) -> Column:
    """Return the least sum over the last stages from each layer on."""
    stages, ends, sizes = columns.shape
    sums = np.full((stages + 1, ends), np.inf)
    sums[stages, ends - 1] = 0.0
    spans = np.arange(sizes)
    behind = np.arange(ends)[:, None] + spans[None, :]
    inside = behind < ends
    behind = np.minimum(behind, ends - 1)
    for stage in range(stages - 1, -1, -1):
        prices = np.where(inside, columns[stage][behind, spans[None, :]], np.inf)
        sums[stage] = (prices + sums[stage + 1][behind]).min(axis=1)
    return sums


def _placed(stage: Stage, kinds: list[int]) -> Stage:
    """Return a choice as segments in the order of the model's layers; equal neighbours are one segment."""
    if [segment.kind for segment in stage for _ in range(segment.count)] == kinds:
        return stage
    pools = {
        kind: [segment.strategy for segment in stage if segment.kind == kind for _ in range(segment.count)]
        for kind in dict.fromkeys(kinds)
    }
    parts: list[Segment] = []
    for kind in kinds:
        strategy = pools[kind].pop(0)
        if parts and (parts[-1].kind, parts[-1].strategy) == (kind, strategy):
            parts[-1] = Segment(kind, strategy, parts[-1].count + 1)
        else:
            parts.append(Segment(kind, strategy, 1))
    return tuple(parts)
