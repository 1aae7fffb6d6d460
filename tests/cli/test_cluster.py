"""``planner cluster`` as a user meets it."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest

from tests.cases import every
from tests.cli.command import planner

MEASURED = """\
hardware: dgx-h100
gpus: 64
jobs:
"""
ROW = (
    "  - {{name: job{number}, model: llama3-8b, tokens: {tokens}B, weight: {weight}, asked: {asked}, "
    "{more}step_times: {times}}}\n"
)


def twenty(path: Path) -> str:
    """Write twenty jobs whose steps were measured, and return the file."""
    text = MEASURED
    for number in range(20):
        times = f"{{8: {8 + number % 5}s, 16: {4.5 + number % 3}s, 32: {2.6 + number % 2}s}}"
        more = f"deadline: {40 + 4 * number}h, " if number % 4 == 0 else ""
        text += ROW.format(
            number=number, tokens=2 + number % 7, weight=1 + number % 3, asked=32, more=more, times=times
        )
    path.write_text(text)
    return str(path)


def test_twenty_jobs_share_a_cluster_better_than_a_queue_and_equal_shares(tmp_path: Path) -> None:
    """Shockwave (arXiv:2210.00093) prints 1.3 times in makespan against fair schedulers."""
    done = planner("cluster", twenty(tmp_path / "jobs.yaml"), "-q", "--format", "json")
    assert done.code == 0, done.err
    told = done.json
    assert len(told["runs"]) == 20
    for name in ("queue", "equal shares"):
        assert told["cost"] < told["baselines"][name]["cost"]
    for run in told["runs"]:
        times = {one["gpus"]: one["time_s"] for one in told["curves"][run["job"]]}
        assert run["end_s"] - run["start_s"] == pytest.approx(times[run["gpus"]])
    events = [(run["start_s"], run["gpus"]) for run in told["runs"]]
    events += [(run["end_s"], -run["gpus"]) for run in told["runs"]]
    used = 0
    for _, change in sorted(events):
        used += change
        assert 0 <= used <= 64


def test_shares_that_change_are_taken_where_they_are_better(tmp_path: Path) -> None:
    ask = ("cluster", twenty(tmp_path / "jobs.yaml"), "-q", "--format", "json", "--objective")
    with mock.patch("planner.search.shares.SOLVER_SECONDS", 0.3):
        changed = planner(*ask, "makespan", "--changing").json
    assert changed["cost"] <= changed["baselines"]["changing shares"]["cost"] * (1 + 1e-9)
    assert 0 < changed["figures"]["in_use"] <= 1
    events = [(spell["start_s"], spell["gpus"]) for run in changed["runs"] for spell in run["spells"]]
    events += [(spell["end_s"], -spell["gpus"]) for run in changed["runs"] for spell in run["spells"]]
    used = 0
    for _, change in sorted(events):
        used += change
        assert 0 <= used <= 64
    with mock.patch("planner.search.shares.SOLVER_SECONDS", 0.3):
        fair = planner(*ask, "fairness", "--changing")
    assert fair.code == 0, fair.err
    figures = fair.json["baselines"]["changing shares"]
    assert fair.json["figures"]["unfairness"] <= figures["unfairness"] * (1 + 1e-9)


def test_a_job_takes_the_time_of_its_own_best_plan(tmp_path: Path) -> None:
    path = tmp_path / "jobs.yaml"
    work = "workload: {global_batch: 64, seq_len: 2048}"
    path.write_text(
        "hardware: dgx-h100\ngpus: 16\njobs:\n"
        f"  - {{name: a, model: qwen2.5-0.5b, tokens: 1B, gpus: [4, 8], {work}}}\n"
        f"  - {{name: b, model: qwen2.5-0.5b, tokens: 2B, gpus: [8], {work}, arrives: 1h}}\n"
    )
    told = planner("cluster", str(path), "-q", "--format", "json").json
    ask = ("search", "qwen2.5-0.5b", "--hardware", "dgx-h100", "--gpus", "8", "--global-batch", "64",
           "--seq-len", "2048", "--uniform", "--top", "1", "-q", "--format", "json")  # fmt: skip
    step = planner(*ask).json["plans"][0]["step_time_s"]
    (run,) = (run for run in told["runs"] if run["job"] == "b")
    assert run["start_s"] >= 3600
    assert run["end_s"] - run["start_s"] == pytest.approx(2e9 / (64 * 2048) * step, rel=1e-6)
    page = planner("cluster", str(path), "-q").out
    assert max(map(len, page.splitlines())) <= 80


@every(
    ("text", "words"),
    [
        ("hardware: dgx-h100\ngpus: 8\njobs: []\n", "at least one"),
        ("hardware: nowhere\ngpus: 8\njobs: [{name: a, model: llama4-9b, tokens: 1B}]\n", "nowhere"),
        ("hardware: dgx-h100\ngpus: 8\njobs: [{name: a, model: llama3-8b, tokens: many}]\n", "tokens"),
        (
            "hardware: dgx-h100\ngpus: 8\njobs: [{name: a, model: llama3-8b, tokens: 1B, gpus: [16]}]\n",
            "at most",
        ),
    ],
)
def test_a_wrong_file_is_told(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "jobs.yaml"
    path.write_text(text)
    done = planner("cluster", str(path))
    assert (done.code, done.out) == (2, "")
    assert words in done.err


def test_a_job_that_fits_on_no_share_exits_1(tmp_path: Path) -> None:
    path = tmp_path / "jobs.yaml"
    path.write_text("hardware: dgx-h100\ngpus: 1\njobs: [{name: a, model: llama3-70b, tokens: 1B}]\n")
    done = planner("cluster", str(path), "-q")
    assert done.code == 1
    assert "no share" in done.err


def test_lost_nodes_change_the_shares_of_all_jobs_at_once(tmp_path: Path) -> None:
    """Unicron's program (arXiv:2401.00134): a row for each job that may be hit."""
    path = tmp_path / "jobs.yaml"
    times = "{8: 8s, 16: 4.4s, 24: 3.2s, 32: 2.6s}"
    rows = [
        f"  - {{name: {name}, model: llama3-8b, tokens: 10B, weight: {weight}, has: {has}, "
        f"step_times: {times}}}\n"
        for name, weight, has in (("a", 2, 24), ("b", 1, 24), ("c", 1, 16))
    ]
    path.write_text("hardware: dgx-h100\ngpus: 64\nrestart: 5min\njobs:\n" + "".join(rows))
    told = planner("cluster", str(path), "--lose", "1", "-q", "--format", "json").json
    assert told["gpus"] == 56
    assert told["shares"] == {"a": 24, "b": 24, "c": 16}
    assert {case["hit"] for case in told["cases"]} == {"a", "b", "c"}
    for case in told["cases"]:
        assert sum(case["shares"].values()) <= 56
        assert case["rate"] >= case["alone_rate"] * (1 - 1e-3)
    (hit,) = (case for case in told["cases"] if case["hit"] == "a")
    assert hit["shares"]["a"] >= hit["alone"]["a"]
    page = planner("cluster", str(path), "--nodes-return", "1", "-q").out
    assert "nodes come" in page
    assert max(map(len, page.splitlines())) <= 80
    assert planner("cluster", str(path), "--lose", "4", "-q").code == 1
    for ask, words in (
        (("--lose", "8"), "--lose: found 8"),
        (("--lose", "1", "--nodes-return", "1"), "--nodes-return"),
        (("--failures", "llama3"), "--failures"),
        (("--lose", "1", "--failures", "llama9"), "--failures"),
    ):
        done = planner("cluster", str(path), *ask, "-q")
        assert (done.code, done.out) == (2, ""), ask
        assert words in done.err
    path.write_text(path.read_text().replace("has: 24", "has: 32"))
    assert "jobs.has" in planner("cluster", str(path), "--lose", "1").err
