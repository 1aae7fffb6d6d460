"""Synthesised schedules: against all orders of small cases, hand-made schedules, and solvers that fail."""

from __future__ import annotations

import importlib.util
import math
from dataclasses import replace

import pulp
import pytest

from planner.errors import Infeasible, SolverError
from planner.search.synthesis.bounds import lower_bound
from planner.search.synthesis.constraints import cp_sat
from planner.search.synthesis.dispatch import dispatch, settings
from planner.search.synthesis.hand_made import hand_made, placements
from planner.search.synthesis.problem import Found, Objective, OrderProblem, Words, keeps_limit, words_of
from planner.search.synthesis.program import highs
from planner.search.synthesis.solvers import first_available
from planner.search.synthesis.synthesise import Synthesis, synthesise
from planner.simulate.bare import BarePipeline
from planner.simulate.record import ActivationBytes, memory_over_time, step_record
from planner.techniques.schedules import SCHEDULES
from planner.techniques.schedules.engine import Timeline, play
from planner.techniques.schedules.family import PassTimes
from tests.cases import every
from tests.deep import deep
from tests.unit.synthesis_cases import (
    count_orders,
    least_value,
    overfull,
    pipeline_of,
    random_problem,
    rank_orders,
    value_of,
)

SMALL = [problem for problem in map(random_problem, range(90)) if count_orders(problem) <= 1000]
OBJECTIVES: tuple[Objective, ...] = ("makespan", "span")


def played(made: Synthesis) -> Timeline:
    """Play an answer in the simulation, which shares no code with the search."""
    return play(made.orders, pipeline_of(made.problem))


def one_by_one(problem: OrderProblem) -> Words:
    """Return the order in which each micro-batch waits for the one before."""
    turns = [
        [3 * chunk for chunk in chunks] + [3 * chunk + kind for chunk in reversed(chunks) for kind in (1, 2)]
        for chunks in problem.on_rank
    ]
    return [turn * problem.microbatches for turn in turns]


def uneven(objective: Objective = "makespan", microbatches: int = 6) -> OrderProblem:
    """Return a pipeline of four unlike stages with tight memory, whose bound is not reached."""
    problem = OrderProblem.uniform(range(4), PassTimes(3, 8, 3, 0.5, 0.5), 2.0, microbatches, objective)
    return replace(problem, forward=(4.0, 2.0, 4.0, 3.0), input_gradient=(7.0, 9.0, 8.0, 6.0))


def test_there_are_enough_small_cases() -> None:
    assert len(SMALL) > 40
    assert {problem.objective for problem in SMALL} == set(OBJECTIVES)
    assert any(problem.ranks[-1] == 0 < problem.pp - 1 for problem in SMALL)


def test_orders_are_counted_as_they_are_made() -> None:
    for problem in SMALL:
        made = [rank_orders(problem, rank) for rank in range(problem.pp)]
        assert count_orders(problem) == math.prod(len(orders) for orders in made)


@pytest.mark.parametrize("start", range(0, 60, 10))
def test_best_of_all_orders(start: int) -> None:
    """Every order of a small pipeline is played; none is better, and the bound is above none."""
    for problem in SMALL[start : start + 10]:
        best = least_value(problem)
        made = synthesise([problem], solver=None)
        assert made.incumbent == pytest.approx(best, rel=1e-9), problem
        assert lower_bound(problem) <= best * (1 + 1e-9), problem
        assert made.bound <= made.incumbent


@every("seed", range(6))
def test_micro_batches_may_take_their_turns(seed: int) -> None:
    """Orders in which micro-batches overtake each other are no better."""
    problem = random_problem(seed, [(2, 1, 2), (1, 2, 1)])
    assert least_value(problem, any_turn=True) == pytest.approx(least_value(problem), rel=1e-12)


@pytest.mark.parametrize("start", range(0, 40, 10))
def test_integer_program_alone_finds_the_best(start: int) -> None:
    """From the worst order and without a bound, HiGHS proves what trying all orders finds."""
    for problem in SMALL[start : start + 10]:
        found = highs(problem, one_by_one(problem), 0.0, 20.0)
        best = least_value(problem)
        assert found.bound == pytest.approx(best, rel=1e-4), problem
        made = synthesise(
            [problem], solver=lambda *_, words=found.words, bound=best: Found(words, bound, "x")
        )
        assert made.incumbent == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize("seed", range(1000, deep(1008, 1020)))
def test_the_simulation_agrees(seed: int) -> None:
    """Value, memory and completeness of the answer by the independent simulation."""
    problem = random_problem(seed, [(3, 1, 5), (4, 1, 6), (2, 2, 4), (3, 2, 3), (2, 3, 3)])
    made = synthesise([problem], time_limit=0.3, solver=None)
    timeline = played(made)
    assert value_of(problem, timeline) == pytest.approx(made.incumbent, rel=1e-9)
    assert not overfull(problem, timeline)
    for rank, passes in enumerate(made.orders):
        assert len(set(passes)) == len(passes) == 3 * problem.microbatches * len(problem.on_rank[rank])


NEVER_WORSE = [
    (4, 1, 6, (1.0, 1.0, 1.0, 0.0), 1.0, 4.0),
    (4, 1, 8, (3.0, 2.0, 1.0, 0.2), 1.0, 8.0),
    (5, 1, 7, (1.0, 2.0, 0.5, 0.1), 0.4, 5.0),
    (3, 2, 6, (1.0, 1.0, 1.0, 0.1), 1.0, 6.0),
    (2, 2, 6, (2.0, 3.0, 1.0, 0.0), 1.0, 9.0),
    (4, 2, 8, (1.0, 1.2, 0.7, 0.0), 1.0, 8.0),
    (2, 3, 4, (1.0, 1.0, 1.0, 0.3), 0.5, 9.0),
    (3, 1, 4, (2.0, 1.0, 3.0, 0.0), 1.0, math.inf),
]


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("case", NEVER_WORSE)
def test_never_worse_than_a_hand_made_schedule(
    case: tuple[int, int, int, tuple[float, float, float, float], float, float], objective: Objective
) -> None:
    """Each registered schedule, played as it is, with its whole backward where it has one."""
    pp, vpp, microbatches, numbers, kept, limit = case
    times = PassTimes(*numbers, kept_share=kept)
    room = min(limit, float(vpp * microbatches))
    problems = [
        OrderProblem.uniform(ranks, times, room, microbatches, objective) for ranks in placements(pp, vpp)
    ]
    made = synthesise(problems, time_limit=0.2, solver=None)
    rivals = 0
    for name, schedule in SCHEDULES.items():
        if schedule.supports(pp, vpp, microbatches) or schedule.routes > 1 or not schedule.flushes:
            continue
        timeline = BarePipeline(schedule, pp, vpp, microbatches, times).played()
        sizes = ActivationBytes((1.0,) * pp * vpp, (kept,) * pp * vpp)
        peaks = [held for rank in range(pp) for _, held in memory_over_time(timeline, rank, sizes)]
        if max(peaks) <= limit + 1e-9:
            record = step_record(timeline)
            value = record.makespan if objective == "makespan" else record.longest_span
            assert made.incumbent <= value * (1 + 1e-9), name
            rivals += 1
    assert rivals
    assert made.rival is not None
    assert made.incumbent <= made.rival[1]


@every(("limit", "makespan"), [(4, 24 + 3), (8, 24 + 3), (1, 8 * (4 + 4) + 8)])
def test_makespans_by_hand(limit: int, makespan: int) -> None:
    """Four ranks, eight micro-batches, F = B = W = 1.

    Within the memory of 1F1B rank 0 cannot be busy between its fourth forward and the first gradient, which
    comes at seven: three slots are lost, as with ZB-H1. With one activation, micro-batches go one by one, and
    all but the last weight gradient of rank 0, too, wait for each other there.
    """
    made = synthesise([OrderProblem.uniform(range(4), PassTimes(), limit, 8)], solver=None)
    assert made.incumbent == makespan
    assert made.proved


def test_bounds_by_hand() -> None:
    """ZB-H1 is the best within 1F1B's memory: idle before the first gradient, and after the last forward.

    Rank 0 holds p forwards and waits (p - 1)(B + 2c) for the first gradient; after its last forward p - 1
    others are left to fill (p - 1)(F + B + 2c) with, B + W each: (p - 1)(F + B - W + 4c) in all.
    """
    forward, gradient, weight, hop = 5.0, 6.0, 3.0, 0.25
    problem = OrderProblem.uniform(range(8), PassTimes(forward, gradient, weight, hop), 8.0, 24)
    idle = 7 * (forward + gradient - weight + 4 * hop)
    assert lower_bound(problem) == pytest.approx(24 * (forward + gradient + weight) + idle, rel=1e-6)


def test_more_memory_is_never_slower_and_no_bound_falls() -> None:
    values, bounds = [], []
    for limit in (1.0, 1.5, 2.0, 3.0, 4.0, 6.0):
        problem = OrderProblem.uniform(range(3), PassTimes(3, 4, 2, 0.5, 0.5), limit, 4)
        made = synthesise([problem], solver=highs)
        assert made.proved
        values.append(made.incumbent)
        bounds.append(lower_bound(problem))
    assert values == sorted(values, reverse=True)
    assert bounds == sorted(bounds, reverse=True)
    assert values[0] > values[-1]


def test_list_scheduling_finds_an_order_at_the_smallest_limit() -> None:
    """Two chunks on a rank, two activations: a forward must leave room for its own later chunk."""
    for ranks in placements(3, 2):
        problem = OrderProblem.uniform(ranks, PassTimes(), 2.0, 4)
        orders = [words for setting in settings(problem) if (words := dispatch(problem, setting)) is not None]
        assert orders
        assert all(keeps_limit(problem, rank, word) for words in orders for rank, word in enumerate(words))


def test_a_limit_too_small_names_the_smallest_that_would_do() -> None:
    problem = replace(
        OrderProblem.uniform(placements(3, 2)[0], PassTimes(), 1.5, 4), saved=(1.0, 1.0, 1.0) * 2
    )
    with pytest.raises(Infeasible, match=r"rank 0 may hold 1.5 .* smallest limit .* is 2$"):
        synthesise([problem])
    made = synthesise([replace(problem, limits=(2.0,) * 3)], time_limit=1.0, solver=None)
    assert not overfull(made.problem, played(made))


def test_seeds_are_the_registered_schedules() -> None:
    problem = OrderProblem.uniform(range(4), PassTimes(), 4.0, 8)
    names = {name for name, _ in hand_made(problem)}
    assert {"1f1b", "zb-h1", "zb-1p"} <= names
    assert not names & {"gpipe", "zb-h2", "zb-v", "dualpipe", "pipedream"}


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_uneven_stages_are_proved_by_the_integer_program(objective: Objective) -> None:
    """Bounds alone leave a gap here; trying all orders is out of reach, two ways must agree."""
    problem = uneven(objective)
    alone = synthesise([problem], time_limit=0.4, solver=None)
    made = synthesise([problem], time_limit=20.0, solver=highs)
    assert alone.gap > 0.02
    assert (made.proved, made.solver, made.note) == (True, "HiGHS", "")
    assert made.incumbent <= alone.incumbent
    assert value_of(problem, played(made)) == pytest.approx(made.incumbent)


def crashing(problem: OrderProblem, words: Words, bound: float, time_limit: float) -> Found:
    raise SolverError("out of memory")


def too_full(problem: OrderProblem, words: Words, bound: float, time_limit: float) -> Found:
    """Answer all forwards first, which no limit of two allows."""
    return Found([sorted(word, key=lambda code: code % 3) for word in words], bound, "HiGHS")


def overbold(problem: OrderProblem, words: Words, bound: float, time_limit: float) -> Found:
    return Found(words, 1e9, "HiGHS")


@pytest.mark.parametrize(
    ("solver", "note"),
    [
        (crashing, "solver without an answer: out of memory"),
        (too_full, "HiGHS answered an order that does not hold, which is left out"),
        (overbold, "HiGHS answered a bound above a known order, which is left out"),
    ],
)
def test_a_solver_that_fails_leaves_the_known_order(solver: object, note: str) -> None:
    problem = uneven()
    alone = synthesise([problem], time_limit=0.2, solver=None)
    made = synthesise([problem], time_limit=1.0, solver=solver)  # type: ignore[arg-type]
    assert (made.bound, made.note) == (alone.bound, note)
    assert value_of(problem, played(made)) == pytest.approx(made.incumbent)
    assert not overfull(problem, played(made))


def test_a_missing_solver_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulp.HiGHS, "available", lambda self: False)
    made = synthesise([uneven()], time_limit=1.0, solver=highs)
    assert made.note == "solver without an answer: HiGHS is not installed"


def test_no_time_is_told() -> None:
    made = synthesise([uneven()], time_limit=0.0, solver=highs)
    assert made.note == "no time left for a solver"
    assert not overfull(made.problem, played(made))


def test_large_cases_are_left_to_the_heuristic() -> None:
    problem = uneven(microbatches=128)
    made = synthesise([problem], time_limit=0.3, solver=highs)
    assert "no solver asked for more than" in made.note
    assert 0.0 < made.gap < 0.3


def test_starts_with_last_digits_off_still_make_an_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """A solver's 14.999999999999996 for 15 is an order all the same: the starts are sorted, then played."""
    value = pulp.LpVariable.value
    monkeypatch.setattr(
        pulp.LpVariable, "value", lambda self: None if (v := value(self)) is None else v * (1 - 1e-12)
    )
    problem = SMALL[0]
    found = highs(problem, one_by_one(problem), 0.0, 20.0)
    assert found.words is not None
    made = synthesise([problem], solver=lambda *_: found)
    assert made.incumbent == pytest.approx(least_value(problem))


@pytest.mark.skipif(importlib.util.find_spec("ortools") is not None, reason="OR-Tools is installed")
def test_without_or_tools() -> None:
    problem = SMALL[0]
    with pytest.raises(SolverError, match=r"CP-SAT ended with exit code 1: .*No module named 'ortools'"):
        cp_sat(problem, one_by_one(problem), 0.0, 5.0)
    assert first_available(problem, one_by_one(problem), 0.0, 5.0).solver == "HiGHS"


@pytest.mark.ortools
def test_cp_sat_agrees_with_all_orders() -> None:
    for problem in SMALL[:20]:
        found = cp_sat(problem, one_by_one(problem), 0.0, 20.0)
        assert found.bound == pytest.approx(least_value(problem), rel=1e-5), problem
    assert first_available(problem, one_by_one(problem), 0.0, 5.0).solver == "CP-SAT"


def test_whole_backwards_become_two_passes() -> None:
    words = words_of(SCHEDULES["1f1b"].order(2, 1, 2))
    assert words == [[0, 0, 1, 2, 1, 2], [3, 4, 5, 3, 4, 5]]
