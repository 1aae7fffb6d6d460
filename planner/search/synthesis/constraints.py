"""Schedule synthesis for CP-SAT of OR-Tools, the optional extra ``synthesis``: intervals and memory.

It runs in a process of its own: OR-Tools brings a HiGHS along that cannot be loaded beside ``highspy``.
Times are counted in whole units, rounded down, and memory likewise, so that its bound holds for the real
numbers; its order is played with these like any other.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import asdict
from typing import Any, Final

from planner.errors import SolverError
from planner.search.synthesis.precedence import earliest, tails
from planner.search.synthesis.problem import SLACK, Found, OrderProblem, Words, play

MOST_UNITS: Final = 10**7
"""Units that the horizon has at least, where the times are no whole numbers of larger ones."""

GRACE: Final = 10.0
"""Time that the process may take beside the search: to start, and to state the model. [s]"""

MEMORY_UNITS: Final = 10**6
"""Units of memory in one activation."""


class Model:
    """The constraint model of a problem, from a known order.

    Parameters
    ----------
    problem : OrderProblem
        Pipeline, limits and objective.
    words : list of list of int
        A known order within the limits.
    bound : float
        A known bound of the objective. [s]
    """

    def __init__(self, problem: OrderProblem, words: Words, bound: float) -> None:
        from ortools.sat.python import cp_model

        played = play(problem, words)
        if played is None:
            raise SolverError("the order to start from does not run")
        self.problem = problem
        self.horizon = played.value + max(problem.offsets)
        self.units = _units(problem, self.horizon)
        self.model: Any = cp_model.CpModel()
        most = math.ceil(played.value * self.units)
        self.value: Any = self.model.new_int_var(math.floor(bound * self.units), most, "value")
        self.starts = self._starts()
        self._routes()
        for rank in range(problem.pp):
            self._rank(rank)
        self.model.minimize(self.value)
        for word, starts in zip(words, played.starts, strict=True):
            taken = [0] * len(problem.spans)
            for code, start in zip(word, starts, strict=True):
                self.model.add_hint(self.starts[code][taken[code]], self._whole(start))
                taken[code] += 1

    def _whole(self, seconds: float) -> int:
        return math.floor(seconds * self.units * (1.0 + SLACK) + SLACK)

    def _starts(self) -> list[list[Any]]:
        """Return a variable for the start of every pass."""
        turns, head, least = range(self.problem.microbatches), earliest(self.problem), tails(self.problem)
        slack = 4 * self.problem.chunks + 4
        return [
            [
                self.model.new_int_var(
                    max(0, self._whole(head[code]) - slack),
                    math.ceil((self.horizon - least[code] - span) * self.units) + slack,
                    f"s_{code}_{turn}",
                )
                for turn in turns
            ]
            for code, span in enumerate(self.problem.spans)
        ]

    def _routes(self) -> None:
        """Keep the way of every micro-batch, the order of micro-batches, and the objective."""
        problem, last = self.problem, self.problem.microbatches - 1
        for code, row in enumerate(self.starts):
            span, (target, latency) = self._whole(problem.spans[code]), problem.targets[code]
            for turn, start in enumerate(row):
                if target >= 0:
                    self.model.add(self.starts[target][turn] >= start + span + self._whole(latency))
                if code % 3 == 1:
                    self.model.add(self.starts[code + 1][turn] >= start + span)
                if turn < last:
                    self.model.add(row[turn + 1] >= start + span)
            if code % 3 == 2:
                offset = math.ceil(problem.offsets[problem.ranks[code // 3]] * self.units * (1.0 - SLACK))
                self.model.add(self.value >= row[last] + span - offset)

    def _rank(self, rank: int) -> None:
        """Let a rank run one pass at a time, and hold no more than it may."""
        problem, passes, lives, sizes = self.problem, [], [], []
        for chunk in problem.on_rank[rank]:
            spans = [self._whole(problem.spans[3 * chunk + kind]) for kind in range(3)]
            shed = problem.saved[chunk] - problem.kept[chunk]
            for turn in range(problem.microbatches):
                starts = [self.starts[3 * chunk + kind][turn] for kind in range(3)]
                passes += [
                    self.model.new_fixed_size_interval_var(start, span, "")
                    for start, span in zip(starts, spans, strict=True)
                ]
                for kind, size in ((1, shed), (2, problem.kept[chunk])):
                    life = self.model.new_int_var(0, math.ceil(self.horizon * self.units), "")
                    end = starts[kind] + spans[kind]
                    lives.append(self.model.new_interval_var(starts[0], life, end, ""))
                    sizes.append(math.floor(size * MEMORY_UNITS * (1.0 + SLACK)))
        self.model.add_no_overlap(passes)
        room = math.ceil(problem.limits[rank] * MEMORY_UNITS * (1.0 + SLACK))
        self.model.add_cumulative(lives, sizes, room)

    def words(self, solver: Any) -> Words:
        """Return the order that the starts say."""
        table: list[list[tuple[int, int]]] = [[] for _ in range(self.problem.pp)]
        for code, row in enumerate(self.starts):
            span = self._whole(self.problem.spans[code])
            table[self.problem.ranks[code // 3]] += [(2 * solver.value(start) + span, code) for start in row]
        return [[code for _, code in sorted(row)] for row in table]


def _units(problem: OrderProblem, horizon: float) -> float:
    """Return units to the second: a power of ten that makes all times whole, or fine enough."""
    times = [*problem.spans, *problem.latencies, *problem.offsets]
    exponent = -math.floor(math.log10(horizon))
    while horizon * 10.0**exponent < MOST_UNITS:
        scaled = [time * 10.0**exponent for time in times]
        if all(abs(number - round(number)) <= SLACK * max(1.0, number) for number in scaled):
            break
        exponent += 1
    return 10.0**exponent


def cp_sat(problem: OrderProblem, words: Words, bound: float, time_limit: float) -> Found:
    """Solve with CP-SAT from a known order, in a process of its own.

    Raises `SolverError` if OR-Tools is missing, or its search fails or ends without an answer.
    """
    question = {"problem": asdict(problem), "words": words, "bound": bound, "time_limit": time_limit}
    command = [sys.executable, "-P", "-m", __name__]
    try:
        done = subprocess.run(
            command, input=json.dumps(question), capture_output=True, text=True, timeout=time_limit + GRACE
        )
    except subprocess.TimeoutExpired as error:
        raise SolverError(f"CP-SAT did not stop after {time_limit:.3g} s") from error
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise SolverError(f"CP-SAT ended with exit code {done.returncode}: {last}")
    answer = json.loads(done.stdout)
    return Found(answer["words"], answer["bound"], "CP-SAT")


def solved(problem: OrderProblem, words: Words, bound: float, time_limit: float) -> Found:
    """Solve with CP-SAT in this process.

    Raises `SolverError` if the search ends without an answer.
    """
    from ortools.sat.python import cp_model

    model = Model(problem, words, bound)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = time_limit
    solver.parameters.num_workers = 1
    status = solver.solve(model.model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE, cp_model.UNKNOWN):
        raise SolverError(f"CP-SAT ended with {solver.status_name(status).lower()}")
    order = None if status == cp_model.UNKNOWN else model.words(solver)
    return Found(order, solver.best_objective_bound / model.units, "CP-SAT")


def main() -> None:
    """Read a question from standard input, and write the answer to standard output, both as JSON."""
    question = json.load(sys.stdin)
    fields: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in question.pop("problem").items()
    }
    found = solved(OrderProblem(**fields), **question)
    sys.stdout.write(json.dumps({"words": found.words, "bound": found.bound}))


if __name__ == "__main__":
    main()
