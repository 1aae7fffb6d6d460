"""Operators of the search: each keeps its bounds, spends its effort, and is one file that no other names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from planner.cost.estimate import Estimate
from planner.cost.settings import with_value
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.workload import Workload
from planner.runtimes import runtimes
from planner.search.assign.improve import Improver
from planner.search.candidates import Candidate, ScanReport, Screened
from planner.search.chunk import PricedRows
from planner.search.operators import OPERATORS, SearchOperator
from planner.search.queue import Queue
from planner.search.request import SearchRequest, objective_column, scan_of
from planner.search.scan import Scan
from tests.cases import every


def scan(objective: str = "time", gpus: int = 8, seq_len: int = 8192) -> Scan:
    """Return a scan in which every operator has something to do."""
    work = Workload(seq_len=seq_len, global_batch=16)
    asked = SearchRequest(
        load_model("llama2-13b"), (load_hardware("dgx-a100-40gb"),), (gpus,), work,
        (runtimes()["megatron-lm"],), {"cp": 1, "micro_batch": 1, "zero": 1}, objective=objective,
    )  # fmt: skip
    return scan_of(asked, *next(asked.jobs()), within=40.0 if objective == "memory" else float("inf"))


def test_turns_and_names_are_unique_and_followers_follow_somebody() -> None:
    names = [one.name for one in OPERATORS]
    assert len({one.turn for one in OPERATORS}) == len(set(names)) == len(names)
    assert {one.follows for one in OPERATORS} - {""} <= set(names)


@every("objective", ["time", "memory"])
def test_no_plan_of_an_operator_is_below_the_bound_of_its_candidate(objective: str) -> None:
    """Every operator that screens rows, over candidates that a scan kept for it; what it yields is safe."""
    asked = scan(objective)
    report, bench, seen = asked.run(objective_column(objective, asked.within)), Improver(asked), set()
    for operator in OPERATORS:
        candidates = report.of(operator.name)
        keys = [operator.order(one) for one in candidates]
        assert keys == sorted(keys)
        for candidate in candidates[:6]:
            if not operator.supports(bench, candidate):
                continue
            least = max(candidate.bound, operator.bound(bench, candidate))
            for found in operator.refine(bench, candidate):
                seen.add(operator.name)
                value = found.peak if objective == "memory" else found.step
                assert bench.is_offered(found)
                assert least <= value * (1 + 1e-12), (operator.name, found.plan)
    assert seen >= ({"uneven", "host"} if objective == "memory" else {"split", "recompute", "host", "share"})


def test_graphs_of_layers_leave_recompute_of_modules() -> None:
    """Whole layers may not be recomputed there; a plan that does not fit recomputes modules and fits."""
    graphed = with_value(runtimes()["megatron-lm"], "cuda_graphs", "attention")
    work = Workload(seq_len=5120, global_batch=64)
    degrees = {"tp": 1, "cp": 1, "zero": 1, "ep": 8, "schedule": "1f1b"}
    model, hardware = load_model("qwen3-30b-a3b"), load_hardware("dgx-h100")
    asked = SearchRequest(model, (hardware,), (32,), work, (graphed,), degrees)
    space = scan_of(asked, *next(asked.jobs()))
    operator = next(one for one in OPERATORS if one.name == "granular")
    assert operator.takes(space)
    report, bench = space.run(objective_column("time")), Improver(space)
    candidates = report.of("granular")
    found = [(one, plan) for one in candidates for plan in operator.refine(bench, one)]
    assert found
    for candidate, plan in found:
        assert candidate.total_bytes > space.limit >= plan.peak
        assert plan.plan.recompute.startswith("selective:")
        assert candidate.bound <= plan.step * (1 + 1e-12)


@dataclass(frozen=True)
class Twin(SearchOperator):
    """Makes of every safe plan the plan itself."""

    def screen(self, rows: PricedRows) -> Screened:
        """Return the safe rows."""
        return Screened(rows.values, rows.bounds, rows.safe)

    def refine(self, bench: Improver, candidate: Candidate) -> Iterator[Estimate]:
        """Yield the plan with its default split."""
        yield bench.price(candidate.plan)


def test_one_more_file_is_all_that_an_operator_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Declared nowhere else, it gets candidates from the scan, its turn, and no more than its effort."""
    mine = Twin("twin", turn=0.5, cost=64, proves=True)
    monkeypatch.setattr("planner.search.scan.OPERATORS", [mine])
    monkeypatch.setattr("planner.search.queue.OPERATORS", [mine])
    asked = scan(gpus=32, seq_len=2048)
    report = asked.run(objective_column("time"))
    kept = report.of("twin")
    assert list(report.candidates) == ["twin"]
    assert len(kept) > mine.most(asked) == 4
    queue = Queue(Improver(asked), report, "time")
    queue.run()
    assert 0 < queue.refined <= 4
    assert queue.fastest() == min(one.value for one in kept[: queue.refined])
    left = [one.bound for one in kept[queue.refined :]]
    assert queue.open_bound() == min(left)
    assert queue.refined == 4 or queue.open_bound() >= queue.fastest()


def test_an_operator_without_effort_leaves_its_bounds_open() -> None:
    """Two candidates and effort for one: the other's bound is what is not proved."""
    asked = scan(gpus=32, seq_len=2048)
    kept = asked.run(objective_column("time")).best
    fast, slow = kept[0], kept[-1]
    mine = Twin("twin", turn=0.5, cost=1e9, proves=True)
    for first, other in ((slow, fast), (fast, slow)):
        queue = Queue(Improver(asked), ScanReport(), "time")
        queue.add(mine, first, 0.0)
        queue.add(mine, other, 1.0)
        queue.run()
        assert (queue.refined, queue.fastest()) == (1, first.value)
        assert queue.open_bound() == other.bound
