"""Buckets and overlap of DeepSpeed, and the dtype of FSDP's reductions: price, memory, files, search."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cases import every
from tests.cli.command import planner

GIB = 2.0**30
JOB = ("llama2-7b", "--hardware", "dgx-a100-80gb", "--gpus", "8", "--seq-len", "4096", "--global-batch", "64")
DEEPSPEED = (*JOB, "--runtime", "deepspeed")


def priced(*words: str) -> dict[str, float]:
    told = planner("estimate", *words, "--format", "json").json
    stage = told["memory"]["stages"][0]
    return {"seconds": told["step_time_s"], "work": stage["workspace_gib"], "dp": told["time_s"]["dp_comm"]}


def test_a_flat_bucket_is_as_large_as_it_is_said_and_overlap_has_two() -> None:
    """``setup_buckets`` of stage_1_and_2.py: ``reduce_bucket_size`` 16-bit gradients, twice with overlap."""
    sizes = {
        (size, overlap): priced(
            *DEEPSPEED, "--zero", "1", "--set", f"bucket_size={size}", "--set", f"overlap_comm={overlap}"
        )
        for size, overlap in (("5e8", "true"), ("5e7", "true"), ("5e8", "false"))
    }
    usual, small, alone = sizes.values()
    assert usual["work"] - small["work"] == pytest.approx(2 * (5e8 - 5e7) * 2 / GIB, abs=0.006)
    assert usual["work"] - alone["work"] == pytest.approx(5e8 * 2 / GIB, abs=0.006)
    assert usual["dp"] < small["dp"] < alone["dp"]


@every("zero", ["1", "3"])
def test_files_say_them_and_are_read_back_at_the_same_price(zero: str, tmp_path: Path) -> None:
    saved, out = tmp_path / "plan.yaml", tmp_path / "out"
    sets = ("--set", "reduce_bucket_size=2e8", "--set", "overlap_comm=false")
    done = planner(
        "estimate", *DEEPSPEED, "--zero", zero, *sets, "--save", str(saved), "--format", "json"
    ).json
    assert planner("emit", str(saved), "--out", str(out)).code == 0
    said = json.loads((out / "ds_config.json").read_text())["zero_optimization"]
    assert (said["overlap_comm"], said["reduce_bucket_size"]) == (False, 2e8)
    assert said.get("allgather_bucket_size", 2e8) == 2e8
    again = planner(
        "estimate", "--from", str(out / "ds_config.json"), "--hardware", "dgx-a100-80gb", "--gpus", "8",
        "--format", "json",
    ).json  # fmt: skip
    assert done["settings"] | {"bucket_size": "2e8", "overlap_comm": "false"} == done["settings"]
    assert again["settings"] == done["settings"]
    assert (again["step_time_s"], again["memory"]) == (done["step_time_s"], done["memory"])


def test_a_search_keeps_the_usual_buckets_where_they_fit_and_takes_smaller_ones_where_they_do_not() -> None:
    words = (*DEEPSPEED, "--zero", "1", "--dp", "8", "--micro-batch", "1", "--recompute", "none",
             "--offload", "none", "--format", "json")  # fmt: skip
    free = planner("search", *words).json["plans"][0]
    assert (free["settings"]["bucket_size"], free["settings"]["overlap_comm"]) == ("5e8", "true")
    tight = planner("search", *words, "--memory-limit", "62.2GiB", "--oom-risk", "0.9").json["plans"][0]
    assert (tight["settings"]["bucket_size"], tight["settings"]["overlap_comm"]) == ("5e7", "true")
    assert tight["step_time_s"] > free["step_time_s"]


def test_narrower_reductions_are_searched_for_fsdp_only_where_they_are_allowed(tmp_path: Path) -> None:
    words = (*JOB[:4], "16", *JOB[5:], "--runtime", "fsdp")
    saved = ("--allow", "reduction", "--save", str(tmp_path / "plan.yaml"))
    plain, asked = (
        planner("search", *words, "--format", "json", *more).json["plans"][0] for more in ((), saved)
    )
    assert (plain["settings"]["reduction"], asked["settings"]["reduction"]) == ("fp32", "bf16")
    assert asked["step_time_s"] < plain["step_time_s"]
    assert planner("emit", str(tmp_path / "plan.yaml"), "--out", str(tmp_path / "out")).code == 0
    assert "REDUCE_DTYPE = 'bfloat16'" in (tmp_path / "out" / "train.py").read_text()
    again = planner(
        "estimate", "--from", str(tmp_path / "out" / "accelerate.yaml"), "--hardware", "dgx-a100-80gb",
        "--gpus", "16", "--format", "json",
    ).json  # fmt: skip
    assert again["settings"]["reduction"] == "bf16"
    assert again["step_time_s"] == pytest.approx(asked["step_time_s"], rel=1e-12)
