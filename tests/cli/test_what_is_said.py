"""What a newcomer reads of an answer: why a plan is first, what limits it, what its numbers rest on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from planner.cost.estimate import Estimate, estimate
from planner.report.limits import limits_said
from tests.cases import every
from tests.cli.command import planner
from tests.unit.cost_jobs import job, plan_of, runtime

SEARCH = ("search", "llama3-8b", "--hardware", "8xh100")


def answer() -> Estimate:
    asked = job()
    return estimate(plan_of(asked), asked, runtime())


def test_the_whole_answer_says_what_the_short_one_does_of_the_first_plan() -> None:
    short, whole = (" ".join(planner(*SEARCH, *more).out.split()) for more in ((), ("-v",)))
    start = short.index("Plans 1")
    told = short[start : short.index("Baselines:")].strip()
    assert "Variants of plan 1: " in told
    assert told in whole
    assert "Settings of plan 1: precision_aware on" in whole


def test_faster_variants_are_told_with_what_speaks_against_them() -> None:
    document = planner(*SEARCH, "--format", "json").json
    text = " ".join(planner(*SEARCH).out.split())
    lead = document["plans"][0]
    assert lead["oom_probability"] <= 0.01
    assert "s; plan 1 comes first for less risk of running out of memory." in text


@every(
    ("term", "share", "words"),
    [
        ("tp_comm", 0.02, "compute"),
        ("tp_comm", 0.2, "compute and the tp link (20% of a step)"),
        ("dp_comm", 0.7, "the dp link (70% of a step)"),
    ],
)
def test_what_limits_a_plan_is_a_clause(term: str, share: float, words: str) -> None:
    known = answer()
    others = {
        name: 0.0
        for name in vars(known.time)
        if name.endswith("_comm") or name in ("bubble", "optimizer", "other")
    }
    time = replace(known.time, **others | {term: share * known.step, "compute": (1 - share) * known.step})
    assert limits_said(replace(known, time=time)) == words
    full = replace(known, time=time, capacity=known.peak)
    assert limits_said(full).endswith(" and memory")


def test_an_explanation_names_no_constant_of_parts_that_a_model_lacks(tmp_path: Path) -> None:
    texts = {}
    for model in ("llama3-8b", "mixtral-8x7b"):
        plan = tmp_path / f"{model}.yaml"
        axes = ("--ep", "8", "--zero", "1") if model.startswith("mixtral") else ("--tp", "2")
        planner("estimate", model, "--hardware", "dgx-h100", "--gpus", "16", *axes, "--save", str(plan))
        texts[model] = planner("explain", str(plan)).out
    assert "all_to_all_overlapped" in texts["mixtral-8x7b"]
    assert "all_to_all_overlapped" not in texts["llama3-8b"]
    assert "host_layer_seconds" in texts["llama3-8b"]
    assert "e-15" not in texts["mixtral-8x7b"]
