"""Prices of many runs by several processes are those of one."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence

import pytest

from planner.calibrate import processes
from planner.calibrate.pricing import cost_predictions
from planner.calibrate.processes import LEAST, shared_among_cores
from planner.calibrate.runs.catalogue import shipped_catalogue
from planner.calibrate.runs.table import read_runs
from planner.calibrate.validate import as_json, validate
from tests.speed.rows import unlike_rows

ITEMS = list(range(2 * LEAST + 1))


def with_its_process(items: Sequence[int]) -> list[tuple[int, int]]:
    return [(item * item, os.getpid()) for item in items]


def test_results_are_in_the_order_of_their_items_whoever_worked_on_them() -> None:
    found = shared_among_cores(with_its_process, most=2)(ITEMS)
    assert [result for result, _ in found] == [item * item for item in ITEMS]
    assert len({process for _, process in found}) == 2


@pytest.mark.parametrize(("count", "most"), [(2 * LEAST - 1, 2), (2 * LEAST, 1)])
def test_few_items_or_one_core_need_no_copy(count: int, most: int) -> None:
    found = shared_among_cores(with_its_process, most)(ITEMS[:count])
    assert {process for _, process in found} == {os.getpid()}


@pytest.mark.parametrize("how", ["killed", "failed", "unreadable"])
def test_what_a_copy_does_not_answer_is_worked_out_here(how: str) -> None:
    first = os.getpid()

    def work(items: Sequence[int]) -> list[object]:
        if os.getpid() != first and how == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if os.getpid() != first and how == "failed":
            raise RuntimeError("no answer")
        hidden = how == "unreadable" and os.getpid() != first
        return [(lambda: None) if hidden else item for item in items]

    assert shared_among_cores(work, most=2)(ITEMS) == ITEMS


def test_where_there_is_no_room_for_a_copy_all_is_worked_out_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def fork() -> int:
        raise BlockingIOError("Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", fork)
    found = shared_among_cores(with_its_process, most=2)(ITEMS)
    assert [result for result, _ in found] == [item * item for item in ITEMS]
    assert {process for _, process in found} == {os.getpid()}


def test_an_error_is_that_of_one_process_and_leaves_no_copy() -> None:
    def work(items: Sequence[int]) -> list[int]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        shared_among_cores(work, most=2)(ITEMS)
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_a_table_priced_by_two_processes_is_the_one_priced_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "LEAST", 40)
    lines = unlike_rows(81).splitlines(keepends=True)
    found = [
        as_json(validate(read_runs(iter(lines)).rows, shipped_catalogue(), price))
        for price in (cost_predictions, shared_among_cores(cost_predictions, most=2))
    ]
    assert found[0] == found[1]
    assert found[0]["rows"] == 81
