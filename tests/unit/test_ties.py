"""Ties: of plans that no measured run tells apart the most careful one leads, whatever is minimised."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from planner.cost.kinds import unusual_kinds
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.report.search_page import held_back
from planner.runtimes import runtimes
from planner.runtimes.family import Job
from planner.search import goodput, ties
from planner.search.guard import Ranking
from planner.search.optimise import search
from planner.search.request import SearchRequest
from planner.search.settings import OpenSettings
from planner.search.ties import TIE, most_careful, with_earned_lead
from tests.unit.cost_jobs import MODELS, cluster


@dataclass(frozen=True)
class Answer:
    """What ties look at."""

    bytes: float
    seconds: float
    axes: int


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


JOB = object()
FAR = ("experts spread beyond the fast links",)


@dataclass(frozen=True)
class Priced:
    """A plan with its band."""

    step: float
    plan: Plan
    error_band: float | None = 0.2
    job: Any = JOB


SPREAD, NEAR, SAME = Plan(ep=16.0), Plan(ep=8.0), Plan(ep=8.0, micro_batch=2.0)


@pytest.mark.parametrize(
    ("lead", "usual", "leads"),
    [
        (Priced(1.0, SPREAD), Priced(1.19, NEAR), "usual"),
        (Priced(1.0, SPREAD), Priced(1.21, NEAR), "lead"),
        (Priced(1.0, SPREAD, None), Priced(1.05, NEAR), "lead"),
        (Priced(1.0, SPREAD), Priced(1.05, NEAR, job=object()), "lead"),
        (Priced(1.0, SPREAD), None, "lead"),
    ],
)
def test_what_good_engineers_avoid_leads_only_where_it_gains_more_than_its_band(
    lead: Any, usual: Any, leads: str
) -> None:
    other: Any = Priced(1.3, Plan(tp=2.0))
    found = with_earned_lead(Ranking((lead, other), ((), ())), usual, lambda answer: answer.step)
    assert found.plans == ((usual, lead) if leads == "usual" else (lead, other))


def test_a_lead_from_among_the_variants_of_a_mesh_keeps_the_others() -> None:
    lead, own, usual = Priced(1.0, SPREAD), Priced(1.02, NEAR), Priced(1.03, SAME)
    ranking: Any = Ranking((lead, own), ((), (usual,)))  # type: ignore[arg-type]
    found: Any = with_earned_lead(ranking, usual, lambda answer: answer.step)  # type: ignore[arg-type]
    assert found == Ranking((usual, lead), ((own,), ()))  # type: ignore[arg-type]


FEW = "sequences split below 4,096 tokens"


@pytest.mark.parametrize(
    ("model", "hardware", "runtime", "plan", "kinds"),
    [
        ("dense", "dgx-h100", "megatron-lm", Plan(cp=2.0), ()),
        ("dense", "gb300-nvl72", "megatron-bridge", Plan(cp=2.0), ()),
        ("dense", "dgx-h100", "torchtitan", Plan(cp=2.0), (FEW,)),
        ("dense", "dgx-h100", "torchtitan", Plan(cp=1.0), ()),
        ("experts", "dgx-b300", "megatron-bridge", Plan(ep=64.0), ()),
        ("experts", "gb300-nvl72", "megatron-bridge", Plan(ep=64.0), ()),
        ("experts", "gb300-nvl72", "megatron-bridge", Plan(ep=128.0), FAR),
    ],
)
def test_a_kind_that_some_run_of_the_core_is_of_has_nothing_to_earn(
    model: str, hardware: str, runtime: str, plan: Plan, kinds: tuple[str, ...]
) -> None:
    """Of splits of a sequence any chip's runs count; of links, not those of a node for a whole rack."""
    work = Workload(seq_len=4096, global_batch=512)
    one = Job(MODELS[model], cluster(hardware), 256, work)
    assert unusual_kinds(plan, one, runtimes()[runtime]) == kinds


def test_a_search_tells_what_it_held_back() -> None:
    """DeepSeek-V3 on 2,048 GB300: experts over two NVLink domains gain a few percent, and no run has them."""
    model = load_model("deepseek-v3")
    work = Workload(seq_len=4096, global_batch=16384, precision="mxfp8")
    request = SearchRequest(
        model, (load_hardware("gb300-nvl72"),), (2048,), work, (runtimes()["megatron-bridge"],),
        fixed={"tp": 1, "etp": 1, "cp": 1, "recompute": "none", "offload": "none"}, settings=OpenSettings(),
    )  # fmt: skip
    found = search(request)
    lead, faster = found.plans[0], min(found.plans, key=lambda plan: plan.step)
    assert not unusual_kinds(lead.plan, lead.job, lead.runtime)
    assert unusual_kinds(faster.plan, faster.job, faster.runtime) == FAR
    assert faster.step < lead.step < faster.step * (1.0 + (faster.error_band or 0.0))
    (line,) = held_back(found)
    assert f"Plan {found.plans.index(faster) + 1} is " in line
    assert found.measured is None
