"""``planner search --objective goodput`` as a user meets it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import once, planner

JOB = ("search", "llama3-8b", "--hardware", "dgx-h100", "--gpus", "32", "--tp", "2", "--uniform", "-q")
GOODPUT = (*JOB, "--objective", "goodput", "--storage", "10GB/s", "--tokens", "1T")


def test_strategies_are_ranked_by_the_time_with_failures() -> None:
    told = once(*GOODPUT, "--failures", "meta-a100", "--format", "json").json
    steps = [one["expected_step_time_s"] for one in told["plans"]]
    assert steps == sorted(steps)
    assert {"restart", "in-memory", "elastic"} <= {one["recovery"] for one in told["plans"]}
    assert "torchft" in told["left_out"]
    for one in told["plans"]:
        bare = one["estimate"]
        assert one["goodput"] * one["expected_step_time_s"] == pytest.approx(bare["step_time_s"])
        assert one["days_to_train"] * one["goodput"] == pytest.approx(bare["days_to_train"])
        assert one["goodput"] + sum(one["lost"].values()) == pytest.approx(1.0, abs=1e-3)


def test_a_page_fits_the_screen() -> None:
    done = planner(*GOODPUT, "--recovery", "restart:5min", "--top", "3")
    assert done.code == 0
    assert len(done.out.splitlines()) <= 24
    assert max(map(len, done.out.splitlines())) <= 80
    assert "arXiv:2407.21783" in done.out


def test_the_interval_is_written_into_the_launch_files(tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = planner(*GOODPUT, "--recovery", "restart", "--format", "json", "--emit", str(out))
    assert done.code == 0, done.err
    steps = done.json["plans"][0]["steps_between_checkpoints"]
    script = (out / "train.sh").read_text()
    assert f"SAVE_INTERVAL:-{steps}}}" in script
    assert "--async-save" in script
    assert f"each {steps:,} steps" in (out / "README.md").read_text()


def test_faults_are_told_at_once() -> None:
    done = planner(*JOB, "--objective", "goodput", "--failures", "llama4", "--recovery", "restrt")
    assert (done.code, done.out) == (2, "")
    for words in ("--storage: found nothing", "--failures", "--recovery: found 'restrt'"):
        assert words in done.err
    front = planner(*GOODPUT, "--front", "3", "--flags")
    assert front.code == 2
    assert "--front" in front.err
    assert "--flags" in front.err
    other = planner(*JOB, "--storage", "1GB/s")
    assert other.code == 2
    assert "--objective goodput" in other.err


def test_a_sweep_does_not_rank_by_goodput(tmp_path: Path) -> None:
    grid = tmp_path / "grid.yaml"
    grid.write_text("model: llama3-8b\nhardware: dgx-h100\ngpus: 16\nobjective: goodput\n")
    done = planner("sweep", str(grid), "-q", "--format", "json")
    assert (done.code, done.out) == (2, "")
    assert "objective: found 'goodput'" in done.err


def test_clusters_and_counts_that_are_compared_are_named() -> None:
    ask = (*JOB[:2], "--hardware", "dgx-h100", "--hardware", "dgx-a100-80gb", "--gpus", "16", "--tp", "2")
    page = planner(*ask, "--uniform", "-q", "--objective", "goodput", "--storage", "10GB/s")
    assert "dgx-h100 16:" in " ".join(page.out.split())


def test_checkfree_is_priced_where_it_is_named_with_what_it_costs_in_learning() -> None:
    job = (
        "search",
        "llama3-8b",
        "--hardware",
        "dgx-h100",
        "--gpus",
        "64",
        "--cp",
        "1",
        "--micro-batch",
        "1",
        "--uniform",
        "-q",
        "--objective",
        "goodput",
    )
    ask = (*job, "--storage", "1GB/s", "--failures", "meta-a100", "--recovery", "checkfree")
    told = once(*ask, "--format", "json").json
    best = told["plans"][0]
    assert best["estimate"]["plan"]["pp"] == 8
    assert best["learning_steps"] == [0, 10]
    assert best["lost"]["relearning"] > 0
    page = " ".join(planner(*ask).out.split())
    for words in ("No known runner has checkfree", "0 to 10 steps of learning", "arXiv:2506.15461"):
        assert words in page
    dear = planner(*ask[:-1], "checkfree:500steps", "--format", "json").json["plans"][0]
    assert dear["goodput"] < best["goodput"]
    fixed = planner(*ask, "--pp", "8", "--top", "1", "--format", "json").json
    assert fixed["plans"][0]["recovery"] == "checkfree"
    unnamed = once(*ask[:-2], "--format", "json").json
    assert "checkfree" not in {one["recovery"] for one in unnamed["plans"]} | set(unnamed["left_out"])
    for text, words in (("checkfree:-3steps", "steps from 0"), ("restart:5steps", "changes no result")):
        done = planner(*ask[:-1], text)
        assert done.code == 2
        assert words in done.err
    mixed = planner("search", "qwen3-30b-a3b", *ask[2:])
    assert mixed.code == 1
    assert "experts of neighbouring layers" in mixed.err
