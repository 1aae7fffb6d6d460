"""A count that no plan can use, and more accelerators than a job can make use of."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.api import load_hardware, load_model, load_runtime
from planner.inputs.workload import Workload
from planner.report.as_json import search_document
from planner.report.search_page import idle_lines
from planner.search.idle import Fewer, smaller_counts
from planner.search.optimise import search
from planner.search.request import SearchRequest
from tests.cases import every


def request(gpus: int, batch: int, runtime: str = "megatron-lm", **fixed: object) -> SearchRequest:
    return SearchRequest(
        load_model("llama3-8b"), (load_hardware("dgx-h100"),), (gpus,),
        Workload(seq_len=4096, global_batch=batch), (load_runtime(runtime),), fixed=fixed, uniform=True,
    )  # fmt: skip


@pytest.mark.parametrize(("gpus", "counts"), [(296, (256, 288)), (12, (8,))])
def test_what_no_plan_can_use_stands_idle(gpus: int, counts: tuple[int, ...]) -> None:
    """37 nodes for 32 layers, and a node and a half: neither divides batch, heads, sequence or stages."""
    result = search(request(gpus, 64, recompute="none", cp=1))
    whole = [search(request(count, 64, recompute="none", cp=1)).plans[0] for count in counts]
    best = min(whole, key=lambda plan: plan.step)
    assert (result.plans[0].step, result.plans[0].job.gpus) == (best.step, best.job.gpus)
    for part in search_document(result, {})["plans"]:
        assert part["hardware"]["gpus"] + part["hardware"]["idle_gpus"] == gpus
        assert part["feasible"]
    assert {plan.job.idle for plan in whole} == {0}


def test_an_axis_that_breaks_a_rule_on_any_count_does_not_look_for_fewer() -> None:
    result = search(request(16, 64, ep=8))
    assert result.plans == ()
    assert result.nearest is not None


def test_fewer_that_do_as_well_are_told_and_are_found_by_asking_for_them() -> None:
    asked = request(64, 1, "fsdp")
    result = search(asked)
    assert result.fewer is not None
    again = search(replace(asked, gpu_counts=(result.fewer.gpus,)))
    assert again.plans[0].step <= result.fewer.step * (1 + 1e-12)
    assert result.fewer.step <= 1.05 * result.plans[0].step
    assert result.plans[0].job.gpus == 64
    assert search_document(result, {})["fewer"]["gpus"] == result.fewer.gpus < 64


@every(("share", "how"), [(0.5, "are faster"), (1.0, "do as well")])
def test_fewer_that_are_faster_are_not_said_to_do_as_well(share: float, how: str) -> None:
    result = search(request(16, 64))
    fewer = Fewer(8, share * result.plans[0].step)
    (line,) = idle_lines(replace(result, fewer=fewer))
    assert str(line).startswith(f"8 of the 16 accelerators {how}: ")


def test_accelerators_that_are_needed_are_not_called_idle() -> None:
    assert search(request(16, 64)).fewer is None


@every(("gpus", "node"), [(520, 8), (9, 8), (8, 8), (72, 72), (80, 4)])
def test_smaller_counts_fill_nodes_and_stand_once(gpus: int, node: int) -> None:
    found = list(smaller_counts(gpus, node))
    assert len(set(found)) == len(found)
    assert all(0 < count < gpus and (count % node == 0 or gpus <= node) for count in found)
