"""The front of time and memory, against searches with the limit of each of its plans."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.workload import Workload
from planner.report.front import Patience, best_at_counts, front_document, halves, memory_front
from planner.runtimes import runtimes
from planner.search.optimise import search
from planner.search.request import SearchRequest
from tests.cli.command import planner
from tests.deep import in_turn

REQUEST = SearchRequest(
    model=load_model("llama3-8b"),
    clusters=(load_hardware("dgx-h100"),),
    gpu_counts=(8,),
    workload=Workload().model_copy(update={"global_batch": 32}),
    runtimes=(runtimes()["megatron-lm"],),
    fixed={"pp": 1, "cp": 1, "zero": 1, "micro_batch": 1},
)


def silent(_share: float, _doing: str) -> None:
    """Tell nothing."""


def test_nothing_that_needs_less_memory_than_a_plan_of_the_front_is_faster() -> None:
    front = memory_front(REQUEST, 6, silent)
    assert len(front) >= 3
    assert [plan.step for plan in front] == sorted(plan.step for plan in front)
    assert [plan.peak for plan in front] == sorted((plan.peak for plan in front), reverse=True)
    for faster, slower in itertools.pairwise(front[:-1]):
        best = search(replace(REQUEST, memory_limit=slower.capacity, top=1)).plans[0]
        assert best.step == pytest.approx(slower.step)
        assert faster.step < best.step
    assert [row["step_time_s"] for row in front_document(front)] == [plan.step for plan in front]


def test_the_ends_are_the_fastest_and_the_smallest() -> None:
    front = memory_front(REQUEST, 3, silent)
    alone = replace(REQUEST, top=1)
    assert front[0].step == search(alone).plans[0].step
    least = search(replace(alone, objective="memory", slowdown=float("inf"))).plans[0]
    assert front[-1].peak == least.peak


def test_nothing_fits_and_so_there_is_no_front() -> None:
    assert memory_front(replace(REQUEST, memory_limit=1e9), 3, silent) == ()


def test_the_best_of_each_count_is_what_a_search_finds_there() -> None:
    best = best_at_counts(REQUEST, (8, 16), silent)
    assert [plan.job.gpus for plan in best] == [8, 16]
    alone = search(replace(REQUEST, gpu_counts=(16,), top=1)).plans[0]
    assert best[1].step == alone.step


def test_the_command_tells_the_front_and_refuses_several_counts() -> None:
    job = (
        "llama3-8b",
        "--hardware",
        "dgx-h100",
        "--global-batch",
        "32",
        "--pp",
        "1",
        "--cp",
        "1",
        "--zero",
        "1",
    )
    done = planner("search", *job, "--gpus", "8", "--front", "3", "--format", "json")
    assert done.code == 0
    fastest = min(plan["step_time_s"] for plan in done.json["plans"])
    assert done.json["front"][0]["step_time_s"] >= fastest
    assert "Time against memory" in planner("search", *job, "--gpus", "8", "--front", "3").out
    refused = planner("search", *job, "--gpus", "8..16", "--front", "3")
    assert refused.code == 2
    assert "--front" in refused.err


def test_the_first_limits_of_memory_are_spread_out() -> None:
    for points in range(2, 65):
        order = halves(points)
        assert sorted(order) == [*range(1, points + 1)]
        assert order[0] == points
    assert halves(8)[:4] == (8, 4, 2, 6)


def test_a_search_that_would_end_too_late_is_left_out_and_named() -> None:
    """Searches of 1, 3 and 2 s: after 6 s another may take 3, more than 8 s allow and not more than 9."""
    for seconds, allowed in ((8.0, 3), (9.0, 4)):
        clock = iter((10.0, 11.0, 14.0, 16.0))
        patience = Patience(seconds, lambda clock=clock: next(clock))
        assert [patience.allows(str(number)) for number in range(4)].count(True) == allowed
        assert patience.left_out == ["3"][: 4 - allowed]


def test_without_time_one_count_is_searched_and_all_else_is_named() -> None:
    patience = Patience(0.0)
    best = best_at_counts(REQUEST, (8, 16), silent, patience)
    assert [plan.job.gpus for plan in best] == [8]
    assert memory_front(REQUEST, 3, silent, patience) == ()
    assert patience.left_out == ["the fastest plan on 16 accelerators", "time against memory"]


@pytest.mark.parametrize(
    ("fixed", "gib"),
    in_turn(({"pp": 4, "cp": 1, "micro_batch": 1}, {"pp": 2, "cp": 1, "recompute": "full"}), (40, 80)),
)
def test_neither_front_nor_counts_are_worse_than_the_plan_of_their_page(
    fixed: dict[str, object], gib: int
) -> None:
    """Its plan may have layers and recompute assigned, and be none that another search would find."""
    request = replace(REQUEST, fixed=fixed, memory_limit=float(gib * 2**30))
    plans = search(replace(request, top=3)).plans
    if not plans:
        return
    plan = plans[-1]
    front = memory_front(request, 2, silent, known=[plan])
    assert any(one.step <= plan.step and one.peak <= plan.peak for one in front)
    assert best_at_counts(request, (8,), silent, known=[plan])[0].step <= plan.step
    alone = memory_front(request, 2, silent)
    assert min(one.step for one in alone) <= plans[0].step * (1 + 1e-12)
    assert best_at_counts(request, (8,), silent)[0].step <= plans[0].step * (1 + 1e-12)


def test_a_plan_that_no_search_would_offer_stays_on_its_page() -> None:
    best = search(replace(REQUEST, top=1)).plans[0]
    odd = replace(best, step=0.5 * best.step)
    assert best_at_counts(REQUEST, (8,), silent, known=[odd]) == (odd,)
    assert memory_front(REQUEST, 2, silent, known=[odd])[0] == odd
    assert memory_front(replace(REQUEST, memory_limit=1e9), 3, silent, known=[odd]) == (odd,)
