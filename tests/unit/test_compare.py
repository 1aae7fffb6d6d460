"""What a comparison says of two plans follows from the two estimates alone."""

from __future__ import annotations

import pytest

from planner.cost.estimate import estimate
from planner.report.compare import NamedPlan, compare_document, compare_page, difference, differences
from planner.report.page import Table
from tests.unit.cost_jobs import job, plan_of, runtime

JOB = job()
FAST = NamedPlan("fast", estimate(plan_of(JOB), JOB, runtime()))
SLOW = NamedPlan("slow", estimate(plan_of(JOB, tp=8), JOB, runtime()))


def test_the_differences_of_all_terms_make_up_the_difference_of_the_steps() -> None:
    terms = differences(FAST.answer, SLOW.answer)
    assert sum(terms.values()) == pytest.approx(SLOW.answer.step - FAST.answer.step)
    assert terms["tp_comm"] > 0
    back = differences(SLOW.answer, FAST.answer)
    assert back == pytest.approx({name: -seconds for name, seconds in terms.items()})


def test_a_plan_does_not_differ_from_itself() -> None:
    text = difference(FAST, NamedPlan("again", FAST.answer))
    assert text == "again against fast: +0.0% time (no term differs); +0.0 GiB (no part differs)."


def test_the_dearest_term_is_named_first_and_memory_by_its_parts() -> None:
    text = difference(FAST, SLOW)
    terms = differences(FAST.answer, SLOW.answer)
    assert max(terms, key=lambda name: abs(terms[name])) == "tp_comm"
    assert "(tensor parallel communication, exposed +" in text
    assert "Not the same job" not in text


def test_unlike_jobs_are_told() -> None:
    other = job(gpus=32, hardware="dgx-a100-80gb", global_batch=64)
    text = difference(FAST, NamedPlan("other", estimate(plan_of(other), other, runtime("fsdp"))))
    assert text.endswith("Not the same job: global_batch, runtime, cluster, gpus.")


def test_the_page_has_a_column_for_each_plan() -> None:
    page = compare_page([FAST, SLOW])
    figures = next(part for part in page if isinstance(part, Table))
    assert set(figures.rows[0]) == {"figure", "fast", "slow"}
    steps = next(row for row in figures.rows if row["figure"] == "s/step")
    assert float(steps["fast"]) == pytest.approx(FAST.answer.step, rel=1e-3)
    assert float(steps["slow"]) == pytest.approx(SLOW.answer.step, rel=1e-3)


def test_the_document_compares_with_the_first() -> None:
    document = compare_document([FAST, SLOW])
    assert [plan["name"] for plan in document["plans"]] == ["fast", "slow"]
    (told,) = document["differences"]
    assert told["share"] == pytest.approx(SLOW.answer.step / FAST.answer.step - 1)
    assert told["peak_gib"] == pytest.approx((SLOW.answer.peak - FAST.answer.peak) / 2**30)
