r"""Assignment as one integer program, stated with PuLP: counts of equal layers, no binaries for each.

Variables, for stage :math:`i`, run :math:`r` and strategy :math:`s`: layers :math:`x_{irs}` (integer);
whether a strategy is used, where that costs memory or time (binary); whether a run has ended by a stage,
where there are several (binary); the slowest stage :math:`T`. The answer is rounded to whole layers and
priced like any other; an answer that is none, or a solver that is missing, fails or finds nothing, leaves
the decomposition's.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from planner.dataclasses import replace
from planner.errors import SolverError
from planner.search.assign.decompose import Solution, decompose
from planner.search.assign.problem import Assignment, AssignProblem, Segment, price
from planner.search.highs import solve_from

TIME_LIMIT = 10.0
"""Seconds given to a solver where nobody says. [s]"""

GAP = 1e-4
"""Relative gap at which a solver may stop. [-]"""

Solver = Callable[["AssignProgram", float], float]
"""Solves a program within a time limit; returns a bound of its objective, or raises SolverError."""


class AssignProgram:
    """The integer program of a problem."""

    def __init__(self, problem: AssignProblem) -> None:
        import pulp

        self.pulp: Any = pulp
        self.problem = problem
        self.scale = float(np.max(problem.capacity[np.isfinite(problem.capacity)], initial=1.0))
        self.model: Any = pulp.LpProblem("assignment", pulp.LpMinimize)
        self.counts: dict[tuple[int, int, int], Any] = {}
        self.used: dict[tuple[int, int, int], Any] = {}
        slowest = self.model.add_variable("slowest", 0)
        self.model += problem.slowest_weight * slowest + problem.sum_weight * pulp.lpSum(
            self._stage_seconds(stage, slowest) for stage in range(problem.stages)
        )
        self._runs()
        for stage in range(problem.stages):
            self._memory(stage)
        self.start: dict[str, float] = {}

    def _variables(self, stage: int) -> list[tuple[int, int, int]]:
        return [
            (stage, run, strategy)
            for run, (kind, _) in enumerate(self.problem.runs)
            for strategy in range(self.problem.strategies)
            if np.isfinite(self.problem.seconds[kind, strategy])
        ]

    def _stage_seconds(self, stage: int, slowest: Any) -> Any:
        """Make the counts of a stage, and return its time, which the slowest stage takes at least."""
        runs, seconds = self.problem.runs, self.problem.seconds
        terms = [float(self.problem.extra_seconds[stage])]
        for key in self._variables(stage):
            _, run, strategy = key
            name = f"x_{stage}_{run}_{strategy}"
            self.counts[key] = self.model.add_variable(name, 0, runs[run][1], "Integer")
            terms.append(float(seconds[runs[run][0], strategy]) * self.counts[key])
        total = self.pulp.lpSum(terms)
        self.model += slowest >= total
        self.model += self.pulp.lpSum(self.counts[key] for key in self._variables(stage)) >= 1
        return total

    def _use(self, key: tuple[int, int, int]) -> Any:
        """Return the binary that some layer of a run on a stage takes a strategy."""
        if key not in self.used:
            stage, run, strategy = key
            flag = self.model.add_variable(f"u_{stage}_{run}_{strategy}", cat="Binary")
            self.model += self.counts[key] <= self.problem.runs[run][1] * flag
            self.model += self.counts[key] >= flag
            self.used[key] = flag
        return self.used[key]

    def _runs(self) -> None:
        """Place every layer once, a run only where the runs before it have ended."""
        runs, stages = self.problem.runs, self.problem.stages
        for run, (_, count) in enumerate(runs):
            placed: Any = 0
            for stage in range(stages):
                here = self.pulp.lpSum(self.counts[key] for key in self._variables(stage) if key[1] == run)
                placed = placed + here
                if run + 1 < len(runs):
                    ended = self.model.add_variable(f"e_{stage}_{run}", cat="Binary")
                    self.model += placed >= count * ended
                    following = [key for key in self._variables(stage) if key[1] == run + 1]
                    self.model += (
                        self.pulp.lpSum(self.counts[key] for key in following) <= runs[run + 1][1] * ended
                    )
            self.model += placed == count

    def _memory(self, stage: int) -> None:
        """Keep a stage within its capacity, the largest rebuilt layer included; in units of the capacity."""
        problem, keys = self.problem, self._variables(stage)
        rebuilt = {key: float(problem.rebuilt[problem.runs[key[1]][0], key[2]]) for key in keys}
        floor = float(problem.floor_bytes[stage])
        peak = self.model.add_variable(f"peak_{stage}", floor / self.scale)
        for key, nbytes in rebuilt.items():
            if nbytes > floor:
                least = min(floor, nbytes) / self.scale
                self.model += peak >= least + (nbytes / self.scale - least) * self._use(key)
        layers = self.pulp.lpSum(
            float(problem.layer_bytes[stage, problem.runs[key[1]][0], key[2]]) / self.scale * self.counts[key]
            for key in keys
        )
        room = (float(problem.capacity[stage]) - float(problem.extra_bytes[stage])) / self.scale
        self.model += layers + peak <= room

    def start_from(self, assignment: Assignment) -> None:
        """Take a known answer to start from, and look for nothing worse."""
        known = price(self.problem, assignment).seconds
        self.model += self.model.objective <= known * (1 + 1e-6)
        placed = dict.fromkeys(self.counts, 0)
        run, left = 0, self.problem.runs[0][1]
        for stage, parts in enumerate(assignment):
            for part in parts:
                if not left:
                    run, left = run + 1, self.problem.runs[run + 1][1]
                placed[stage, run, part.strategy] += part.count
                left -= part.count
        self.start = {self.counts[key].name: float(count) for key, count in placed.items()}
        self.start |= {flag.name: float(placed[key] > 0) for key, flag in self.used.items()}

    def answer(self) -> Assignment:
        """Return the assignment that the variables say, rounded to whole layers.

        Raises `SolverError` if a variable has no value or is far from a whole number.
        """
        stages: list[list[Segment]] = [[] for _ in range(self.problem.stages)]
        for (stage, run, strategy), variable in sorted(self.counts.items()):
            value = variable.value()
            if value is None or abs(value - round(value)) > 1e-4:
                raise SolverError(f"the solver answered {value} layers")
            if round(value):
                stages[stage].append(Segment(self.problem.runs[run][0], strategy, round(value)))
        return tuple(map(tuple, stages))


def highs(program: AssignProgram, time_limit: float) -> float:
    """Solve with HiGHS, started from the known answer; return its bound."""
    reached = solve_from(program.model, program.start, time_limit, GAP)
    return reached + float(program.model.objective.constant)


def certify(
    problem: AssignProblem, known: Solution, time_limit: float = TIME_LIMIT, solver: Solver = highs
) -> Solution:
    """Improve a known answer or its bound by the integer program.

    Parameters
    ----------
    problem : AssignProblem
        Layers, strategies and stages.
    known : Solution
        The decomposition's answer, from which the program starts.
    time_limit : float
        For the solver. [s]
    solver : callable
        Such as `highs`.

    Returns
    -------
    Solution
        The better answer with the better bound; the known one with a note, where the solver has none that
        holds.
    """
    started = time.perf_counter()
    try:
        program = AssignProgram(problem)
        program.start_from(known.assignment)
        bound = solver(program, time_limit)
        assignment = program.answer()
        found = price(problem, assignment)
    except Exception as error:
        # Whatever a solver does, its absence included, the decomposition has an answer that holds.
        note = f"integer program without an answer, decomposition taken: {error or type(error).__name__}"
        return replace(known, seconds=known.seconds + time.perf_counter() - started, note=note)
    seconds = known.seconds + time.perf_counter() - started
    bound = min(max(bound, known.bound), known.incumbent)
    if not found.fits or found.seconds >= known.incumbent:
        note = "" if found.fits else "the integer program's answer does not fit, decomposition taken"
        return replace(known, bound=bound, seconds=seconds, note=note)
    return Solution(assignment, found.seconds, min(bound, found.seconds), seconds, "integer program")


def solve(
    problem: AssignProblem, time_limit: float = TIME_LIMIT, enough: float = GAP, solver: Solver = highs
) -> Solution:
    """Solve by decomposition, and by the integer program where that leaves a gap larger than ``enough``.

    Raises `Infeasible` if no assignment fits; names the stage and the smallest capacity that would do.
    """
    try:
        known = decompose(problem)
    except SolverError:
        return _program_alone(problem, time_limit, solver)
    return known if known.gap <= enough else certify(problem, known, time_limit, solver)


def _program_alone(problem: AssignProblem, time_limit: float, solver: Solver) -> Solution:
    """Solve by the integer program where the decomposition has no answer to start from.

    Raises `SolverError` if the program has none either, or one that does not fit.
    """
    started = time.perf_counter()
    program = AssignProgram(problem)
    bound = solver(program, time_limit)
    assignment = program.answer()
    found = price(problem, assignment)
    if not found.fits:
        raise SolverError("the integer program's answer does not fit")
    seconds = time.perf_counter() - started
    return Solution(assignment, found.seconds, min(bound, found.seconds), seconds, "integer program")
