"""Searches that tests share are those that would be run, and none is shared with a test that changes code."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.runtimes.family import Job
from planner.search import optimise
from planner.search.request import SearchRequest
from tests.searched_once import SHARED, run, searched_once
from tests.unit.cost_jobs import MODELS, faster, job, runtime

FIXED = {"cp": 1, "zero": 1, "micro_batch": 1}


def request(asked: Job, **fixed: int) -> SearchRequest:
    return SearchRequest(
        asked.model, (asked.hardware,), (8,), asked.workload, (runtime(),), fixed=FIXED | fixed
    )


def test_what_is_shared_is_what_a_search_finds() -> None:
    assert optimise._searched is searched_once
    first = optimise.search_counts(request(job(MODELS["tied"])))
    again = optimise.search_counts(request(job(MODELS["tied"])))
    fresh, _ = run(request(job(MODELS["tied"])), None, True)
    assert again.plans is first.plans
    assert (fresh.plans, fresh.baselines) == (first.plans, first.baselines)
    assert fresh.optimality["bound_s"] == first.optimality["bound_s"]
    other = optimise.search_counts(request(job(MODELS["tied"]), pp=2))
    assert {plan.plan.pp for plan in other.plans} == {2}
    assert not optimise.search_counts(replace(request(job(MODELS["tied"])), memory_limit=1e9)).plans


def test_a_cluster_with_other_links_is_asked_anew() -> None:
    slow, fast = (request(faster(job(MODELS["dense"]), links=rate), tp=8) for rate in (0.5, 2.0))
    assert optimise.search_counts(fast).plans[0].step < optimise.search_counts(slow).plans[0].step, (
        "tests set links beside the fields that are compared"
    )


def test_a_test_that_puts_other_code_in_place_runs_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shared = optimise.search_counts(request(job(MODELS["tied"])))
    assert SHARED.on
    monkeypatch.setattr("planner.search.optimise.baselines", lambda *_: [("none", shared.plans[0])])
    first, again = (optimise.search_counts(request(job(MODELS["tied"]))) for _ in range(2))
    assert first.plans == again.plans == shared.plans
    assert first.plans is not again.plans
    assert [name for name, _ in first.baselines] == ["none"]


def test_a_test_that_moves_alone_shares_its_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    first, again = (optimise.search_counts(request(job(MODELS["tied"]))) for _ in range(2))
    assert first.plans is again.plans


def test_a_test_that_names_monkeypatch_and_moves_nothing_runs_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, again = (optimise.search_counts(request(job(MODELS["tied"]))) for _ in range(2))
    assert first.plans is not again.plans
