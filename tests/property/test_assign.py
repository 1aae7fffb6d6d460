"""Assignment: prices by hand, solvers against brute force and each other, and answers that are none."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from planner.errors import Infeasible, SolverError
from planner.search.assign import counting
from planner.search.assign.decompose import Solution, decompose
from planner.search.assign.problem import AssignProblem, Segment, price
from planner.search.assign.program import GAP, AssignProgram, Solver, certify, highs, solve
from planner.units import GIB
from tests.cases import every
from tests.unit.assign_cases import brute_force, random_problem

HAND = AssignProblem(
    runs=((0, 2), (1, 3)),
    seconds=np.array([[1.0, 1.5], [4.0, 5.0]]),
    held=np.array([[6.0, 1.0], [8.0, 2.0]]),
    rebuilt=np.array([[0.0, 5.0], [0.0, 7.0]]),
    static=np.array([[2.0, 2.0], [3.0, 3.0]]),
    extra_seconds=np.array([0.25, 0.75]),
    extra_bytes=np.array([10.0, 20.0]),
    floor_bytes=np.array([0.0, 6.0]),
    in_flight=np.array([2.0, 1.0]),
    capacity=np.array([65.0, 45.0]),
    sum_weight=1.0,
    slowest_weight=7.0,
)
"""Two plain layers and three heavy ones on two stages, to be kept (0) or recomputed (1); 8 micro-batches."""

UNEVEN = (
    (Segment(0, 0, 1), Segment(0, 1, 1), Segment(1, 0, 1)),
    (Segment(1, 1, 2),),
)


def test_a_step_by_hand() -> None:
    """Stage 0: 1 + 1.5 + 4; stage 1: two layers of 5 s; all stages once and the slowest for the others.

    Stages of unequal layers are those of Yuan 2.0 (arXiv:2311.15786), which prints no time of them.
    """
    told = price(HAND, UNEVEN)
    assert told.stage_seconds.tolist() == [0.25 + 6.5, 0.75 + 10.0]
    layers = (2 + 2 * 6) + (2 + 2 * 1) + (3 + 2 * 8)
    assert told.stage_bytes.tolist() == [10 + layers + 5, 20 + 2 * (3 + 2) + 7]
    assert told.seconds == (6.75 + 10.75) + 7 * 10.75
    assert told.fits
    assert not price(replace(HAND, capacity=np.array([51.0, 45.0])), UNEVEN).fits


def test_what_is_rebuilt_is_no_less_than_the_loss() -> None:
    kept = ((Segment(0, 0, 2), Segment(1, 0, 2)), (Segment(1, 0, 1),))
    assert price(HAND, kept).stage_bytes[1] == 20 + (3 + 8) + 6


@every(
    ("wrong", "words"),
    [
        (UNEVEN[:1], "1 stages"),
        ((UNEVEN[0], ()), "empty"),
        ((UNEVEN[0], (Segment(1, 1, 1),)), "each once"),
        ((UNEVEN[1], UNEVEN[0]), "in their order"),
        ((UNEVEN[0], (Segment(1, 1, 2), Segment(1, 0, 0))), "without layers"),
    ],
)
def test_what_is_no_assignment_is_refused(wrong: tuple[tuple[Segment, ...], ...], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        price(HAND, wrong)


def found(problem: AssignProblem, solver: Callable[[AssignProblem], Solution] = decompose) -> float:
    """Return the seconds of a solver's answer, checked to hold; infinite where it says that nothing fits."""
    try:
        solution = solver(problem)
    except Infeasible:
        return float("inf")
    told = price(problem, solution.assignment)
    assert told.fits
    assert told.seconds == pytest.approx(solution.incumbent, rel=1e-12)
    assert solution.gap < 1e-12
    return told.seconds


def test_decomposition_is_brute_force() -> None:
    problems = [random_problem(seed) for seed in range(100)]
    wanted = [brute_force(problem) for problem in problems]
    assert [found(problem) for problem in problems] == wanted
    assert 10 < np.isinf(wanted).sum() < 50


@pytest.mark.slow
def test_decomposition_is_brute_force_a_thousand_times() -> None:
    problems = [random_problem(seed) for seed in range(1000, 2000)]
    assert [found(problem) for problem in problems] == [brute_force(problem) for problem in problems]


def cbc(program: AssignProgram, time_limit: float) -> float:
    """Solve with CBC to the end; return its objective, which then is its bound: a second opinion on HiGHS."""
    pulp = program.pulp
    solver = pulp.COIN_CMD(path=pulp.PULP_CBC_CMD.pulp_cbc_path, msg=False, timeLimit=time_limit, threads=1)
    status = program.model.solve(solver)
    if status != pulp.LpStatusOptimal or program.model.sol_status != pulp.LpSolutionOptimal:
        raise SolverError(f"CBC ended with {pulp.LpStatus[status].lower()}")
    return float(program.model.objective.value())


def optimum(problem: AssignProblem, solver: Solver) -> float:
    """Return the seconds of a solver's own answer, started from nothing."""
    program = AssignProgram(problem)
    bound = solver(program, 60.0)
    told = price(problem, program.answer())
    assert told.fits
    assert bound <= told.seconds * (1 + 1e-6)
    return told.seconds


@pytest.mark.parametrize("solver", [highs, cbc])
def test_integer_programs_are_the_decomposition(solver: Solver) -> None:
    for seed in range(15):
        problem = random_problem(seed)
        wanted = found(problem)
        if np.isfinite(wanted):
            assert optimum(problem, solver) == pytest.approx(wanted, rel=2 * GAP)


@pytest.mark.slow
@pytest.mark.parametrize("solver", [highs, cbc])
def test_integer_programs_are_the_decomposition_hundreds_of_times(solver: Solver) -> None:
    for seed in range(300, 500):
        problem = random_problem(seed)
        wanted = found(problem)
        if np.isfinite(wanted):
            assert optimum(problem, solver) == pytest.approx(wanted, rel=2 * GAP)


def test_an_infeasible_program_is_refused() -> None:
    tight = replace(HAND, capacity=np.array([30.0, 30.0]))
    for solver in (highs, cbc):
        with pytest.raises(SolverError, match="infeasible"):
            solver(AssignProgram(tight), 10.0)


def in_gib(problem: AssignProblem, capacity: float) -> AssignProblem:
    """Return a problem whose bytes are gibibytes, with one capacity for all stages."""
    fields = {
        name: getattr(problem, name) * GIB
        for name in ("held", "rebuilt", "static", "extra_bytes", "floor_bytes")
    }
    return replace(problem, **fields, capacity=np.full(problem.stages, capacity * GIB))


def test_the_smallest_capacity_that_would_do() -> None:
    """With what the message names the layers fit, with a whole number less they don't."""
    told = 0
    for seed in range(120):
        problem = in_gib(random_problem(seed), 12.0)
        if np.isfinite(brute_force(problem)):
            continue
        with pytest.raises(Infeasible) as caught:
            decompose(problem)
        words = re.search(r"stage (\d+) has 12 GiB and would need at least (\d+) GiB", str(caught.value))
        assert words is not None, caught.value
        assert int(words[1]) < problem.stages
        needed = float(words[2])
        assert np.isfinite(brute_force(in_gib(random_problem(seed), needed)))
        assert np.isinf(brute_force(in_gib(random_problem(seed), needed - 1.0)))
        told += 1
    assert told > 20


def test_more_stages_than_layers_are_refused() -> None:
    one = replace(HAND, runs=((0, 1),))
    with pytest.raises(ValueError, match="1 layers cannot give each of 2 stages one"):
        decompose(one)


def test_the_slowest_stage_alone_and_the_sum_alone() -> None:
    """With m = 1 only the sum counts, with many micro-batches hardly anything but the slowest stage."""
    for seed in range(40):
        problem = replace(random_problem(seed), slowest_weight=0.0)
        assert found(problem) == brute_force(problem)
        problem = replace(problem, sum_weight=0.0, slowest_weight=1.0)
        assert found(problem) == brute_force(problem)


@pytest.fixture
def cut_short(monkeypatch: pytest.MonkeyPatch) -> list[AssignProblem]:
    """Problems that a search of one node leaves open, while it is no longer than that."""
    monkeypatch.setattr(counting, "MOST_NODES", 1)
    problems = [random_problem(seed) for seed in left_open()]
    assert len(problems) >= 4
    return problems


@cache
def left_open() -> list[int]:
    """Return the seeds of those problems, looked for once, while a search has one node."""
    assert counting.MOST_NODES == 1
    return [seed for seed in range(200, 900) if found_gap(random_problem(seed)) > GAP]


def found_gap(problem: AssignProblem) -> float:
    """Return the gap that the decomposition leaves; none where nothing fits."""
    try:
        return decompose(problem).gap
    except Infeasible:
        return 0.0


def test_a_search_cut_short_has_a_bound_that_holds(cut_short: list[AssignProblem]) -> None:
    for problem in cut_short:
        solution, least = decompose(problem), brute_force(problem)
        assert solution.bound <= least * (1 + 1e-12)
        assert least <= solution.incumbent
        assert price(problem, solution.assignment).fits


def test_the_program_runs_only_where_a_gap_is_left(cut_short: list[AssignProblem]) -> None:
    assert solve(HAND, solver=crashes).note == ""
    for problem in cut_short:
        told = solve(problem)
        assert told.incumbent == pytest.approx(brute_force(problem), rel=2 * GAP)
        assert told.gap < 2 * GAP
        assert "segmentation" in solve(problem, solver=crashes).note


def large(seed: int) -> AssignProblem:
    """Return 126 layers on 16 stages with 24 strategies each, memory tight."""
    draw = np.random.default_rng(seed)
    stages, shape = 16, (1, 24)
    return AssignProblem(
        runs=((0, 126),),
        seconds=draw.uniform(1.0, 1.5, shape),
        held=draw.uniform(0.1, 1.0, shape),
        rebuilt=draw.uniform(0.0, 2.0, shape),
        static=draw.uniform(0.5, 1.5, shape),
        extra_seconds=np.eye(stages)[0] * 0.1 + np.eye(stages)[-1] * 0.8,
        extra_bytes=np.eye(stages)[0] * 2.0 + np.eye(stages)[-1] * 2.0,
        floor_bytes=np.zeros(stages),
        in_flight=np.arange(stages, 0, -1.0),
        capacity=np.full(stages, 50.0),
        sum_weight=1.0,
        slowest_weight=63.0,
    )


def test_the_program_certifies_what_the_decomposition_found() -> None:
    """HiGHS's bound, extra times and all, stays below the exact optimum and closes to its gap."""
    problem = large(0)
    known = decompose(problem)
    assert known.gap < 1e-12
    program = AssignProgram(problem)
    program.start_from(known.assignment)
    bound = highs(program, 60.0)
    assert known.incumbent * (1 - 2 * GAP) <= bound <= known.incumbent * (1 + 1e-9)
    assert certify(problem, replace(known, bound=0.0)).gap < 2 * GAP


def crashes(program: AssignProgram, time_limit: float) -> float:
    raise RuntimeError("segmentation fault")


def is_missing(program: AssignProgram, time_limit: float) -> float:
    raise ImportError("No module named 'highspy'")


def runs_out_of_time(program: AssignProgram, time_limit: float) -> float:
    return highs(program, 0.0)


def answers_nothing(program: AssignProgram, time_limit: float) -> float:
    return 0.0


def answers_halves(program: AssignProgram, time_limit: float) -> float:
    for variable in program.counts.values():
        variable.varValue = 0.5
    return 0.0


def answers_too_much(program: AssignProgram, time_limit: float) -> float:
    """Put every layer under the fastest strategy where the decomposition's split has it, fit or not."""
    for (stage, _, strategy), variable in program.counts.items():
        variable.varValue = 1.0 if strategy == 0 and stage < 2 else 0.0
    return 0.0


@every(
    ("solver", "words"),
    [
        (crashes, "segmentation fault"),
        (is_missing, "No module named 'highspy'"),
        (answers_nothing, "None layers"),
        (answers_halves, "0.5 layers"),
        (answers_too_much, "each once"),
    ],
)
def test_a_solver_that_fails_leaves_the_decomposition_and_says_so(solver: Solver, words: str) -> None:
    known = decompose(HAND)
    told = certify(HAND, known, solver=solver)
    assert (told.assignment, told.incumbent, told.bound) == (known.assignment, known.incumbent, known.bound)
    assert "decomposition taken" in told.note
    assert words in told.note


def test_no_time_gives_no_wrong_plan() -> None:
    problem = large(1)
    known = decompose(problem)
    told = certify(problem, known, solver=runs_out_of_time)
    assert told.incumbent == known.incumbent
    assert price(problem, told.assignment).fits


def test_whole_numbers_with_rounding_are_whole() -> None:
    """HiGHS answers 14.999999999999996 for 15."""
    known = decompose(HAND)
    program = AssignProgram(HAND)
    highs(program, 10.0)
    for variable in program.counts.values():
        variable.varValue += 4e-15
    assert price(HAND, program.answer()).seconds == pytest.approx(known.incumbent)


def test_an_answer_that_does_not_fit_is_not_believed() -> None:
    roomy = replace(HAND, capacity=np.array([999.0, 999.0]))

    def of_the_roomy_one(program: AssignProgram, time_limit: float) -> float:
        other = AssignProgram(roomy)
        bound = highs(other, time_limit)
        for key, variable in program.counts.items():
            variable.varValue = other.counts[key].value()
        return bound

    tight = replace(HAND, capacity=np.array([45.0, 45.0]))
    known = decompose(tight)
    told = certify(tight, known, solver=of_the_roomy_one)
    assert told.assignment == known.assignment
    assert "does not fit" in told.note


def test_without_the_decomposition_the_program_answers_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def gives_up(problem: AssignProblem) -> Solution:
        raise SolverError("nothing found")

    monkeypatch.setattr("planner.search.assign.program.decompose", gives_up)
    problem = random_problem(3)
    told = solve(problem)
    assert told.incumbent == pytest.approx(brute_force(problem), rel=2 * GAP)
    assert told.bound <= told.incumbent
    with pytest.raises(SolverError, match="infeasible"):
        solve(replace(HAND, capacity=np.array([30.0, 30.0])))
