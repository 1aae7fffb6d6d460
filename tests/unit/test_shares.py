"""Jobs that share a cluster: every order and share tried on four, and simple cases by hand."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest

from planner.search.fragments import crossings, pieces, small_moves
from planner.search.moving_shares import equal_shares
from planner.search.shares import (
    LayerRun,
    Objective,
    Spell,
    Task,
    cost,
    planned,
    played,
    queue,
    useful,
)

HOUR = 3600.0


def drawn(seed: int, jobs: int, deadlines: bool = False) -> tuple[Task, ...]:
    """Jobs with less than linear speed-up."""
    draw = np.random.default_rng(seed)
    tasks = []
    for number in range(jobs):
        work, bend = draw.uniform(5, 60) * HOUR, draw.uniform(0.6, 0.95)
        options = tuple((count, work / (count / 8) ** bend) for count in (8, 16, 32))
        due = float(draw.uniform(10, 80) * HOUR) if deadlines and number % 2 else None
        arrives = float(draw.uniform(0, 5) * HOUR) if number % 3 == 2 else 0.0
        tasks.append(Task(str(number), options, float(draw.integers(1, 4)), arrives, due, 2))
    return tuple(tasks)


@pytest.mark.parametrize(("seed", "objective"), [(1, "completion"), (3, "completion"), (3, "makespan")])
def test_no_order_and_no_shares_of_four_jobs_are_better(seed: int, objective: Objective) -> None:
    tasks = drawn(seed, 4, deadlines=seed == 3)
    least = min(
        cost(played(tasks, list(zip(order, shares, strict=True)), 32), objective)
        for order in permutations(range(4))
        for shares in product(range(3), repeat=4)
    )
    assert cost(planned(tasks, 32, objective), objective) == pytest.approx(least, rel=1e-9)


def test_a_queue_serves_in_the_order_of_arrival() -> None:
    one, two = Task("a", ((8, 10.0),), arrives=1.0), Task("b", ((8, 5.0),))
    runs = queue((one, two), 8)
    assert [(run.task.name, run.start, run.end) for run in runs] == [("b", 0.0, 5.0), ("a", 5.0, 15.0)]


def test_equal_shares_are_cut_anew_and_pay_a_restart() -> None:
    """Two jobs of linear speed: each on half until the first ends, then the other on all of it."""
    short, long = Task("s", ((8, 10.0), (16, 5.0))), Task("l", ((8, 30.0), (16, 15.0)))
    runs = equal_shares((short, long), 16, 2.0)
    assert [run.end for run in runs] == pytest.approx([10.0, 10.0 + 2.0 + 10.0])
    assert [run.changes for run in runs] == [0, 1]


def test_shares_that_others_beat_are_left_out() -> None:
    (task,) = useful((Task("a", ((8, 10.0), (16, 6.0), (32, 7.0), (128, 1.0)), asked=2),), 64)
    assert task.options == ((8, 10.0), (16, 6.0))
    assert task.asked == 1


def test_small_jobs_move_where_a_whole_node_is_needed() -> None:
    """Two halves of two nodes keep a job of a node waiting until one of them moves."""
    one = Task("x", ((4, 1.0),))
    halves = [LayerRun(one, 4, 0.0, 10.0), LayerRun(one, 4, 0.0, 1.0), LayerRun(one, 4, 0.0, 10.0)]
    whole = LayerRun(Task("w", ((8, 1.0),)), 8, 2.0, 5.0)
    assert small_moves(halves, 16, 8) == 0
    assert small_moves([*halves, whole], 16, 8) == 1


def test_a_job_crosses_a_domain_where_each_has_a_part_free() -> None:
    """Two racks of 72: 64 in each leave 8 and 8, which a job of 16 must cross though it would fit in one."""
    big, small = Task("b", ((64, 1.0),)), Task("s", ((16, 1.0),))
    racks = [LayerRun(big, 64, 0.0, 10.0), LayerRun(big, 64, 0.0, 10.0)]
    assert crossings(racks, 144, 72) == 0
    assert crossings([*racks, LayerRun(small, 16, 1.0, 2.0)], 144, 72) == 1
    assert crossings([*racks, LayerRun(small, 16, 11.0, 12.0)], 144, 72) == 0
    assert crossings([LayerRun(Task("w", ((96, 1.0),)), 96, 0.0, 1.0)], 144, 72) == 0


def test_shares_that_are_no_part_of_a_node_are_no_error() -> None:
    runs = [LayerRun(Task(str(n), ((5, 1.0),)), 5, 0.0, 1.0) for n in range(3)]
    assert small_moves(runs, 16, 8) >= 0


def test_a_run_whose_share_changes_is_one_for_each_share() -> None:
    spells = (Spell(0.0, 1.0, 8), Spell(1.0, 2.0, 8), Spell(2.0, 3.0, 16))
    run = LayerRun(Task("a", ((8, 1.0), (16, 1.0))), 16, 0.0, 3.0, 1, spells)
    assert [(one.gpus, one.start, one.end) for one in pieces([run])] == [(8, 0.0, 2.0), (16, 2.0, 3.0)]
    assert run.used == 32.0
