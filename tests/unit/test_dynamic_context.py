"""Context parallelism by length (Megatron-core's hybrid_context_parallel): price, limits, search, files.

Its gain comes from the lengths alone (ByteScale, arXiv:2502.21231; Zeppelin, arXiv:2509.21841).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planner.cost.estimate import Estimate, estimate
from planner.cost.settings import with_value
from planner.cost.step.uneven_steps import UnevenSteps
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.runtimes.family import Job
from planner.runtimes.megatron_lm import ENTRY as MEGATRON
from tests.cases import every
from tests.cli.command import planner

LONG_TAIL = "lognormal:mean=8192,max=65536,seed=1"


def priced(lengths: str, dynamic: bool, model: str = "llama3-8b", **axes: Any) -> Estimate:
    plan = Plan(tp=2.0, cp=8.0, dp=4.0, zero=1, zero_shards=32.0, num_microbatches=32.0)
    plan = replace(plan, **axes)
    work = Workload(seq_len=65536, global_batch=128, seq_lens=lengths)
    job = Job(load_model(model), load_hardware("dgx-h100"), 64, work)
    runtime = with_value(MEGATRON, "dynamic_context", str(dynamic).lower())
    return estimate(plan, job, runtime)


def table(folder: Path, lengths: list[int]) -> str:
    path = folder / "lengths.csv"
    path.write_text("length\n" + "\n".join(map(str, lengths)) + "\n")
    return str(path)


def test_equal_lengths_gain_nothing(tmp_path: Path) -> None:
    equal = table(tmp_path, [65536] * 40)
    plain, dynamic = (priced(equal, one) for one in (False, True))
    assert dynamic.step == pytest.approx(plain.step, rel=1e-9)
    assert dynamic.sent.cp == plain.sent.cp


def test_a_long_tail_gains_messages_and_waits() -> None:
    plain, dynamic = (priced(LONG_TAIL, one) for one in (False, True))
    assert not dynamic.violations
    assert dynamic.step < plain.step
    assert dynamic.sent.cp < 0.7 * plain.sent.cp
    assert dynamic.time.cp_comm < plain.time.cp_comm


def test_the_price_is_what_was_told_beside_the_plan() -> None:
    plain, dynamic = (priced(LONG_TAIL, one) for one in (False, True))
    assert dynamic.step == pytest.approx(UnevenSteps(plain).by_length.step)
    assert UnevenSteps(dynamic).by_length is dynamic


def test_no_spread_of_lengths_makes_it_slower() -> None:
    for sigma in ("0.3", "1.0", "1.8"):
        lengths = f"lognormal:mean=8192,max=65536,seed=1,sigma={sigma}"
        assert priced(lengths, True).step <= priced(lengths, False).step


@every(
    ("model", "axes", "rule"),
    [
        ("llama3-8b", {"pp": 2.0, "dp": 2.0, "zero_shards": 16.0, "num_microbatches": 64.0}, "unpiped"),
        ("llama3-8b", {"zero": 3}, "sharding"),
        ("llama3-8b", {"cp_method": "all-to-all"}, "ring"),
        ("llama3-8b", {"offload": "activations:4"}, "on-device"),
        ("llama3-8b", {"micro_batch": 2.0, "num_microbatches": 16.0}, "one-pack"),
        ("qwen3-30b-a3b", {"cp": 4.0, "dp": 8.0, "num_microbatches": 16.0}, "dense"),
        ("deepseek-v2", {"cp": 4.0, "dp": 8.0, "num_microbatches": 16.0}, "attention"),
    ],
)
def test_limits_of_megatron_core_are_rules(model: str, axes: dict[str, Any], rule: str) -> None:
    on, off = (
        {one.rule for one in priced(LONG_TAIL, way, model, **axes).violations} for way in (True, False)
    )
    assert f"dynamic-context-{rule}" in on - off


JOB = (
    "llama3-8b", "--hardware", "dgx-h100", "--gpus", "64", "--seq-len", "64Ki", "--global-batch", "128",
    "--seq-lens", LONG_TAIL, "--runtime", "megatron-lm",
)  # fmt: skip


def test_files_have_the_flags_and_are_read_back(tmp_path: Path) -> None:
    saved, out = tmp_path / "plan.yaml", tmp_path / "out"
    layout = ("--tp", "2", "--cp", "8", "--zero", "1", "--max-tokens-per-rank", "8Ki")
    done = planner("estimate", *JOB, *layout, "--set", "dynamic_cp=true", "--save", str(saved))
    assert done.code == 0, done.err
    assert planner("emit", str(saved), "--out", str(out)).code == 0
    text = " ".join((out / "train.sh").read_text().replace("\\\n", " ").split())
    for words in (
        "--hybrid-context-parallel", "--max-seqlen-per-dp-cp-rank 8192", "--dataloader-type single",
        "--calculate-per-token-loss", "--dataloader-inter-document-masking",
    ):  # fmt: skip
        assert words in text
    again = planner(
        "estimate", "--from", str(out / "train.sh"), "--hardware", "dgx-h100", "--gpus", "64",
        "--seq-lens", LONG_TAIL, "--format", "json",
    )  # fmt: skip
    assert again.json["settings"]["dynamic_context"] == "true"


def test_a_search_takes_it_where_it_is_faster() -> None:
    layout = (
        "--tp",
        "1",
        "--pp",
        "1",
        "--cp",
        "8",
        "--zero",
        "1",
        "--recompute",
        "full",
        "--micro-batch",
        "1",
    )
    best = planner("search", *JOB, *layout, "--format", "json").json["plans"][0]
    assert best["settings"]["dynamic_context"] == "true"


def test_a_rank_takes_no_more_tokens_than_memory_is_priced_for() -> None:
    layout = ("--tp", "2", "--cp", "8", "--zero", "1", "--set", "dynamic_cp=true", "--format", "json")
    done = planner("estimate", *JOB, *layout, "--max-tokens-per-rank", "16Ki")
    assert "dynamic-context-capacity" in {fault["rule"] for fault in done.json["violations"]}
