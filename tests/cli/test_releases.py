"""Releases: how they are named, kept and compared, and that prices for one are those of its measured runs."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import yaml

from planner.api import estimate_plan, load_hardware, load_model, load_runtime
from planner.api import load_plan as read_plan
from planner.calibrate.releases import era_of, find_release, named_runtime, of_release, releases
from planner.errors import InputError
from planner.inputs.load_hardware import accelerator_names
from planner.inputs.workload import Workload
from planner.runtimes import runtimes
from planner.runtimes.family import Job
from tests.cases import every
from tests.cli.command import planner
from tests.swept_here import swept_here

MOE = (
    "qwen3-30b-a3b", "--hardware", "gb300-nvl72", "--gpus", "8", "--global-batch", "512",
    "--precision", "mxfp8", "--ep", "8", "--micro-batch", "4", "--zero", "1",
)  # fmt: skip
MOE_ROW = {
    "gpu": "gb300", "gpus_per_node": 4, "num_gpus": 8, "model": "Qwen3-30B-A3B", "seq_len": 4096, "tp": 1,
    "pp": 1, "vpp": 1, "cp": 1, "ep": 8, "etp": 1, "dp": 8, "zero": "1", "seq_parallel": 0, "micro_batch": 4,
    "global_batch": 512, "recompute": "none", "precision": "mxfp8", "step_time_s": 9,
}  # fmt: skip
BIG = (
    "qwen3-235b-a22b", "--hardware", "dgx-h100", "--gpus", "256", "--global-batch", "2048", "--precision",
    "fp8", "--tp", "2", "--pp", "8", "--vpp", "4", "--ep", "32", "--micro-batch", "1", "--zero", "1",
    "--sequence-parallel", "--schedule", "interleaved",
)  # fmt: skip
BIG_ROW = {
    "gpu": "h100-80gb-sxm", "gpus_per_node": 8, "num_gpus": 256, "model": "Qwen3-235B-A22B", "seq_len": 4096,
    "tp": 2, "pp": 8, "vpp": 4, "cp": 1, "ep": 32, "etp": 1, "dp": 16, "zero": "1", "seq_parallel": 1,
    "micro_batch": 1, "global_batch": 2048, "recompute": "none", "precision": "fp8",
    "schedule": "interleaved", "step_time_s": 30,
}  # fmt: skip
DENSE = (
    "llama2-7b", "--hardware", "dgx-a100-80gb", "--gpus", "8", "--global-batch", "64", "--tp", "2",
    "--precision", "fp16", "--zero", "0", "--recompute", "full",
)  # fmt: skip
DENSE_ROW = {
    "gpu": "a100-80gb-sxm", "gpus_per_node": 8, "num_gpus": 8, "model": "llama2-7b", "seq_len": 4096, "tp": 2,
    "pp": 1, "cp": 1, "dp": 4, "zero": "0", "seq_parallel": 0, "micro_batch": 1, "global_batch": 64,
    "recompute": "full", "precision": "fp16", "step_time_s": 9,
}  # fmt: skip
TITAN = ("llama3.1-8b", "--hardware", "dgx-h100", "--gpus", "8", "--global-batch", "16", "--zero", "3")
TITAN_ROW = {
    "gpu": "h100-80gb-sxm", "gpus_per_node": 8, "num_gpus": 8, "model": "llama3.1-8b", "seq_len": 4096,
    "tp": 1, "pp": 1, "cp": 1, "dp": 8, "zero": "3", "seq_parallel": 0, "micro_batch": 1, "global_batch": 16,
    "recompute": "none", "precision": "bf16", "step_time_s": 1,
}  # fmt: skip


def validated(row: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return what ``validate`` says of one row of a table."""
    path = folder / "runs.csv"
    with path.open("w", newline="") as lines:
        table = csv.DictWriter(lines, ["id", "source", *row])
        table.writeheader()
        table.writerow({"id": "r1", "source": "a-site-of-its-own", **row})
    answer = planner("validate", str(path), "--format", "json").json
    assert answer["skipped"] == []
    found: dict[str, Any] = answer["per_row"][0]
    return found


@every(
    ("ask", "row", "name", "framework"),
    [
        (MOE, MOE_ROW, "megatron-bridge@25.11", "megatron-bridge, NeMo container 25.11"),
        (MOE, MOE_ROW, "megatron-bridge@26.04.01", "megatron-bridge, NeMo container 26.04.01"),
        (MOE, MOE_ROW, "megatron-bridge@0.5", "megatron-bridge, NeMo container 26.06"),
        (BIG, BIG_ROW, "megatron-bridge@25.11", "megatron-bridge, NeMo container 25.11"),
        (BIG, BIG_ROW, "nemo@24.09", "NeMo 24.09"),
        (DENSE, DENSE_ROW, "megatron-lm@2.6", "megatron-lm 2.6"),
        (DENSE, DENSE_ROW, "megatron-lm@2.0", "megatron-lm 2.0"),
        (DENSE, DENSE_ROW, "megatron-lm@0.17", "megatron-lm 0.17"),
        (TITAN, TITAN_ROW, "torchtitan@0.2.1", "torchtitan 0.2.1"),
        (TITAN, TITAN_ROW, "torchtitan@0.2.2", "torchtitan 0.2.2"),
    ],
)
def test_an_estimate_is_what_validate_says_of_the_same_run(
    ask: tuple[str, ...], row: dict[str, Any], name: str, framework: str, tmp_path: Path
) -> None:
    priced = planner("estimate", *ask, "--runtime", name, "--format", "json").json
    measured = validated(row | {"framework": framework}, tmp_path)
    assert priced["step_time_s"] == pytest.approx(measured["predicted_s"], rel=1e-9)


def test_a_release_is_named_by_version_container_patch_or_option() -> None:
    asked = [
        (*MOE, "--runtime", "megatron-bridge@0.4"),
        (*MOE, "--runtime", "bridge@26.04.01"),
        (*MOE, "--runtime", "megatron-bridge@v0.4.2"),
        (*MOE, "--runtime", "megatron-bridge", "--target-version", "26.04"),
    ]
    answers = [planner("estimate", *words, "--format", "json").json for words in asked]
    assert {(one["runtime"], one["release"]) for one in answers} == {("megatron-bridge", "0.4")}
    assert len({one["step_time_s"] for one in answers}) == 1
    assert all("release" not in one["defaults"] for one in answers)


def test_without_a_release_the_newest_is_taken_named_and_priced_as_the_runtime_itself() -> None:
    for name in runtimes():
        newest = releases()[name].newest
        for accelerator in ("h100-80gb-sxm", "gb300"):
            assert of_release(name, newest, accelerator, "bf16").traits == runtimes()[name].traits
    silent = planner("estimate", *MOE, "--runtime", "megatron-bridge", "--format", "json").json
    named = planner("estimate", *MOE, "--runtime", "megatron-bridge@0.7", "--format", "json").json
    assert (silent["release"], silent["defaults"]["release"]) == ("0.7", "0.7")
    assert silent["step_time_s"] == named["step_time_s"]


@every(
    ("release", "near"),
    [("26.07", "26.06.01, 26.08"), ("0.9", "0.7"), ("24.01", "24.09"), ("nemo-2", "nemo-2.0, nemo-2.3")],
)
def test_an_unknown_release_is_refused_with_the_nearest_ones(release: str, near: str) -> None:
    done = planner("estimate", *MOE, "--runtime", f"megatron-bridge@{release}")
    assert (done.code, done.out) == (2, "")
    assert f"found 'megatron-bridge@{release}'" in done.err
    assert sorted(done.err.strip().rpartition("nearest: ")[2].split(", ")) == sorted(near.split(", "))


def test_two_releases_and_devices_that_a_release_never_ran_on_are_refused() -> None:
    twice = planner("estimate", *MOE, "--runtime", "megatron-bridge@0.4", "--target-version", "0.5")
    assert (twice.code, "--target-version" in twice.err) == (2, True)
    old = planner("estimate", *MOE, "--runtime", "megatron-lm@2.6")
    assert (old.code, "megatron-lm@0.4" in old.err) == (2, True)


def test_a_plan_file_keeps_its_release(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    ask = (*MOE, "--runtime", "megatron-bridge@25.11", "--set", "ep_exposed=0.5")
    first = planner("estimate", *ask, "--save", str(path), "--format", "json").json
    content = yaml.safe_load(path.read_text())["runtime"]
    assert (content["release"], content["traits"]) == ("0.2", {"ep_exposed": 0.5})
    saved = read_plan(path)
    assert (saved.runtime.release, saved.changed) == ("0.2", ())
    again = planner("explain", str(path), "--format", "json").json
    assert json.dumps(again).count(str(first["step_time_s"])) >= 1
    content["release"] = "26.05"
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | {"runtime": content}))
    done = planner("explain", str(path))
    assert (done.code, "nearest: 26.04.01, 26.06" in done.err) == (2, True)


def test_the_search_ranks_releases_side_by_side() -> None:
    ask = ("llama3.1-8b", "--hardware", "dgx-b200", "--gpus", "8", "--global-batch", "64")
    both = ("--runtime", "megatron-bridge@25.11", "--runtime", "megatron-bridge@26.04", "--top", "8")
    plans = planner("search", *ask, *both, "--format", "json").json["plans"]
    assert {plan["release"] for plan in plans} <= {"0.2", "0.4"}
    assert {plan["runtime"] for plan in plans} == {"megatron-bridge"}


def test_releases_of_one_price_are_cases_of_their_own_in_a_sweep(tmp_path: Path) -> None:
    grid = tmp_path / "grid.yaml"
    content = {"models": ["llama2-7b"], "hardware": ["dgx-h100"], "gpus": [8], "global_batch": [64]}
    content |= dict.fromkeys(("tp", "pp", "cp", "micro_batch"), 1)
    names = ["megatron-lm@0.19", "megatron-lm@0.18", "megatron-lm"]
    grid.write_text(yaml.safe_dump(content | {"runtime": names}))
    out = ("--out", str(tmp_path / "rows.jsonl"), "--jobs", "1")
    with swept_here():
        planner("sweep", str(grid), *out, "--format", "json")
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert sorted(row["best"]["release"] for row in rows) == ["0.18", "0.19", "0.20"]
    assert len({row["key"] for row in rows}) == 3


def test_a_runners_file_is_priced_on_a_release(tmp_path: Path) -> None:
    plan, folder = tmp_path / "plan.yaml", tmp_path / "files"
    ask = ("llama2-7b", "--hardware", "dgx-h100", "--gpus", "8", "--global-batch", "64", "--tp", "2")
    planner("estimate", *ask, "--runtime", "megatron-lm", "--save", str(plan))
    assert planner("emit", str(plan), "--out", str(folder), "--target-version", "0.18").code == 0
    assert yaml.safe_load((folder / "plan.yaml").read_text())["runtime"]["release"] == "0.18"
    script = next(folder.glob("*.sh"))
    read = ("estimate", "--from", str(script), "--hardware", "dgx-h100", "--gpus", "8", "--format", "json")
    assert planner(*read).json["release"] == "0.20"
    answer = planner(*read, "--target-version", "core_v0.18.2").json
    assert (answer["runtime"], answer["release"]) == ("megatron-lm", "0.18")
    assert planner(*read, "--runtime", "megatron-lm@0.17").json["release"] == "0.17"


def test_a_bump_is_the_difference_of_two_estimates_and_its_terms_add_up(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    planner("estimate", *MOE, "--runtime", "megatron-bridge@25.11", "--save", str(path))
    pair = ("megatron-bridge@25.11", "megatron-bridge@26.06")
    answer = planner("runtimes", "diff", *pair, "--plan", str(path), "--format", "json").json
    a, b = (planner("estimate", *MOE, "--runtime", name, "--format", "json").json for name in pair)
    assert answer["step_time_s"] == pytest.approx(b["step_time_s"] - a["step_time_s"], rel=1e-9)
    assert sum(answer["time_s"].values()) == pytest.approx(answer["step_time_s"], rel=1e-9)
    parts = answer["memory_gib"]
    told = sum(value for name, value in parts.items() if name not in ("allocated", "total"))
    # Activations and workspace are told at the peak's moment: their sum with the rest is the total.
    assert parts["allocated"] + parts["reserve"] + parts["framework"] == pytest.approx(parts["total"])
    assert told == pytest.approx(parts["total"], abs=0.01)
    assert answer["peak_gib"] == pytest.approx(b["memory"]["peak_gib"] - a["memory"]["peak_gib"])
    assert answer["traits"]["graphed"] == {"from": "", "to": "passes"}
    page = planner("runtimes", "diff", *pair, "--plan", str(path))
    assert (page.code, "megatron-bridge@0.5 against megatron-bridge@0.2" in page.out) == (0, True)


def test_runtimes_are_listed_and_shown() -> None:
    rows = planner("runtimes", "list", "--format", "json").json
    assert [row["runtime"] for row in rows] == list(runtimes())
    for name, runtime in runtimes().items():
        shown = planner("runtimes", "show", name, "--format", "json").json
        files = [one["files"] for one in shown["releases"] if one["own_files"]]
        assert files == list(runtime.versions)
        assert planner("runtimes", "show", name).code == 0
    assert planner("runtimes", "show", "megatronlm").code == 2


def test_every_release_has_an_era_of_its_runtime_wherever_it_runs() -> None:
    for name, known in releases().items():
        assert not known.newest.framework
        spellings = [spelling for release in known.releases for spelling in release.spellings]
        assert len(set(spellings)) == len(spellings)
        for release in known.releases[1:]:
            assert re.fullmatch(r"\d{4}(-\d\d){0,2}", release.date)
            for text in (release.framework, *release.containers):
                assert find_release(name, text.split()[-1]) is release
            eras = [era_of(release, accelerator) for accelerator in accelerator_names()]
            assert {era.runtime for era in eras if era is not None} == {name}
            assert None not in eras


def test_every_container_of_a_release_is_of_one_era() -> None:
    for name, known in releases().items():
        for release in known.releases:
            for container in release.containers:
                text = release.framework.replace(release.containers[0], container)
                other = type(release)(release.name, release.date, release.brings, text)
                for accelerator in accelerator_names():
                    assert era_of(other, accelerator) is era_of(release, accelerator), (name, container)


def test_a_runtime_without_records_has_the_releases_of_its_files() -> None:
    lab = replace(runtimes()["fsdp"], name="lab", versions=("2", "1"))
    with mock.patch("planner.calibrate.releases.runtimes", return_value={"lab": lab}):
        releases.cache_clear()
        try:
            assert [one.name for one in releases()["lab"].releases] == ["2", "1"]
            assert named_runtime("lab@1", "h100-80gb-sxm", "bf16").traits == lab.traits
            with pytest.raises(InputError, match="nearest: 2"):
                named_runtime("lab@3", "h100-80gb-sxm", "bf16")
        finally:
            releases.cache_clear()


def test_files_of_a_release_say_what_they_cannot(tmp_path: Path) -> None:
    plan, folder = tmp_path / "plan.yaml", tmp_path / "out"
    planner("estimate", *MOE, "--runtime", "megatron-bridge@25.11", "--save", str(plan))
    done = planner("emit", str(plan), "--out", str(folder))
    assert done.code == 0, done.err
    card = " ".join((folder / "README.md").read_text().split())
    assert "The price is that of Megatron-Bridge 0.2 (2025-12-04), with" in card
    assert "these files are for Megatron-Bridge 0.7" in card


def test_the_interface_takes_releases() -> None:
    work = Workload(seq_len=4096, global_batch=512, precision="mxfp8")
    job = Job(load_model("qwen3-30b-a3b"), load_hardware("gb300-nvl72"), 8, work)
    answer = estimate_plan(job, "megatron-bridge@25.11", ep=8, micro_batch=4, zero=1)
    told = planner("estimate", *MOE, "--runtime", "megatron-bridge@0.2", "--format", "json").json
    assert answer.step == pytest.approx(told["step_time_s"], rel=1e-12)
    assert load_runtime("megatron-bridge@25.11", job).traits == answer.runtime.traits
    with pytest.raises(InputError, match="job"):
        load_runtime("megatron-bridge@25.11")
