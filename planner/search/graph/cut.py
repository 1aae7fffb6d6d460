r"""The best cut of a graph of layers: of one order by a dynamic program, of all by an integer program.

In the program :math:`x_{vs}` says that layer :math:`v` is on stage :math:`s` or before it, so that what reads
a layer is never before it; :math:`y_{us}` that the result of :math:`u` crosses the border behind :math:`s`.
It starts from the best cut of the file's order, which for a chain is the answer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.dataclasses import dataclass
from planner.errors import Infeasible, SolverError
from planner.search.graph.problem import CutProblem, Stages, slowest
from planner.search.highs import solve_from

TIME_LIMIT = 20.0
"""Time that the solver may take where nobody says. [s]"""

GAP = 1e-6
"""Relative gap at which it may stop. [-]"""

PROVED = 1e-4
"""Relative gap below which a cut counts as the best. [-]"""


@dataclass(frozen=True)
class Cut:
    """A cut, and below what no cut can be. [s]"""

    stages: Stages
    bound: float
    proved: bool


def best_cut(problem: CutProblem, time_limit: float = TIME_LIMIT) -> Cut:
    """Return the cut whose slowest stage takes least.

    Raises `Infeasible` if no cut keeps every stage within the limit; `SolverError` if the solver finds none
    in its time, and the file's order has none.
    """
    known = ordered_cut(problem)
    least = slowest(problem, known) if known else float("inf")
    program = CutProgram(problem, least)
    try:
        bound = solve_from(program.model, program.start(known) if known else {}, time_limit, GAP)
    except SolverError as error:
        if known:
            return Cut(known, 0.0, False)
        if "infeasible" in str(error):
            raise Infeasible(
                f"no cut into {problem.stages} stages keeps each within the memory limit"
            ) from error
        raise
    found = program.answer()
    best = min((one for one in (found, known) if one), key=lambda one: slowest(problem, one))
    seconds = slowest(problem, best)
    return Cut(best, bound * program.unit, seconds <= bound * program.unit * (1 + PROVED))


def ordered_cut(problem: CutProblem) -> Stages | None:
    """Return the best cut of the layers in their order into consecutive stages, if one fits."""
    layers, stages = len(problem.graph.layers), problem.stages
    borders = crossing_order(problem) / problem.rate
    times = np.cumsum([0.0, *(layer.seconds for layer in problem.graph.layers)])
    best = np.full((stages + 1, layers + 1), np.inf)
    begin = np.zeros((stages + 1, layers + 1), dtype=np.int64)
    best[0, 0] = 0.0
    for stage in range(stages):
        held = np.cumsum([0.0, *(problem.layer_bytes(layer, stage) for layer in range(layers))])
        for end in range(1, layers + 1):
            first = np.arange(end)
            seconds = times[end] - times[first] + borders[first] + borders[end]
            fits = held[end] - held[first] <= problem.memory_limit
            whole = np.where(fits, np.maximum(best[stage, :end], seconds), np.inf)
            begin[stage + 1, end] = int(np.argmin(whole))
            best[stage + 1, end] = whole[begin[stage + 1, end]]
    if not np.isfinite(best[stages, layers]):
        return None
    found: list[int] = []
    last = layers
    for stage in range(stages, 0, -1):
        start = int(begin[stage, last])
        found = [stage - 1] * (last - start) + found
        last = start
    return tuple(found)


def crossing_order(problem: CutProblem) -> NDArray[np.float64]:
    """Return the bytes that cross a border before each layer of the order, and one behind the last. [byte]"""
    crossing = np.zeros(len(problem.graph.layers) + 1)
    for source, nbytes, readers in problem.graph.results():
        crossing[source + 1 : max(readers) + 1] += nbytes
    return crossing


class CutProgram:
    """The integer program of a cut; times in units of all layers' time, bytes in those of the limit.

    Parameters
    ----------
    problem : CutProblem
        Graph, stages and limits.
    known : float
        Seconds of the slowest stage of a known cut, infinite where there is none. [s]
    """

    def __init__(self, problem: CutProblem, known: float) -> None:
        import pulp

        self.pulp: Any = pulp
        self.problem = problem
        self.unit = sum(layer.seconds for layer in problem.graph.layers)
        self.model: Any = pulp.LpProblem("cut", pulp.LpMinimize)
        most = known / self.unit if np.isfinite(known) else None
        self.slowest = self.model.add_variable("slowest", 0, most)
        self.model += 1.0 * self.slowest
        layers, borders = len(problem.graph.layers), range(problem.stages - 1)
        self.by = {
            (layer, border): self.model.add_variable(f"x_{layer}_{border}", cat="Binary")
            for layer in range(layers)
            for border in borders
        }
        self.crosses: dict[tuple[int, int], Any] = {}
        for layer in range(layers):
            for border in list(borders)[1:]:
                self.model += self.by[layer, border - 1] <= self.by[layer, border]
        self._results()
        for stage in range(problem.stages):
            self._stage(stage)

    def _by(self, layer: int, border: int) -> Any:
        """Whether a layer stands before a border; all do before the last, none before the first."""
        if border < 0:
            return 0
        return 1 if border >= self.problem.stages - 1 else self.by[layer, border]

    def _results(self) -> None:
        """Keep readers behind what they read, and mark the borders that a result crosses."""
        for source, _, readers in self.problem.graph.results():
            for border in range(self.problem.stages - 1):
                cross = self.model.add_variable(f"y_{source}_{border}", 0, 1)
                self.crosses[source, border] = cross
                for reader in readers:
                    self.model += self.by[reader, border] <= self.by[source, border]
                    self.model += cross >= self.by[source, border] - self.by[reader, border]

    def _stage(self, stage: int) -> None:
        """Keep a stage below the slowest and within the limit, with a layer at least."""
        problem = self.problem
        here = [
            self._by(layer, stage) - self._by(layer, stage - 1) for layer in range(len(problem.graph.layers))
        ]
        sizes = {source: nbytes for source, nbytes, _ in problem.graph.results()}
        terms = [
            problem.graph.layers[layer].seconds / self.unit * there for layer, there in enumerate(here)
        ] + [
            sizes[source] / problem.rate / self.unit * cross
            for (source, border), cross in self.crosses.items()
            if border in (stage - 1, stage)
        ]
        self.model += self.slowest >= self.pulp.lpSum(terms)
        self.model += self.pulp.lpSum(here) >= 1
        if np.isfinite(problem.memory_limit):
            held = [problem.layer_bytes(layer, stage) / problem.memory_limit for layer in range(len(here))]
            self.model += self.pulp.lpSum(one * there for one, there in zip(held, here, strict=True)) <= 1.0

    def start(self, stages: Stages) -> dict[str, float]:
        """Return the values of a known cut."""
        return {
            variable.name: float(stages[layer] <= border) for (layer, border), variable in self.by.items()
        }

    def answer(self) -> Stages:
        """Return the cut that was found."""
        borders = range(self.problem.stages - 1)
        return tuple(
            self.problem.stages - 1 - sum(round(self.by[layer, border].varValue) for border in borders)
            for layer in range(len(self.problem.graph.layers))
        )
