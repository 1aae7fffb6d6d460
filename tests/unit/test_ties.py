"""Ties: of plans that no measured run tells apart the most careful one leads, whatever is minimised."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from planner.inputs.workload import Workload
from planner.runtimes import runtimes
from planner.search import goodput, ties
from planner.search.optimise import search
from planner.search.request import SearchRequest
from planner.search.ties import TIE, most_careful
from tests.unit.cost_jobs import MODELS, cluster


@dataclass(frozen=True)
class Answer:
    """What ties look at."""

    bytes: float
    seconds: float
    axes: int
    error_band: float | None = None


@pytest.fixture
def _axes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ties, "caution", lambda answer: answer.axes)


def lead(*answers: tuple[float, float, int], then: bool = False) -> int:
    known: list[tuple[int, Any]] = [(place, Answer(*one)) for place, one in enumerate(answers)]
    values: list[Any] = [lambda one: one.bytes] + [lambda one: one.seconds] * then
    return most_careful(known, *values)[0]


@pytest.mark.usefixtures("_axes")
def test_of_plans_within_a_hundredth_the_one_with_the_fewest_axes_leads() -> None:
    assert lead((100, 1, 3), (100.9, 1, 1), (101.1, 1, 0)) == 1
    assert lead((100, 1, 1), (100.9, 1, 1)) == 0


@pytest.mark.usefixtures("_axes")
def test_of_plans_of_as_little_memory_none_leads_that_is_slower_than_a_tie_with_the_fastest() -> None:
    plans = (100, 9.0, 0), (100.5, 1.0, 3), (100.9, 1.005, 2), (102, 0.1, 0)
    assert lead(*plans) == 0
    assert lead(*plans, then=True) == 2


def test_least_memory_costs_no_time_that_a_hundredth_of_it_would_spare() -> None:
    work = Workload(seq_len=4096, global_batch=32)
    request = SearchRequest(MODELS["dense"], (cluster("dgx-h100"),), (8,), work, (runtimes()["megatron-lm"],))
    found = search(replace(request, objective="memory", slowdown=float("inf"), top=8))
    best, *others = found.plans
    tied = [plan for plan in others if plan.peak <= best.peak * (1 - TIE)]
    assert not tied
    near = [plan for plan in (best, *others) if plan.peak <= best.peak]
    assert best.step <= min(plan.step for plan in near) * (1 + TIE)


@dataclass(frozen=True)
class Failing:
    """A plan with its failures, as far as its rank goes."""

    step: float
    answer: Any
    gpus: int = 8


def test_of_plans_that_get_on_as_well_with_failures_the_most_careful_leads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ties, "caution", lambda answer: answer.axes)
    monkeypatch.setattr(goodput, "_choice", lambda one: one.gpus)
    plain, busy = Answer(0, 0, 1), Answer(0, 0, 4)
    found: list[Any] = [
        Failing(1.02, plain),
        Failing(1.009, plain),
        Failing(1.0, busy),
        Failing(1.0, busy, 16),
    ]
    ranked = goodput._ranked(found)
    assert [one.step for one in ranked] == [1.009, 1.0, 1.0, 1.02]
