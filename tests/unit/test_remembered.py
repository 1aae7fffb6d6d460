"""Answers that are remembered by the identity of what is asked about."""

from __future__ import annotations

from dataclasses import replace

from planner.cost.case import case_of
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.remembered import remembered
from planner.runtimes import runtimes
from planner.runtimes.family import Job

ASKED: list[tuple[str, int]] = []


@remembered(most=2)
def joined(words: list[str], times: int) -> str:
    ASKED.append((words[0], times))
    return "".join(words) * times


def test_each_question_is_worked_out_once_until_there_are_too_many() -> None:
    first, equal = ["a"], ["a"]
    ASKED.clear()
    assert [joined(first, 2), joined(first, 2)] == ["aa", "aa"]
    assert ASKED == [("a", 2)]
    assert joined(equal, 2) == "aa"
    assert ASKED == [("a", 2)] * 2, "an equal record is another one"
    assert joined(first, 3) == "aaa"
    assert joined(first, 2) == "aa"
    assert ASKED == [("a", 2), ("a", 2), ("a", 3), ("a", 2)], "a third answer makes room"


def test_a_record_that_is_gone_lends_its_identity_to_nobody() -> None:
    assert [joined([letter], 1) for letter in "abcdef"] == list("abcdef")


def test_each_of_several_records_is_known_by_its_identity() -> None:
    asked: list[str] = []

    @remembered(most=8, records=2)
    def joined(one: list[int], other: list[int], name: str) -> list[int]:
        asked.append(name)
        return one + other

    first, second, twin = [1], [2], [2]
    assert joined(first, second, "a") is joined(first, second, "a")
    assert joined(first, twin, "a") == [1, 2]
    assert joined(first, second, "b") == [1, 2]
    assert asked == ["a", "a", "b"]


def test_a_case_is_shared_by_plans_that_differ_in_degrees_and_by_no_others() -> None:
    work, runtime = Workload(seq_len=2048, global_batch=64), runtimes()["megatron-lm"]
    job = Job(load_model("llama3-8b"), load_hardware("dgx-h100"), 8, work)
    plan = Plan(tp=2.0, dp=4.0)
    case = case_of(plan, job, runtime)
    assert case_of(replace(plan, tp=4.0, dp=2.0), job, runtime) is case
    assert case_of(replace(plan, recompute="full"), job, runtime).recompute != case.recompute
    assert case_of(replace(plan, prediction_apart=True), job, runtime).prediction_apart
    assert not case.prediction_apart
    longer = replace(job, workload=work.model_copy(update={"seq_len": 4096}))
    assert case_of(plan, longer, runtime).workload.seq_len == 4096
    assert case_of(plan, job, runtime.with_traits(compute_derate=0.5)).derate != case.derate
