"""``planner goodput`` as a user meets it."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from tests.cli.command import planner

JOB = ("llama3-8b", "--hardware", "dgx-h100", "--gpus", "16", "--global-batch", "64", "--tp", "2")
TIMES = ("--checkpoint-time", "30s", "--restart-time", "10min")


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("plans") / "plan.yaml"
    assert planner("estimate", *JOB, "--tokens", "1T", "--save", str(path)).code == 0
    return str(path)


def test_days_and_cost_grow_by_the_lost_time(plan: str) -> None:
    ask = ("goodput", plan, *TIMES, "--device-mtbf", "1000h", "--format", "json")
    told = planner(*ask).json
    assert told["mtbf_s"] == pytest.approx(1000 * 3600 / 16)
    assert told["goodput"] + told["saving_share"] + told["failures_share"] == pytest.approx(1.0)
    bare = told["estimate"]
    for name in ("days_to_train", "cost_usd_to_train"):
        assert told[name] * told["goodput"] == pytest.approx(bare[name])
    assert told["failures_to_train"] * told["mtbf_s"] == pytest.approx(told["days_to_train"] * 24 * 3600)
    assert told["mfu"] == pytest.approx(bare["mfu"] * told["goodput"])
    assert told["interval_s"] == pytest.approx(told["steps_between_checkpoints"] * bare["step_time_s"])


def test_a_page_says_what_it_rests_on_and_fits_the_terminal(plan: str) -> None:
    page = planner("goodput", plan, *TIMES).out
    assert max(map(len, page.splitlines())) <= 80
    assert "arXiv:2407.21783" in page
    assert "arXiv:2407.21783" not in planner("goodput", plan, *TIMES, "--device-mtbf", "1000h").out
    (row,) = csv.DictReader(io.StringIO(planner("goodput", plan, *TIMES, "--format", "csv").out))
    assert 0 < float(row["goodput"]) < 1


def test_an_interval_that_is_asked_for_is_kept_in_whole_steps(plan: str) -> None:
    told = planner("goodput", plan, *TIMES, "--interval", "3h", "--format", "json").json
    assert told["interval_s"] == pytest.approx(3 * 3600, abs=told["estimate"]["step_time_s"])
    best = planner("goodput", plan, *TIMES, "--device-mtbf", "100h", "--format", "json").json
    asked = planner(
        "goodput", plan, *TIMES, "--device-mtbf", "100h", "--interval", "3h", "--format", "json"
    ).json
    assert asked["goodput"] < best["goodput"]


def test_what_a_site_alone_knows_must_be_given_with_its_unit(plan: str) -> None:
    done = planner("goodput", plan, "--checkpoint-time", "30", "--interval", "0s")
    assert (done.code, done.out) == (2, "")
    assert "--checkpoint-time: found '30'" in done.err
    assert "--restart-time: found nothing" in done.err
    assert "--interval: found '0s'" in done.err


def test_a_job_that_never_gets_on_exits_1(plan: str) -> None:
    done = planner("goodput", plan, *TIMES, "--device-mtbf", "1min")
    assert done.code == 1
    assert "never reaches its next checkpoint" in done.err


def test_a_missing_plan_is_told(tmp_path: Path) -> None:
    assert planner("goodput", str(tmp_path / "no.yaml"), *TIMES).code == 2


def test_slow_ranks_are_priced_and_redundancy_is_usually_none(
    plan: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = planner("goodput", plan, "--stragglers", "normal:3%", "--format", "json").json
    assert told["expected_step_time_s"] > told["step_time_s"]
    assert told["remedy"] is None
    monkeypatch.chdir(tmp_path)
    Path("steps.csv").write_text("seconds\n1.0\n1.02\n0.98\n1.4\n")
    page = planner("goodput", plan, "--stragglers", "steps.csv").out
    assert max(map(len, page.splitlines())) <= 80
    for text, words in (("gamma:3%", "normal:3%"), ("normal:300%", "share below 1")):
        done = planner("goodput", plan, "--stragglers", text)
        assert done.code == 2
        assert words in done.err


def test_the_recoveries_of_a_saved_plan_are_ranked(plan: str) -> None:
    ask = ("goodput", plan, "--failures", "meta-a100", "--storage", "10GB/s")
    told = planner(*ask, "--format", "json").json
    assert told["schema"] == "planner/search-goodput/1"
    steps = [one["expected_step_time_s"] for one in told["plans"]]
    assert steps == sorted(steps)
    assert {one["recovery"] for one in told["plans"]} == {"elastic", "in-memory", "in-process", "restart"}
    assert "torchft" in told["left_out"]
    page = planner(*ask, "--recovery", "restart:5min")
    assert page.code == 0
    assert max(map(len, page.out.splitlines())) <= 80
    assert "less sure of other counts" in " ".join(page.out.split())
    alone = planner(*ask, "--recovery", "checkfree")
    assert alone.code == 1
    assert "pp is 1" in alone.err
    done = planner("goodput", plan, "--failures", "llama4", "--interval", "1h")
    assert (done.code, done.out) == (2, "")
    for words in ("--failures", "--interval: found with --failures", "--storage: found nothing"):
        assert words in done.err
