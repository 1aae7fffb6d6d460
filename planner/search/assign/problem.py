r"""The assignment problem as plain arrays, and the one function that prices an answer.

Layers of a few kinds stand in a fixed order, as runs of equal layers; each pipeline stage takes at least one
layer, in order, and each layer one strategy. Layers of a kind are counted, never named. Symbols: :math:`K`
kinds, :math:`S` strategies, :math:`p` stages.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from planner.dataclasses import dataclass
from planner.errors import Infeasible
from planner.numeric import Column
from planner.units import GIB

ROUNDING = 1e-9
"""Relative slack of a memory limit: sums of the same bytes in another order are the same."""


HUGE = 1e200
"""More bytes than there are, and still a number. [byte]"""


def rounded_up(capacity: float) -> float:
    """Return a limit with the slack that sums in another order need, and finite."""
    return min(HUGE, capacity + ROUNDING * abs(capacity))


@dataclass(frozen=True)
class Segment:
    """Equal layers under one strategy, standing together on a stage."""

    kind: int
    strategy: int
    count: int


Stage = tuple[Segment, ...]
"""What a stage holds, in the order of the model."""

Assignment = tuple[Stage, ...]
"""What every stage holds."""


@dataclass(frozen=True)
class AssignProblem:
    r"""Layers, strategies and stages."""

    runs: tuple[tuple[int, int], ...]
    """Kind and number of equal layers, in the order of the model. [-]"""
    seconds: Column
    """Shape (K, S): time of a micro-batch in a layer, forward and backward; infinite where a strategy is
    none. [s]"""
    held: Column
    """Shape (K, S): bytes that a layer keeps for each micro-batch in flight. [byte]"""
    rebuilt: Column
    """Shape (K, S): bytes that exist while the backward of one such layer runs. [byte]"""
    static: Column
    """Shape (K, S): bytes of a layer at rest. [byte]"""
    extra_seconds: Column
    extra_bytes: Column
    """Shape (p,): time and bytes of each stage beside its layers: embedding, head, messages. [s], [byte]"""
    floor_bytes: Column
    """Shape (p,): what of a stage's backward exists at least, however little is rebuilt. [byte]"""
    in_flight: Column
    """Shape (p,): micro-batches whose activations a stage holds. [-]"""
    capacity: Column
    """Shape (p,): bytes that a stage may use. [byte]"""
    sum_weight: float
    slowest_weight: float
    """What a step takes of the sum over stages and of the slowest stage; 1 and m - 1 for 1F1B. [-]"""

    @property
    def stages(self) -> int:
        """Number of stages."""
        return len(self.extra_seconds)

    @property
    def layers(self) -> int:
        """Number of layers."""
        return sum(count for _, count in self.runs)

    @property
    def strategies(self) -> int:
        """Number of strategies."""
        return int(self.seconds.shape[1])

    @cached_property
    def layer_bytes(self) -> Column:
        """Bytes of a layer for as long as it lives, by stage, kind and strategy. [byte]"""
        nbytes: Column = self.static + self.in_flight[:, None, None] * self.held
        return nbytes

    def step_seconds(self, stage_seconds: Column) -> float:
        """Seconds of all passes of a step. [s]"""
        slowest = float(np.max(stage_seconds))
        return self.sum_weight * float(np.sum(stage_seconds)) + self.slowest_weight * slowest


@dataclass(frozen=True)
class Price:
    """What an assignment costs."""

    seconds: float
    """All passes of a step. [s]"""
    stage_seconds: Column
    stage_bytes: Column
    """A micro-batch, and the memory, of every stage. [s], [byte]"""
    fits: bool
    """Whether every stage has the memory."""


def price(problem: AssignProblem, assignment: Assignment) -> Price:
    """Price an assignment.

    Raises `ValueError` if it is no assignment of these layers: a layer left out, taken twice, or out of its
    order, an empty stage, or a strategy that is none.
    """
    check(problem, assignment)
    seconds = problem.extra_seconds + np.array([stage_seconds(problem, stage) for stage in assignment])
    nbytes = np.array([stage_bytes(problem, index, stage) for index, stage in enumerate(assignment)])
    fits = bool(np.all(nbytes <= problem.capacity * (1 + ROUNDING)))
    return Price(problem.step_seconds(seconds), seconds, nbytes, fits)


def _sum(weights: Column, stage: Stage) -> float:
    """Sum of weights (K, S) over the layers of a stage."""
    return sum(float(weights[part.kind, part.strategy]) * part.count for part in stage)


def stage_seconds(problem: AssignProblem, stage: Stage) -> float:
    """Seconds of a micro-batch in the layers of a stage. [s]"""
    return _sum(problem.seconds, stage)


def stage_bytes(problem: AssignProblem, index: int, stage: Stage) -> float:
    """Bytes of a stage at its peak. [byte]"""
    layers = _sum(problem.layer_bytes[index], stage)
    rebuilt = max(float(problem.rebuilt[part.kind, part.strategy]) for part in stage)
    return float(problem.extra_bytes[index]) + layers + max(rebuilt, float(problem.floor_bytes[index]))


def check(problem: AssignProblem, assignment: Assignment) -> None:
    """Raise ValueError where something is no assignment of the problem's layers."""
    if len(assignment) != problem.stages or not all(assignment):
        raise ValueError(f"{len(assignment)} stages, some of them empty, for {problem.stages}")
    parts = [part for stage in assignment for part in stage]
    if any(part.count < 1 or not np.isfinite(problem.seconds[part.kind, part.strategy]) for part in parts):
        raise ValueError("a part without layers, or under a strategy that is none")
    placed = [part.kind for part in parts for _ in range(part.count)]
    if placed != layer_kinds(problem):
        raise ValueError("the layers are not those of the model, each once and in their order")


def layer_kinds(problem: AssignProblem) -> list[int]:
    """Return the kind of every layer."""
    return [kind for kind, count in problem.runs for _ in range(count)]


def least_bytes(problem: AssignProblem, index: int, counts: Column) -> Column:
    """Bytes that a stage needs at least for blocks with these ``counts`` (blocks, K) of layers. [byte]

    For every size of the largest rebuilt layer, the smallest strategies that rebuild no more.
    """
    possible = np.isfinite(problem.seconds)
    best = np.full(len(counts), np.inf)
    for most in np.unique(problem.rebuilt[possible]):
        allowed = possible & (problem.rebuilt <= most)
        smallest = np.min(np.where(allowed, problem.layer_bytes[index], np.inf), axis=1)
        layers = np.where(counts > 0, counts * np.where(np.isfinite(smallest), smallest, 1e300), 0.0)
        best = np.minimum(best, layers.sum(axis=1) + max(float(most), float(problem.floor_bytes[index])))
    total: Column = best + float(problem.extra_bytes[index])
    return total


class NoAssignment(Infeasible):
    """No assignment fits; says where it fails, and the smallest capacity with which one would.

    Parameters
    ----------
    stage : int
        Stage that fails.
    needed, capacity : float
        Bytes that the stage would need at least, and what it has. [byte]
    """

    def __init__(self, stage: int, needed: float, capacity: float) -> None:
        self.stage, self.needed, self.capacity = stage, needed, capacity
        super().__init__(
            f"no assignment of the layers fits: stage {stage} has {capacity / GIB:.3g} GiB and would "
            f"need at least {needed / GIB:.4g} GiB"
        )
