"""The published jobs stand in the document with the prices of today, and what is claimed of them holds."""

from __future__ import annotations

import re

import pytest

from tests.published_jobs import DOCUMENT, JOBS, Published, found, layout, priced

TEXT = DOCUMENT.read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^### (\S+) on .*?\n(.*?)(?=^###|^<!-- end)", TEXT, re.MULTILINE | re.DOTALL))
DENSE = ("llama3-8b", "llama3-70b")


def rows(job: Published) -> list[list[str]]:
    lines = re.findall(r"^\| (?!---|layout of)(.*) \|$", SECTIONS[job.model], re.MULTILINE)
    return [[cell.strip() for cell in line.split("|")] for line in lines]


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.model)
def test_the_document_prices_the_published_layout_as_the_planner_does(job: Published) -> None:
    answer = priced(job)
    _, plan, measured, seconds, *_ = rows(job)[0]
    assert plan == f"`{layout(answer['plan'])}`"
    assert float(measured) == pytest.approx(job.measured, abs=0.005)
    assert float(seconds) == pytest.approx(answer["step_time_s"], rel=0.05)


@pytest.mark.parametrize("job", [job for job in JOBS if job.model in DENSE], ids=lambda job: job.model)
def test_dense_jobs_are_priced_within_a_tenth(job: Published) -> None:
    assert priced(job)["step_time_s"] == pytest.approx(job.measured, rel=0.1)


def test_the_search_finds_a_plan_as_good_as_the_published_one() -> None:
    job = JOBS[0]
    best = found(job, "megatron-bridge")
    assert best["step_time_s"] <= priced(job)["step_time_s"] * 1.001
    assert f"`{layout(best['plan'])}`" in rows(job)[1]
