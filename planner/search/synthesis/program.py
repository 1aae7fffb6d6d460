r"""Schedule synthesis as a mixed-integer program, stated with PuLP and solved by HiGHS.

Variables: the start of every pass; for two passes of unlike codes on a rank, which runs first (binary, fixed
where a micro-batch's way decides it). What a rank holds before a forward is linear in these binaries. The
answer is put in the order of its starts and played like any other.
"""

from __future__ import annotations

from typing import Any

from planner.errors import SolverError
from planner.search.highs import solve_from
from planner.search.synthesis.precedence import always_before, earliest, pairs_on_ranks, tails
from planner.search.synthesis.problem import SLACK, Found, OrderProblem, Played, Words, play

GAP = 1e-6
"""Relative gap at which the solver may stop. [-]"""

_Cell = tuple[int, int]
"""Code and micro-batch."""


class OrderProgram:
    """The mixed-integer program of a problem, from a known order.

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
        import pulp

        played = play(problem, words)
        if played is None:
            raise SolverError("the order to start from does not run")
        self.pulp: Any = pulp
        self.problem = problem
        self.unit = max(problem.spans)
        self.model: Any = pulp.LpProblem("synthesis", pulp.LpMinimize)
        self.value: Any = self.model.add_variable("value", bound / self.unit, played.value / self.unit)
        self.model += self.value
        self.horizon = played.value + max(problem.offsets)
        self.early, self.late = self._windows()
        self.starts: dict[_Cell, Any] = {
            (code, turn): self.model.add_variable(
                f"s_{code}_{turn}",
                self.early[code][turn] / self.unit,
                max(self.early[code][turn], self.late[code][turn]) / self.unit,
            )
            for code in range(len(problem.spans))
            for turn in range(problem.microbatches)
        }
        self.first: dict[tuple[_Cell, _Cell], Any] = {}
        self._routes()
        for one, other in pairs_on_ranks(problem):
            self._pair(one, other)
        self._memory()
        self.known = self._known(words, played)

    def _windows(self) -> tuple[list[list[float]], list[list[float]]]:
        """Return earliest and latest start of every pass, the horizon given. [s]."""
        turns, least, head = range(self.problem.microbatches), tails(self.problem), earliest(self.problem)
        early = [[head[code] + turn * span for turn in turns] for code, span in enumerate(self.problem.spans)]
        late = [
            [self.horizon - least[code] - (len(turns) - turn) * span for turn in turns]
            for code, span in enumerate(self.problem.spans)
        ]
        return early, late

    def _routes(self) -> None:
        """Keep the way of every micro-batch, the order of micro-batches, and the objective."""
        problem, unit = self.problem, self.unit
        for (code, turn), start in self.starts.items():
            end = start + problem.spans[code] / unit
            target, latency = problem.targets[code]
            if target >= 0:
                self.model += self.starts[target, turn] >= end + latency / unit
            if code % 3 == 1:
                self.model += self.starts[code + 1, turn] >= end
            if turn + 1 < problem.microbatches:
                self.model += self.starts[code, turn + 1] >= end
            elif code % 3 == 2:
                self.model += self.value >= end - problem.offsets[problem.ranks[code // 3]] / unit

    def _pair(self, one: int, other: int) -> None:
        """Let one of two passes of unlike codes on a rank run first."""
        turns = range(self.problem.microbatches)
        fixed = always_before(self.problem, one, other)
        for turn in turns:
            for other_turn in turns:
                cells = (one, turn), (other, other_turn)
                self.first[cells] = 1 if fixed and turn <= other_turn else self._choice(*cells)
        for turn in turns[1:]:
            for other_turn in turns:
                # What runs before a pass of another code does so with all its own earlier passes.
                here = self.first[(one, turn), (other, other_turn)]
                self._at_most(here, self.first[(one, turn - 1), (other, other_turn)])
                self._at_most(
                    self.first[(one, other_turn), (other, turn - 1)],
                    self.first[(one, other_turn), (other, turn)],
                )

    def _at_most(self, one: Any, other: Any) -> None:
        if not (isinstance(one, int) or isinstance(other, int)):
            self.model += one <= other

    def _choice(self, cell: _Cell, other: _Cell) -> Any:
        """Return the binary that ``cell`` runs before ``other``, with what follows for their starts."""
        flag = self.model.add_variable("y_{}_{}_{}_{}".format(*cell, *other), cat="Binary")
        for before, after, chosen in ((cell, other, flag), (other, cell, 1 - flag)):
            span = self.problem.spans[before[0]]
            room = self.late[before[0]][before[1]] + span - self.early[after[0]][after[1]]
            self.model += self.starts[after] >= (
                self.starts[before] + span / self.unit - max(0.0, room) / self.unit * (1 - chosen)
            )
        return flag

    def _before(self, cell: _Cell, other: _Cell) -> Any:
        """Return 1, or the expression that is 1, where ``cell`` runs before ``other``."""
        if cell[0] == other[0]:
            return int(cell[1] < other[1])
        return self.first[cell, other] if (cell, other) in self.first else 1 - self.first[other, cell]

    def _memory(self) -> None:
        """Keep every rank within its limit before each forward."""
        problem, turns = self.problem, range(self.problem.microbatches)
        for rank, chunks in enumerate(problem.on_rank):
            codes = [3 * chunk + kind for chunk in chunks for kind in range(3)]
            for forward in codes[::3]:
                for turn in turns:
                    held = self.pulp.lpSum(
                        problem.changes[code] * self._before((code, other), (forward, turn))
                        for code in codes
                        for other in turns
                    )
                    room = problem.limits[rank] * (1.0 + SLACK) - problem.changes[forward]
                    self.model += held <= room

    def _known(self, words: Words, played: Played) -> dict[str, float]:
        """Return the values of all variables at the known order."""
        taken = [0] * len(self.problem.spans)
        at: dict[_Cell, tuple[float, int]] = {}
        for word, starts in zip(words, played.starts, strict=True):
            for place, (code, start) in enumerate(zip(word, starts, strict=True)):
                at[code, taken[code]] = (start, place)
                taken[code] += 1
        known = {"value": played.value / self.unit}
        known |= {variable.name: at[cell][0] / self.unit for cell, variable in self.starts.items()}
        for (cell, other), flag in self.first.items():
            if not isinstance(flag, int):
                known[flag.name] = float(at[cell][1] < at[other][1])
        return known

    def words(self) -> Words:
        """Return the order that the starts say, whatever their last digits.

        Raises `SolverError` if a start has no value.
        """
        table: list[list[tuple[float, int]]] = [[] for _ in range(self.problem.pp)]
        for (code, _), start in self.starts.items():
            value = start.value()
            if value is None:
                raise SolverError("the solver answered no starts")
            middle = value + self.problem.spans[code] / self.unit / 2
            table[self.problem.ranks[code // 3]].append((middle, code))
        return [[code for _, code in sorted(row)] for row in table]


def highs(problem: OrderProblem, words: Words, bound: float, time_limit: float) -> Found:
    """Solve with HiGHS from a known order.

    Raises `SolverError` if HiGHS is missing or ends without an answer.
    """
    program = OrderProgram(problem, words, bound)
    reached = solve_from(program.model, program.known, time_limit, GAP) * program.unit
    return Found(program.words(), reached * (1.0 - GAP), "HiGHS")
