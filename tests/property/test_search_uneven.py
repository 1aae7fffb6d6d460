"""Plans that fit only with unequal stages are found, and where none fits it is said what is missing."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from planner.cost.estimate import Estimate, estimate
from planner.plan import Plan
from planner.report.as_json import search_document
from planner.report.search_page import assignment, nothing_fits
from planner.search.assign.improve import Improver
from planner.search.assign.uneven import missing_memory
from planner.search.candidates import Candidate, ScanReport
from planner.search.choices import choices_of
from planner.search.optimise import search
from planner.search.queue import Queue
from planner.search.refine import Refinement, refine
from planner.search.request import SearchRequest, objective_column, objective_value
from planner.search.scan import Scan
from planner.search.space import make_space
from planner.units import GIB
from tests.unit.cost_jobs import DENSE, GQA, job, model, plan_of, runtime

LARGE_VOCABULARY = model("large-vocabulary", {"a": {"mixer": GQA, "ffn": DENSE}}, "12 a", vocab=512_000)
WORK = job(LARGE_VOCABULARY, 8, global_batch=16)
FIXED = {"pp": 4, "vpp": 1, "cp": 1, "tp": 2, "micro_batch": 1}
NAMES = {"recompute": "full", "zero": 1, "cp_method": "ring", "offload": "none", "sequence_parallel": True}

PLAN = plan_of(WORK, **{**FIXED, **NAMES})  # type: ignore[arg-type]


def every_split() -> list[Estimate]:
    """Return the only plan of the space below with every split of its layers."""
    splits = [tuple(int(size) for size in np.diff((0, *cut, 12))) for cut in combinations(range(1, 12), 3)]
    return [estimate(replace(PLAN, stage_layers=split), WORK, runtime()) for split in splits]


def scan(limit: float, uneven: bool = True) -> Scan:
    space = make_space(WORK, FIXED)
    choices = choices_of(runtime(), NAMES)
    return Scan(WORK, runtime(), space, choices, limit, limit, keep=50, uneven=uneven)


def limits() -> tuple[float, float]:
    """Return what the best split needs, and what the default one needs."""
    least = min(known.peak for known in every_split())
    default = estimate(PLAN, WORK, runtime()).peak
    assert least < 0.96 * default
    return least, default


@pytest.mark.parametrize("share", [0.02, 0.5, 0.95])
def test_a_plan_that_fits_with_unequal_stages_only_is_found(share: float) -> None:
    least, default = limits()
    asked = scan(least + share * (default - least))
    report = asked.run(objective_column("time"))
    assert report.best == []
    assert len(report.of("uneven")) == 1
    found = refine(asked, report, "time", 3)
    safe = [known for known in every_split() if known.peak <= asked.limit]
    assert found.plans[0].step == pytest.approx(min(known.step for known in safe), rel=2e-4)
    assert found.plans[0].peak <= asked.limit
    assert found.proved
    plain = replace(asked, uneven=False)
    assert refine(plain, plain.run(objective_column("time")), "time", 3).plans == ()


def test_without_unequal_stages_nothing_is_kept_for_them() -> None:
    least, default = limits()
    report = scan((least + default) / 2, uneven=False).run(objective_column("time"))
    assert report.of("uneven") == []


def test_what_no_split_can_do_without() -> None:
    least, _ = limits()
    assert missing_memory(PLAN, WORK, runtime(), least * (1 + 1e-9)) is None
    missing = missing_memory(PLAN, WORK, runtime(), least * 0.97)
    assert missing is not None
    assert missing.needed == pytest.approx(least)
    assert missing.capacity == pytest.approx(least * 0.97)


def test_what_fits_with_no_split_makes_no_plan_and_what_is_not_reached_stays_open() -> None:
    """One that fits somehow ends the search of those whose bounds are above it; a full list hides others."""
    least, _ = limits()
    asked = scan(least * (1 + 1e-9))
    other = replace(PLAN, recompute="selective")
    one = replace(PLAN, recompute="full:1")
    tight = [Candidate(1.0, bound, 0.0, plan) for plan, bound in ((other, 1e-9), (PLAN, 2e-9), (one, 1e9))]
    queue = Queue(Improver(asked), ScanReport(candidates={"uneven": tight}), "time")
    queue.run()
    assert {replace(place, stage_layers=None) for place in queue.known} >= {PLAN}
    assert queue.spent["uneven"] == 2
    assert queue.open_bound() == 1e9 > queue.fastest()
    full = replace(asked, keep=1)
    queue = Queue(Improver(full), ScanReport(candidates={"uneven": tight[:2]}), "time")
    queue.run()
    assert queue.open_bound() == 2e-9


def request(limit: float, **fixed: object) -> SearchRequest:
    return SearchRequest(
        LARGE_VOCABULARY, (WORK.hardware,), (8,), WORK.workload, (runtime(),), {**FIXED, **NAMES, **fixed},
        memory_limit=limit, oom_risk=0.5,
    )  # fmt: skip


def test_where_nothing_fits_the_stage_and_its_need_are_named() -> None:
    least, _ = limits()
    result = search(request(0.9 * least))
    assert result.plans == ()
    assert result.nearest is not None
    split = result.nearest["split"]
    assert isinstance(split, dict)
    assert split["needs_gib"] * GIB == pytest.approx(least)
    assert split["has_gib"] * GIB == pytest.approx(0.9 * least)
    words = f"needs at least {least / GIB:.1f} GiB on stage {split['stage']}"
    assert words in nothing_fits(result)[0]
    uniform = search(replace(request(0.9 * least), uniform=True))
    assert uniform.nearest is not None
    assert uniform.nearest["split"] is None


def test_a_search_tells_what_was_refined_and_solved() -> None:
    least, default = limits()
    result = search(request((least + default) / 2))
    document = search_document(result, {})
    told = document["optimality"]
    assert told["refined"] >= 1
    assert told["solver"]["seconds"] > 0
    assert told["solver"]["uniform_step_s"] is None
    assert "where its layers can be assigned, another one" in told["over"]
    assert f"Candidates refined: {told['refined']}" in assignment(result)[0]


@pytest.mark.parametrize("objective", ["time", "cost"])
def test_a_range_of_accelerators_gives_the_plans_that_each_number_gives(objective: str) -> None:
    asked = replace(
        request(1e15),
        gpu_counts=(8, 16),
        fixed={"vpp": 1, "cp": 1},
        top=4,
        oom_risk=0.05,
        objective=objective,
    )
    together = search(asked)
    alone = {gpus: search(replace(asked, gpu_counts=(gpus,), top=50)).plans for gpus in (8, 16)}

    def told(plan: Estimate) -> tuple[int, Plan, float]:
        return plan.job.gpus, plan.plan, plan.step

    assert len(together.plans) == 4
    assert [told(one) for one in together.plans] == [
        told(one) for one in sorted(together.plans, key=lambda plan: objective_value(objective, plan))
    ]
    known = {told(one) for plans in alone.values() for one in plans}
    assert {told(plans[0]) for plans in alone.values()} <= {told(one) for one in together.plans} <= known


def test_a_number_that_cannot_reach_the_answers_is_not_refined(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def watched(scan: Scan, *rest: Any, **others: Any) -> Refinement:
        seen.append(scan.job.gpus)
        return refine(scan, *rest, **others)

    monkeypatch.setattr("planner.search.every_job.refine", watched)
    asked = replace(request(1e15), gpu_counts=(8, 16, 32), fixed={"vpp": 1, "cp": 1}, top=2, oom_risk=0.05)
    assert {plan.job.gpus for plan in search(asked).plans} == {16, 32}
    assert seen == [32, 16]
    seen.clear()
    search(replace(asked, objective="memory"))
    assert {16, 32} <= set(seen)
