"""What is said to make a plan fit does: each change priced again on its own, and none too many."""

from __future__ import annotations

import itertools
import json
import shlex
from typing import Any

import pytest

from tests.cli.command import planner

SEVENTY = (
    "llama3-70b", "--hardware", "dgx-h100", "--gpus", "64", "--tp", "4", "--pp", "4", "--zero", "0",
    "--micro-batch", "2", "--format", "json", "--quiet",
)  # fmt: skip
CARDS = (
    "llama3-8b", "--hardware", "rtx4090-8-pcie", "--gpus", "4", "--tp", "4", "--global-batch", "16",
    "--format", "json", "--quiet",
)  # fmt: skip


def estimate(*words: str) -> dict[str, Any]:
    """Return an estimate in which each option that stands twice has its last value."""
    model, *rest = words
    told: dict[str, list[str]] = {}
    for word in rest:
        if word.startswith("--"):
            told.pop(word, None)
            told[word] = [word]
        else:
            told[list(told)[-1]].append(word)
    done = planner("estimate", model, *itertools.chain(*told.values()))
    assert done.code in (0, 1), done.err
    return dict(json.loads(done.out))


def peak(document: dict[str, Any]) -> float:
    return float(document["memory"]["peak_gib"])


@pytest.mark.parametrize("words", [SEVENTY, CARDS], ids=["tensor and pipeline", "four cards"])
def test_each_change_does_what_is_said(words: tuple[str, ...]) -> None:
    plain = estimate(*words)
    told = plain["would_fit"]
    assert len(told["single"]) >= 3
    for one in (*told["single"], told["enough"]):
        after = estimate(*words, *shlex.split(" ".join(one["options"])))
        assert peak(after) == pytest.approx(one["peak_gib"])
        assert after["step_time_s"] == pytest.approx(one["step_time_s"])
        assert one["saves_gib"] == pytest.approx(peak(plain) - peak(after))
        assert one["saves_gib"] > 0
    assert told["enough"]["fits"]
    assert estimate(*words, *shlex.split(" ".join(told["enough"]["options"])))["feasible"]


def test_every_change_that_is_named_is_needed() -> None:
    for words in (SEVENTY, CARDS):
        options = estimate(*words)["would_fit"]["enough"]["options"]
        for left in options:
            rest = [one for one in options if one != left]
            after = estimate(*words, *shlex.split(" ".join(rest)))
            assert not after["feasible"] or after["oom_probability"] > 0.05


def test_nothing_cheaper_than_what_is_named_fits() -> None:
    """Every choice of one and two priced by a command of its own, each change a twentieth dearer."""
    told = estimate(*CARDS)["would_fit"]
    known = [one["options"][0] for one in told["single"]]
    found = []
    for names in (*((one,) for one in known), *itertools.combinations(known, 2)):
        if len({name.split()[0] for name in names}) == len(names):
            after = estimate(*CARDS, *shlex.split(" ".join(names)))
            if after["feasible"] and after["oom_probability"] <= 0.05:
                found.append((after["step_time_s"] * (1 + 0.05 * len(names)), list(names)))
    assert min(found)[1] == told["enough"]["options"]


def test_cheap_changes_together_go_before_a_dear_one() -> None:
    """Full recompute alone fits and costs a third; smaller micro-batches and a split sequence cost little."""
    dear = ("llama3-8b", "--hardware", "dgx-h100", "--gpus", "8", "--seq-len", "8192", "--tp", "2")
    told = estimate(*dear, "--micro-batch", "4", "--format", "json", "--quiet")["would_fit"]
    alone = [one["step_time_s"] for one in told["single"] if one["fits"]]
    assert alone
    assert len(told["enough"]["options"]) > 1
    assert told["enough"]["step_time_s"] < 0.8 * min(alone)


def test_the_page_ends_with_the_least_that_fits() -> None:
    words = [word for word in SEVENTY if word not in {"--format", "json", "--quiet"}]
    done = planner("estimate", *words)
    assert done.code == 1
    head, _, tail = done.out.partition("change  ")
    fits = [one["fits"] for one in estimate(*SEVENTY)["would_fit"]["single"]]
    words = (
        "None of these changes is enough alone:",
        "What one change does:",
        "Any one of these changes makes it fit:",
    )
    assert words[any(fits) + all(fits)] in head
    assert "--sequence-parallel" in tail
    assert "The cheapest that fits: " in tail
    assert max(map(len, tail.splitlines())) <= 80
    assert len(tail.splitlines()) < 24


def test_a_plan_that_fits_or_breaks_a_rule_has_none() -> None:
    fits = (
        "llama3-8b",
        "--hardware",
        "dgx-h100",
        "--gpus",
        "8",
        "--tp",
        "2",
        "--recompute",
        "full",
        "--format",
        "json",
    )
    assert "would_fit" not in estimate(*fits)
    assert "would_fit" not in estimate(*fits, "--micro-batch", "3")


def test_a_search_tells_what_each_change_costs() -> None:
    words = ("--hardware", "rtx4090-8-pcie", "--seq-len", "2048", "--global-batch", "16", "--format", "json")
    done = planner("search", "llama3-8b", *words, "--gpus", "1")
    assert done.code == 1
    nearest = json.loads(done.out)["nearest"]
    by_change = {one["change"]: one for one in nearest["remedies"]}
    assert f"--gpus {nearest['gpus']}" in by_change
    tuned = next(name for name in by_change if name.startswith("--method qlora"))
    assert "--runtime fsdp" in tuned
    for change, one in by_change.items():
        gpus = () if change.startswith("--gpus") else ("--gpus", "1")
        again = planner("search", "llama3-8b", *words, *gpus, *shlex.split(change))
        best = json.loads(again.out)["plans"][0]
        assert best["step_time_s"] <= one["step_time_s"] * 1.001
        assert one["peak_gib"] <= 24
