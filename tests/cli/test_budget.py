"""``planner budget`` as a user meets it."""

from __future__ import annotations

import csv
import io

import pytest

from tests.cli.command import once, planner

SIZES = ("qwen2.5-0.5b", "qwen2.5-1.5b")
CLUSTER = ("--hardware", "dgx-h100", "--gpus", "8", "--global-batch", "64", "--seq-len", "2048", "-q")
DAY = 24 * 3600
E, A, B, ALPHA, BETA = 1.8172, 482.01, 2085.43, 0.3478, 0.3658
"""The fit of arXiv:2404.10102."""


def budget(*more: str) -> dict:
    done = once("budget", *SIZES, *CLUSTER, *more, "--format", "json")
    assert done.code == 0, done.err
    return done.json


def test_each_size_trains_as_many_tokens_as_its_own_plan_can() -> None:
    told = budget("--days", "3")
    assert [one["model"] for one in told["sizes"]] == list(SIZES)
    for one in told["sizes"]:
        assert one["tokens"] == pytest.approx(3 * DAY / one["step_time_s"] * 64 * 2048)
        assert one["loss"] == pytest.approx(E + A / one["params"] ** ALPHA + B / one["tokens"] ** BETA)
        assert one["ends_by"] == "days"
    assert told["best"] == min(told["sizes"], key=lambda one: one["loss"])
    assert told["estimate"]["model"]["name"] == told["best"]["model"]


def test_the_size_is_chosen_by_the_speed_that_is_reached_not_by_the_peak() -> None:
    """What vTrain (arXiv:2312.12391) found: the rule of peak FLOPs counts work that nobody does."""
    told = budget("--days", "3")
    peak = 8 * 989.4e12 * 3 * DAY
    assert told["at_peak"]["flops"] == pytest.approx(peak, rel=1e-2)
    assert told["best"]["flops"] == pytest.approx(told["at_peak"]["flops"] * told["best"]["mfu"], rel=1e-6)


def test_the_part_of_a_budget_that_is_used_up_first_ends_the_training() -> None:
    alone = budget("--days", "3")["sizes"][1]
    half = budget("--days", "3", "--flops", f"{alone['flops'] / 2:.6g}")["sizes"][1]
    assert half["ends_by"] == "flops"
    assert half["tokens"] == pytest.approx(alone["tokens"] / 2, rel=1e-5)
    dear = budget("--dollars", "100", "--price", "2")["sizes"][1]
    assert dear["ends_by"] == "dollars"
    assert dear["days"] == pytest.approx(100 / (2 * 8 * 24))
    assert dear["cost_usd"] == pytest.approx(100)


def test_a_page_and_rows_say_the_same() -> None:
    page = once("budget", *SIZES, *CLUSTER, "--days", "3")
    assert page.code == 0
    assert max(map(len, page.out.splitlines())) <= 80
    assert len(page.out.splitlines()) <= 24
    assert "arXiv:2404.10102" in page.out
    rows = list(
        csv.DictReader(io.StringIO(planner("budget", *SIZES, *CLUSTER, "--days", "3", "--format", "csv").out))
    )
    assert [float(row["tokens"]) for row in rows] == [one["tokens"] for one in budget("--days", "3")["sizes"]]


def test_by_a_ratio_the_largest_model_that_gets_its_tokens_is_best() -> None:
    told = budget("--days", "3", "--law", "chinchilla")
    full = [one for one in told["sizes"] if one["tokens_per_param"] >= 20]
    assert told["best"]["params"] >= max(one["params"] for one in full)
    assert told["best"]["loss"] is None


def test_sizes_that_do_not_fit_are_named_and_none_that_fits_exits_1() -> None:
    done = planner("budget", "qwen2.5-7b", *CLUSTER, "--days", "3", "--memory-limit", "2", "--format", "json")
    assert done.code == 1
    assert done.json["best"] is None
    assert done.json["without_plan"] == ["qwen2.5-7b"]


def test_faults_are_told_at_once() -> None:
    done = planner("budget", "--hardware", "dgx-h100", "--gpus", "8", "--law", "x", "--family", "bert")
    assert (done.code, done.out) == (2, "")
    for words in ("--flops: found nothing", "--law: found 'x'", "--family: found 'bert'"):
        assert words in done.err
    both = planner("budget", "llama3-8b", "--family", "gpt", *CLUSTER, "--days", "1")
    assert both.code == 2
    assert "--family" in both.err
