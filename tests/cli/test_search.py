"""``planner search``: the contract's document, the table for people, ranges, clusters and files."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pytest

from tests.cli.command import once, planner
from tests.cli.schema import ESTIMATE_KEYS, PLAN_KEYS, SEARCH_KEYS, key_tree
from tests.deep import deep

JOB = ("llama2-7b", "--hardware", "dgx-h100", "--gpus", "4", "--global-batch", "16")
SMALL = (*JOB, "--cp", "1")
"""The same for what is no matter of axes: a third of the plans."""


def test_the_document_has_the_keys_of_the_contract_in_their_order() -> None:
    done = planner("search", *SMALL, "--format", "json", "--top", "2")
    assert (done.code, done.err) == (0, "")
    assert list(done.json) == SEARCH_KEYS
    assert list(done.json["space"]) == ["enumerated", "valid", "fits", "priced", "removed"]
    assert list(done.json["optimality"]) == [
        "method",
        "proved",
        "bound_s",
        "gap",
        "over",
        "proof",
        "played_bound_s",
        "within_s",
        "refined",
        "solver",
    ]
    for answer in done.json["plans"]:
        assert key_tree(answer) == ESTIMATE_KEYS
    for answer in done.json["baselines"]:
        assert list(answer) == ["name", *(key for key, _ in ESTIMATE_KEYS), "left_out"]
    assert done.json["nearest"] is None


def test_plans_are_ranked_and_an_estimate_of_the_best_says_the_same() -> None:
    plans = once("search", *JOB, "--format", "json").json["plans"]
    assert len(plans) == 5
    times = [answer["step_time_s"] for answer in plans]
    assert times == sorted(times)
    axes = plans[0]["plan"]
    options: list[str] = []
    for name in PLAN_KEYS:
        value = axes[name]
        if name == "sequence_parallel":
            options.append("--sequence-parallel" if value else "--no-sequence-parallel")
        elif name == "stage_layers" and value:
            options += ["--stage-layers", ",".join(map(str, value))]
        elif name not in ("num_microbatches", "stage_layers"):
            options += [f"--{name.replace('_', '-')}", str(value)]
    for name, value in plans[0]["settings"].items():
        options += ["--set", f"{name}={value}"]
    again = planner("estimate", *JOB, *options, "--format", "json").json
    assert again.pop("moments")
    assert {**again, "defaults": None} == {**plans[0], "defaults": None}


def test_fixed_axes_are_kept() -> None:
    done = planner(
        "search", *JOB, "--tp", "2", "--zero", "1", "--recompute", "every-layer", "--format", "json"
    )
    for answer in done.json["plans"]:
        assert (answer["plan"]["tp"], answer["plan"]["zero"], answer["plan"]["recompute"]) == (2, 1, "full")


@pytest.mark.parametrize(
    ("axis", "value"),
    [
        *(("tp", 2), ("pp", 2), ("vpp", 2), ("cp", 2), ("ep", 2), ("etp", 1), ("dp", 2)),
        *(("zero_shards", 1), ("zero_shards", 2), ("micro_batch", 2), ("zero", 0), ("zero", 3)),
    ],
)
def test_a_degree_that_is_fixed_holds_in_every_plan(axis: str, value: int) -> None:
    job = ("qwen3-8b", *JOB[1:], "--memory-limit", "2000") if axis != "ep" else ("qwen3-30b-a3b", *JOB[1:])
    option = f"--{axis.replace('_', '-')}"
    more = ("--recompute", "none", "--top", deep("20", "150"), "--uniform", "--format", "json")
    done = planner("search", *job, option, str(value), *more)
    assert {answer["plan"][axis] for answer in done.json["plans"]} == {value}


def test_shards_that_no_plan_has_are_told() -> None:
    done = planner("search", "llama3-8b", *JOB[1:], "--zero-shards", "3", "--format", "json")
    assert (done.code, done.json["plans"], done.json["space"]["valid"]) == (1, [], 0)
    assert done.json["space"]["removed"]["shards-divide"] > 0
    assert done.json["nearest"]["changes"] == ["leave --zero-shards 3 to the search"]


@pytest.mark.parametrize(
    ("objective", "figure"),
    [("time", "step_time_s"), ("cost", "cost_usd_per_step"), ("energy", "energy_j_per_step")],
)
def test_objectives_rank_by_their_figure(objective: str, figure: str) -> None:
    plans = planner("search", *SMALL, "--objective", objective, "--format", "json").json["plans"]
    figures = [answer[figure] for answer in plans]
    assert figures == sorted(figures)


def test_the_objective_memory_ranks_by_the_fullest_stage() -> None:
    plans = planner("search", *SMALL, "--objective", "memory", "--format", "json").json["plans"]
    peaks = [answer["memory"]["peak_gib"] for answer in plans]
    assert peaks == sorted(peaks)


def test_clusters_counts_and_runtimes_are_compared() -> None:
    done = planner(
        *(
            "search",
            "qwen2.5-0.5b",
            "--hardware",
            "dgx-h100",
            "--hardware",
            "dgx-a100-80gb",
            "--gpus",
            "4..8",
        ),
        *("--global-batch", "32", "--runtime", "megatron-lm", "--runtime", "torchtitan", "--format", "json"),
        *("--cp", "1"),
    )
    assert done.code == 0
    assert done.json["plans"][0]["hardware"]["name"] == "dgx-h100"
    assert done.json["plans"][0]["hardware"]["gpus"] == 8
    choices = [
        (one["hardware"]["name"], one["hardware"]["gpus"], one["runtime"]) for one in done.json["plans"]
    ]
    assert len(choices) == 5
    assert len(set(choices)) >= 4
    shown = planner(
        *("search", "qwen2.5-0.5b", "--hardware", "dgx-h100", "--hardware", "dgx-a100-80gb", "--gpus", "8"),
        *("--global-batch", "32", "--runtime", "megatron-lm", "--runtime", "torchtitan", "--cp", "1"),
    )
    assert "8 dgx-h100" in shown.out


def test_the_table_fits_eighty_columns_and_says_what_the_contract_asks() -> None:
    for more in ((), ("--tokens", "2T"), ("--runtime", "torchtitan", "--runtime", "megatron-lm")):
        done = planner("search", *SMALL, *more)
        assert done.code == 0
        assert max(map(len, done.out.splitlines())) <= 80
        assert "\x1b" not in done.out
        assert len(done.out.splitlines()) <= 24
        head = done.out[done.out.index("#  layout") :].splitlines()[0]
        assert [word for word in head.split() if word in {"#", "layout", "s/step"}] == [
            "#",
            "layout",
            "s/step",
        ]
        for words in ("limited by", "Baselines", "Error band (90%)", "Defaults used", "Next:"):
            assert words in done.out
        whole = planner("search", *SMALL, *more, "--verbose")
        assert max(map(len, whole.out.splitlines())) <= 80
        for words in ("limited by", "baseline", "Removed by rule", "Error band", "Defaults used"):
            assert words in whole.out


def test_plans_are_of_different_meshes_and_name_their_variants() -> None:
    found = planner("search", *JOB, "--format", "json").json
    meshes = [tuple(one["plan"][axis] for axis in ("tp", "pp", "cp", "ep", "dp")) for one in found["plans"]]
    assert len(set(meshes)) == len(meshes) == 5
    steps = [one["step_time_s"] for one in found["plans"]]
    assert steps == sorted(steps)
    assert found["variants"]
    for other in found["variants"]:
        own = found["plans"][other["rank"] - 1]
        assert own["plan"]["tp"] == other["plan"]["tp"]
        assert own["plan"] != other["plan"]
        assert own["step_time_s"] <= other["step_time_s"] <= 1.01 * own["step_time_s"]


@pytest.mark.parametrize(
    ("objective", "key"),
    [("time", ("step_time_s",)), ("memory", ("memory", "peak_gib")), ("cost", ("cost_usd_per_step",))],
)
def test_a_tie_is_one_of_what_is_minimised(objective: str, key: tuple[str, ...]) -> None:
    ask = ("search", *JOB[:3], "--gpus", "2,4", "--global-batch", "16", "--cp", "1")
    ask = (*ask, "--objective", objective)
    values = []
    for plan in planner(*ask, "--format", "json").json["plans"]:
        value = plan
        for name in key:
            value = value[name]
        values.append(value)
    tied = next((rank for rank, value in enumerate(values) if value > 1.01 * values[0]), len(values))
    said = re.search(r"Plans 1(?:, \d+)* (?:and|to) (\d+) tie", planner(*ask).out)
    assert (int(said[1]) if said else 1) == tied


def test_time_and_cost_to_train_follow_from_tokens() -> None:
    best = planner("search", *SMALL, "--tokens", "2T", "--format", "json", "--top", "1").json["plans"][0]
    steps = 2e12 / (16 * 4096)
    assert best["days_to_train"] == pytest.approx(steps * best["step_time_s"] / 86400)
    assert best["cost_usd_to_train"] == pytest.approx(steps * best["cost_usd_per_step"])


def test_csv_has_a_row_for_each_plan_and_baseline() -> None:
    done = planner("search", *SMALL, "--format", "csv", "--top", "3")
    rows = list(csv.DictReader(io.StringIO(done.out)))
    assert [row["row"] for row in rows] == ["plan", "plan", "plan", "data-parallel", "rule-of-thumb"]
    assert all(float(row["step_time_s"]) > 0 for row in rows)


def test_markdown_has_a_table_and_quiet_leaves_the_notes_out() -> None:
    done = planner("search", *SMALL, "--format", "markdown", "--quiet")
    assert "| --- | --- |" in done.out
    assert "Defaults used" not in done.out


def test_nothing_fits_is_told_with_what_would() -> None:
    ask = ("search", "llama3.1-405b", "--hardware", "dgx-h100", "--gpus", "8", "--global-batch", "8")
    done = planner(*ask, "--format", "json")
    assert (done.code, done.err) == (1, "")
    assert list(done.json) == SEARCH_KEYS
    assert done.json["plans"] == []
    assert done.json["space"]["fits"] == 0 < done.json["space"]["valid"]
    assert done.json["nearest"]["missing_gib"] > 0
    shown = planner(*ask)
    assert shown.code == 1
    assert "No plan fits." in shown.out
    assert "more than it has" in " ".join(shown.out.split())


def test_a_memory_limit_is_the_capacity() -> None:
    done = planner("search", *SMALL, "--memory-limit", "70", "--format", "json")
    assert {answer["memory"]["capacity_gib"] for answer in done.json["plans"]} == {70.0}
    assert all(answer["memory"]["peak_gib"] < 70 for answer in done.json["plans"])
    by_unit = planner("search", *SMALL, "--memory-limit", "70 GiB", "--format", "json")
    assert by_unit.json["plans"] == done.json["plans"]


def test_part_of_a_node_keeps_the_ports_of_an_accelerator() -> None:
    done = planner("search", *SMALL, "--gpus-per-node", "2", "--format", "json", "--top", "1")
    assert done.json["plans"][0]["hardware"] | {"name": ""} == {
        "name": "",
        "gpus": 4,
        "gpus_per_node": 2,
        "scaleup_domain": 2,
        "idle_gpus": 0,
    }


def test_verbose_tells_on_standard_error_alone() -> None:
    done = planner("search", *SMALL, "--format", "json", "--verbose")
    assert "dgx-h100" in done.err
    assert done.json["plans"]


def test_save_and_emit_write_the_best_plan(tmp_path: Path) -> None:
    saved, out = tmp_path / "best.yaml", tmp_path / "out"
    done = planner("search", *JOB, "--save", str(saved), "--emit", str(out), "--launcher", "slurm")
    assert done.code == 0
    assert "start with: bash train.sbatch" in done.err
    assert (out / "plan.yaml").read_text() == saved.read_text()
    assert {"train.sbatch", "README.md", "plan.yaml"} <= {path.name for path in out.iterdir()}
    again = planner("emit", str(saved), "--launcher", "slurm", "--out", str(tmp_path / "again"))
    assert again.code == 0
    assert (tmp_path / "again" / "train.sbatch").read_text() == (out / "train.sbatch").read_text()


def test_a_method_that_the_runtime_lacks_names_the_runtimes_that_have_it() -> None:
    ask = ("search", "llama2-7b", "--hardware", "dgx-h100", "--gpus", "8", "--global-batch", "8")
    done = planner(*ask, "--runtime", "megatron-lm", "--method", "lora")
    assert done.code == 1
    words = " ".join(done.out.split())
    nearest = "--runtime deepspeed or --runtime fsdp or --runtime megatron-bridge"
    assert f"No plan of megatron-lm has method lora; nearest: {nearest}." in words
    assert "; nearest:" not in planner(*ask, "--runtime", "fsdp", "--method", "lora").out


def test_a_million_tokens_on_one_node_get_a_plan() -> None:
    """ALST trains 3.7 M tokens of an 8B on eight H100 (arXiv:2506.13996): tiles, and inputs on the host."""
    ask = ("search", "llama3-8b", "--hardware", "h100-sxm", "--gpus", "8", "--seq-len", "1Mi")
    done = planner(*ask, "--format", "json")
    assert done.code == 0
    assert "no plan of megatron-lm fits; these are of deepspeed" in done.err
    best = done.json["plans"][0]
    assert best["runtime"] == "deepspeed"
    assert best["settings"]["host_checkpoints"] == "true"
    assert int(best["settings"]["mlp_tiles"]) > 1
    named = planner(*ask, "--runtime", "megatron-lm", "--tp", "8")
    assert (named.code, "No plan fits." in named.out) == (1, True)
    assert "16 sequences of" in named.out, "as many as have 16 Mi tokens"


def test_an_uneven_split_far_down_the_bounds_is_found_without_being_asked_for() -> None:
    ask = ("search", "llama3-70b", "--hardware", "dgx-a100-80gb", "--gpus", "32", "--global-batch", "256")
    work = (*ask, "--cp", "1", "--top", "1", "--format", "json")
    whole = planner(*work).json["plans"][0]["step_time_s"]
    for axes in (("--tp", "4"), ("--micro-batch", "1"), *deep((), (("--tp", "2"), ("--pp", "4")))):
        assert planner(*work, *axes).json["plans"][0]["step_time_s"] >= whole * (1 - 1e-9)


def test_each_runtime_and_count_has_its_best_plan_on_the_screen() -> None:
    job = ("llama3-8b", "--hardware", "dgx-h100", "--seq-len", "8192", "--global-batch", "128", "--cp", "1")
    said = planner("search", *job, "--gpus", "16", "--runtime", "megatron-lm", "--runtime", "fsdp").out
    assert {"megatron-lm", "fsdp"} <= {line.split()[1] for line in rows_of(said)}
    counts = planner("search", *job, "--gpus", "8,16,32").out
    assert {"8", "16", "32"} <= {line.split()[1] for line in rows_of(counts)}
    for text in (said, counts):
        ranks = [int(line.split()[0]) for line in rows_of(text)]
        assert ranks == sorted(ranks)
        assert len(text.splitlines()) <= 24


def rows_of(text: str) -> list[str]:
    """Return the lines of the table that begin with a rank."""
    return [line for line in text.splitlines() if line[:1].isdigit() and line[1:3] == "  "]
