"""The driver: the best order that hand-made schedules, list scheduling, annealing and a program find."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from planner.dataclasses import dataclass
from planner.errors import Infeasible
from planner.search.synthesis.anneal import anneal
from planner.search.synthesis.bounds import lower_bound
from planner.search.synthesis.dispatch import dispatch, settings
from planner.search.synthesis.hand_made import hand_made
from planner.search.synthesis.problem import (
    CLOSE,
    SLACK,
    Found,
    OrderProblem,
    Words,
    check_limits,
    keeps_limit,
    orders_of,
    play,
)
from planner.search.synthesis.solvers import Solver, first_available
from planner.techniques.schedules.family import Orders

TIME_LIMIT: Final = 20.0
"""Seconds given where nobody says. [s]"""

MOST_PAIRS: Final = 20_000
"""Pairs of passes of unlike codes on one rank up to which a solver is asked."""

ANNEALING_SHARE: Final = 0.5
"""Share of the time left that annealing takes at most."""

PROVED: Final = 2e-6
"""Gap at which an order is proved best: twice the tolerance of a solver. [-]"""

LEAST_SECONDS: Final = 0.1
"""Time below which a solver is not asked. [s]"""


@dataclass(frozen=True)
class Synthesis:
    """An order, and what is known of the best."""

    problem: OrderProblem
    """The pipeline that the order is for: one of those asked."""
    orders: Orders
    """The passes of every rank."""
    incumbent: float
    bound: float
    """Its value of the objective, and a value that no order for any of the pipelines beats. [s]"""
    seconds: float
    """Time that it took. [s]"""
    method: str
    """What found the order: a hand-made schedule's name, or the part of the search."""
    solver: str
    """The solver that was asked, or empty."""
    rival: tuple[str, float] | None
    """Name and value of the best hand-made schedule within the limits. [s]"""
    note: str
    """Why a solver was not used or not believed, where one was asked."""

    @property
    def gap(self) -> float:
        """Share of the incumbent that a better order could save at most. [-]"""
        return max(0.0, 1.0 - self.bound / self.incumbent) if self.incumbent > 0 else 0.0

    @property
    def proved(self) -> bool:
        """Whether no order is better, but for what solvers take for equal."""
        return self.gap <= PROVED


def synthesise(
    problems: Sequence[OrderProblem],
    time_limit: float = TIME_LIMIT,
    solver: Solver | None = first_available,
    seed: int = 0,
) -> Synthesis:
    """Return the best order had for any of some pipelines, never worse than a hand-made one.

    Parameters
    ----------
    problems : sequence of OrderProblem
        The same step with its chunks in different places; one objective.
    time_limit : float
        When to stop looking. [s]
    solver : callable, optional
        What certifies small cases; None asks none.
    seed : int
        Seed of the annealing.

    Raises
    ------
    Infeasible
        If a rank cannot hold one micro-batch; has the smallest limit that would do.
    """
    search = _Search(_possible(problems), time.perf_counter() + time_limit, seed)
    search.over(search.try_hand_made)
    search.over(search.try_dispatch)
    search.over(search.try_annealing)
    if solver is not None:
        search.over(lambda place: search.try_solver(place, solver))
    return search.answer(time.perf_counter() + time_limit - search.deadline)


def _possible(problems: Sequence[OrderProblem]) -> list[OrderProblem]:
    """Return the problems that any order solves."""
    possible, fault = [], None
    for problem in problems:
        try:
            check_limits(problem)
        except Infeasible as error:
            fault = fault or error
        else:
            possible.append(problem)
    if fault and not possible:
        raise fault
    return possible


class _Search:
    """The best order so far, and the bounds."""

    def __init__(self, problems: list[OrderProblem], deadline: float, seed: int) -> None:
        self.problems, self.deadline, self.seed = problems, deadline, seed
        self.bounds = [lower_bound(problem) for problem in problems]
        self.values = [float("inf")] * len(problems)
        self.words: list[Words] = [[] for _ in problems]
        self.methods = [""] * len(problems)
        self.rival: tuple[str, float] | None = None
        self.solver = ""
        self.asked: set[int] = set()
        self.notes: list[str] = []

    def over(self, attempt: Callable[[int], None]) -> None:
        """Let one part of the search work on every problem that may hold a better order."""
        for place in sorted(range(len(self.problems)), key=self.bounds.__getitem__):
            if self.bounds[place] < min(self.values) * (1.0 - CLOSE):
                attempt(place)

    def offer(self, place: int, words: Words, method: str) -> float:
        """Take an order where it is the best of its problem, runs, and keeps the limits; return its value."""
        problem = self.problems[place]
        played = play(problem, words)
        if played is None or not all(keeps_limit(problem, rank, word) for rank, word in enumerate(words)):
            return float("inf")
        if played.value < self.values[place] * (1.0 - SLACK):
            self.values[place], self.words[place], self.methods[place] = played.value, words, method
        return played.value

    def try_hand_made(self, place: int) -> None:
        """Play the registered schedules."""
        for name, words in hand_made(self.problems[place]):
            value = self.offer(place, words, name)
            if self.rival is None or value < self.rival[1] * (1.0 - SLACK):
                self.rival = (name, value)

    def try_dispatch(self, place: int) -> None:
        """Lay orders out by list scheduling, one setting after the other."""
        problem = self.problems[place]
        for setting in settings(problem):
            late = time.perf_counter() > self.deadline and self.words[place]
            if late or self.values[place] <= self.bounds[place] * (1.0 + CLOSE):
                return
            words = dispatch(problem, setting)
            if words is not None:
                self.offer(place, words, "list scheduling")

    def try_annealing(self, place: int) -> None:
        """Improve the best order step by step."""
        now = time.perf_counter()
        if now < self.deadline:
            end = now + ANNEALING_SHARE * (self.deadline - now)
            words = anneal(self.problems[place], self.words[place], self.bounds[place], end, self.seed)
            self.offer(place, words, "annealing")

    def try_solver(self, place: int, solver: Solver) -> None:
        """Ask a solver for a better order or a better bound."""
        least = min(self.values) * (1.0 - CLOSE)
        waiting = [
            other for other, bound in enumerate(self.bounds) if bound < least and other not in self.asked
        ]
        self.asked.add(place)
        left = (self.deadline - time.perf_counter()) / len(waiting)
        problem = self.problems[place]
        if problem.pairs > MOST_PAIRS:
            self.notes.append(f"no solver asked for more than {MOST_PAIRS:,} pairs of passes")
        elif left < LEAST_SECONDS:
            self.notes.append("no time left for a solver")
        else:
            self._ask(place, solver, left)

    def _ask(self, place: int, solver: Solver, left: float) -> None:
        problem, known = self.problems[place], self.values[place]
        try:
            found: Found = solver(problem, self.words[place], self.bounds[place], left)
        except Exception as error:
            # Whatever a solver does, its absence included, an order that holds is at hand.
            self.notes.append(f"solver without an answer: {error or type(error).__name__}")
            return
        self.solver = found.solver
        if found.words is not None and self.offer(place, found.words, found.solver) > known * (1.0 + SLACK):
            self.notes.append(f"{found.solver} answered an order that does not hold, which is left out")
        if found.bound > self.values[place] * (1.0 + SLACK):
            self.notes.append(f"{found.solver} answered a bound above a known order, which is left out")
        else:
            self.bounds[place] = max(self.bounds[place], found.bound)

    def answer(self, seconds: float) -> Synthesis:
        """Return the best order of all problems."""
        best = min(range(len(self.problems)), key=self.values.__getitem__)
        incumbent, bound = self.values[best], min(self.bounds)
        return Synthesis(
            problem=self.problems[best],
            orders=orders_of(self.words[best]),
            incumbent=incumbent,
            bound=incumbent if bound >= incumbent * (1.0 - CLOSE) else bound,
            seconds=seconds,
            method=self.methods[best],
            solver=self.solver,
            rival=self.rival,
            note="; ".join(dict.fromkeys(self.notes)),
        )
