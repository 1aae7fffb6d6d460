"""A recipe on another machine: kept as it is, or with as few changes as will do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from planner.search.near import GROUPS
from planner.techniques.precision import PRECISIONS, nearest_format
from tests.cases import every
from tests.cli.command import planner

DENSE = (
    "llama3-8b", "--hardware", "dgx-h100", "--gpus", "16", "--seq-len", "8192", "--global-batch", "64",
    "--tp", "2", "--sequence-parallel", "--micro-batch", "1", "--zero", "1", "--set", "tp_overlap=on",
)  # fmt: skip
EXPERTS = (
    "qwen3-30b-a3b", "--hardware", "gb300-nvl72", "--gpus", "8", "--global-batch", "64", "--precision",
    "mxfp8", "--runtime", "megatron-bridge", "--ep", "8", "--micro-batch", "4", "--set",
    "expert_dispatcher=fused", "--set", "low_bit_weights=alone",
)  # fmt: skip


def recipe(folder: Path, *asked: str) -> str:
    """Write a recipe's files and return the one that is read."""
    plan, out = str(folder / "plan.yaml"), folder / "out"
    assert planner("estimate", *asked, "--save", plan).code == 0
    assert planner("emit", plan, "--out", str(out)).code == 0
    return str(next(out / name for name in ("train.py", "train.sh") if (out / name).exists()))


def near(file: str, *asked: str) -> dict[str, Any]:
    done = planner("search", "--near", file, *asked, "--format", "json")
    found: dict[str, Any] = done.json
    return found


def test_a_recipe_that_runs_is_kept_and_its_batch_grows_with_the_accelerators(tmp_path: Path) -> None:
    """Weak scaling: with twice the accelerators twice the sequences, and all else as it is."""
    file = recipe(tmp_path, *DENSE)
    found = near(file, "--hardware", "dgx-h100", "--gpus", "32")
    (best, *_), told = found["plans"], found["near"]
    assert told["runs_unchanged"]
    assert (told["changed"], told["freed"], told["reason"]) == ({}, [], None)
    assert best["workload"]["global_batch"] == 128
    assert best["settings"]["tp_overlap"] == "on"
    other = {"16": "32", "64": "128"}
    alone = planner("estimate", *(other.get(word, word) for word in DENSE), "--format", "json").json
    assert best["plan"] == alone["plan"]
    assert best["step_time_s"] == told["recipe_step_time_s"] == alone["step_time_s"]
    assert told["times_free"] >= 1.0 - 1e-9
    fixed = near(file, "--hardware", "dgx-h100", "--gpus", "32", "--global-batch", "64")
    assert fixed["plans"][0]["workload"]["global_batch"] == 64


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        (("--hardware", "gb300-nvl72", "--gpus", "4"), {"ep": {"was": 8, "now": 4}}),
        (("--hardware", "dgx-h100", "--gpus", "32", "--precision", "fp8"), None),
    ],
)
def test_one_group_of_axes_changes_where_that_will_do(
    tmp_path: Path, asked: tuple[str, ...], wanted: dict[str, Any] | None
) -> None:
    """Four accelerators hold no eight parts of a layer's experts; 80 GB hold less than 278."""
    found = near(recipe(tmp_path, *EXPERTS), *asked)
    told, best = found["near"], found["plans"][0]
    assert not told["runs_unchanged"]
    assert told["reason"]
    assert told["settings_kept"]
    (group,) = told["freed"]
    assert set(told["changed"]) <= set(GROUPS[group])
    assert told["changed"] == wanted if wanted is not None else told["changed"]
    settings = best["settings"]
    assert (settings["expert_dispatcher"], settings["low_bit_weights"]) == ("fused", "alone")
    for name in {"tp", "pp", "cp", "ep", "micro_batch", "zero"} - set(told["changed"]):
        assert best["plan"][name] == {"ep": 8, "micro_batch": 4, "zero": 1}.get(name, 1)
    assert told["times_free"] >= 1.0 - 1e-9


def test_a_number_format_that_the_accelerator_lacks_is_replaced_and_its_price_told(tmp_path: Path) -> None:
    """Block-scaled 8 bit is Blackwell's; H100 has 8 bit with a scale for each tensor."""
    file = recipe(tmp_path, *EXPERTS)
    asked = ("--hardware", "dgx-h100", "--gpus", "32")
    found = near(file, *asked)
    told, best = found["near"]["precision"], found["plans"][0]
    assert (told["was"], told["now"], best["workload"]["precision"]) == ("mxfp8", "fp8", "fp8")
    said = near(file, *asked, "--precision", "fp8")
    assert said["near"]["precision"] is None, "who says a format knows what it is"
    assert said["plans"][0]["step_time_s"] == best["step_time_s"]
    more = ("--recompute", best["plan"]["recompute"], "--format", "json")
    steps = {}
    for name in ("bf16", "fp8"):
        other = {"gb300-nvl72": "dgx-h100", "512": "256", "64": "256", "mxfp8": name}
        words = [other.get(word, word) for word in EXPERTS]
        words[words.index("--gpus") + 1] = "32"
        steps[name] = planner("estimate", *words, *more).json["step_time_s"]
    ratio = told["bf16_step_time_s"] / best["step_time_s"]
    assert ratio == pytest.approx(steps["bf16"] / steps["fp8"], rel=1e-3)
    line = " ".join(planner("search", "--near", file, *asked).out.split())
    assert "Precision mxfp8 -> fp8, since h100-80gb-sxm has no mxfp8: this changes numerics." in line
    assert near(file, "--hardware", "gb200-nvl72", "--gpus", "8")["near"]["precision"] is None


@every("name", PRECISIONS)
def test_every_format_has_one_in_its_place_that_all_have(name: str) -> None:
    assert nearest_format(name, ("tf32", "fp16", "bf16")) == (name if name == "fp16" else "bf16")
    assert nearest_format(name, ()) == ""
    assert nearest_format(name, (name, "bf16")) == name


def test_settings_are_searched_anew_where_no_layout_runs_with_them(tmp_path: Path) -> None:
    """Fused dispatchers run on NVIDIA's accelerators alone (Megatron-Bridge, flex_dispatcher_backend.py)."""
    asked = ("qwen3-30b-a3b", "--hardware", "dgx-h100", "--gpus", "16", "--global-batch", "64", "--runtime")
    more = ("megatron-lm", "--ep", "8", "--set", "expert_dispatcher=fused", "--recompute", "full")
    file = recipe(tmp_path, *asked, *more, "--pp", "2")
    found = near(file, "--hardware", "mi300x-8")
    assert not found["near"]["settings_kept"]
    assert "fused-dispatcher-runs" in found["near"]["reason"]
    assert found["plans"][0]["settings"]["expert_dispatcher"] == "all-to-all"
    shown = [str(plan["plan"]) for plan in found["plans"]]
    assert len(shown) == len(set(shown)), "plans that differ in settings alone are one row"


def test_the_answer_tells_what_had_to_change(tmp_path: Path) -> None:
    file = recipe(tmp_path, *EXPERTS)
    told = " ".join(planner("search", "--near", file, "--hardware", "gb300-nvl72", "--gpus", "4").out.split())
    assert "does not run here: ep 8 · etp 1; needs a divisor of" in told
    assert "Changed: ep 8 -> 4; settings are kept." in told
    assert "512 sequences" not in told
    assert "64 sequences on 8 -> 32 on 4" in told
    assert str(file) + ": no" not in told


@every(
    ("asked", "word"),
    [
        (("--hardware", "dgx-h100", "--gpus", "8"), "--near FILE"),
        (("--near", "nothing.sh", "--hardware", "dgx-h100", "--gpus", "8"), "nothing.sh"),
    ],
)
def test_what_is_missing_is_told(asked: tuple[str, ...], word: str) -> None:
    done = planner("search", *asked)
    assert done.code == 2
    assert word in done.err


def test_a_recipe_goes_before_the_configuration_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's configured defaults are for jobs of which nothing is known."""
    file = recipe(tmp_path, *DENSE)
    (tmp_path / "planner.yaml").write_text("seq_len: 2048\nruntime: torchtitan\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    found = near(file, "--hardware", "dgx-h100", "--gpus", "16")
    assert found["plans"][0]["workload"]["seq_len"] == 8192
    assert found["near"]["runs_unchanged"]
