"""``planner explain`` as a user meets it: text of 80 columns, JSON that adds up, every mistake told."""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path
from unittest import mock

import pytest
import yaml

from tests.cases import every
from tests.cli.command import Done, planner


def piped(text: str, *arguments: str) -> Done:
    """Run a command with ``text`` on its standard input."""
    with mock.patch.object(sys, "stdin", io.StringIO(text)):
        return planner(*arguments)


JOB = ("llama3-8b", "--hardware", "dgx-h100", "--gpus", "16", "--seq-len", "4096", "--global-batch", "64")


def save(path: Path, *arguments: str, job: tuple[str, ...] = JOB) -> Path:
    done = planner("estimate", *job, *arguments, "--save", str(path), "--quiet")
    assert done.code in (0, 1), done.err
    return path


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    axes = (
        "--tp",
        "4",
        "--pp",
        "2",
        "--vpp",
        "2",
        "--sequence-parallel",
        "--micro-batch",
        "1",
        "--zero",
        "1",
    )
    return save(tmp_path_factory.mktemp("plans") / "plan.yaml", *axes)


@pytest.fixture(scope="module")
def told(plan: Path) -> Done:
    return planner("explain", str(plan), "--format", "json")


def test_the_waterfall_adds_up_to_the_step_that_estimate_prints(told: Done) -> None:
    document = told.json
    estimate = planner(
        "estimate", *JOB, "--tp", "4", "--pp", "2", "--vpp", "2", "--sequence-parallel", "--micro-batch", "1",
        "--zero", "1", "--format", "json",
    ).json  # fmt: skip
    assert document["schema"] == "planner/explain/1"
    assert document["estimate"]["step_time_s"] == estimate["step_time_s"]
    assert sum(part["time_s"] for part in document["waterfall"]) == pytest.approx(estimate["step_time_s"])
    assert sum(part["share"] for part in document["waterfall"]) == pytest.approx(1)
    named = {part["part"]: part["time_s"] for part in document["waterfall"]}
    for term in ("tp_comm", "pp_comm", "dp_comm", "bubble", "optimizer"):
        assert named[term] == estimate["time_s"][term]


def test_every_neighbour_is_what_estimate_says_of_it(told: Done) -> None:
    rows = {(row["axis"], row["to"]): row for row in told.json["neighbours"]}
    changed = {
        ("tp", "2"): ("--tp", "2", "--pp", "2", "--vpp", "2", "--sequence-parallel", "--zero", "1"),
        ("pp", "1"): ("--tp", "4", "--sequence-parallel", "--zero", "1"),
        ("recompute", "full"): ("--tp", "4", "--pp", "2", "--vpp", "2", "--sequence-parallel", "--zero", "1",
                                "--recompute", "full"),
        ("micro_batch", "2"): ("--tp", "4", "--pp", "2", "--vpp", "2", "--sequence-parallel", "--zero", "1",
                               "--micro-batch", "2"),
    }  # fmt: skip
    for key, axes in changed.items():
        answer = planner("estimate", *JOB, *axes, "--format", "json").json
        assert rows[key]["step_time_s"] == answer["step_time_s"], key
        assert rows[key]["peak_gib"] == answer["memory"]["peak_gib"]
        assert rows[key]["feasible"] == answer["feasible"]


@pytest.mark.parametrize(
    ("axes", "axis", "after"),
    [
        (("--runtime", "nanotron", "--pp", "4", "--zero", "1"), "schedule", "gpipe"),
        (("--cp", "2", "--zero", "1"), "cp_method", "all-to-all"),
    ],
)
def test_schedule_and_context_method_are_axes_too(
    axes: tuple[str, ...], axis: str, after: str, tmp_path: Path
) -> None:
    rows = planner("explain", str(save(tmp_path / "plan.yaml", *axes)), "--format", "json").json["neighbours"]
    (row,) = (row for row in rows if (row["axis"], row["to"]) == (axis, after))
    answer = planner("estimate", *JOB, *axes, f"--{axis.replace('_', '-')}", after, "--format", "json").json
    assert row["step_time_s"] == answer["step_time_s"]
    assert row["peak_gib"] == answer["memory"]["peak_gib"]


def test_a_neighbour_that_breaks_a_rule_says_which(tmp_path: Path) -> None:
    path = save(tmp_path / "flat.yaml", "--micro-batch", "4", "--zero", "3", "--recompute", "full")
    rows = planner("explain", str(path), "--format", "json").json["neighbours"]
    (row,) = (row for row in rows if (row["axis"], row["to"]) == ("micro_batch", "8"))
    assert row["refused"].startswith("batch-divides")
    assert (row["legal"], row["feasible"], row["step_time_s"]) == (False, False, None)


def test_groups_name_the_links_that_they_cross(told: Done) -> None:
    groups = {row["axis"]: row for row in told.json["groups"]}
    assert (groups["tp"]["ranks"], groups["tp"]["stride"], groups["tp"]["domain"]) == (4, 1, 8)
    assert (groups["dp"]["ranks"], groups["dp"]["stride"]) == (2, 4)
    assert groups["dp"]["tier"] == groups["tp"]["tier"]
    assert groups["pp"]["domain"] is None
    assert groups["pp"]["stride"] == 8


def test_every_number_has_its_standing_and_an_open_source(told: Done) -> None:
    facts = told.json["facts"]
    assert {"dense peak bf16", "memory visible", "memory bandwidth"} <= {fact["name"] for fact in facts}
    assert all(fact["standing"] and fact["value"] for fact in facts)
    assert all(fact["source"] for fact in facts if fact["standing"] != "user")


def test_borrowed_kernel_curves_are_told(tmp_path: Path, told: Done) -> None:
    own = next(fact for fact in told.json["facts"] if fact["name"] == "kernel curves")
    assert (own["value"], own["standing"]) == ("h100-80gb-sxm", "fitted")
    job = ("llama3-8b", "--hardware", "hgx-h20", "--gpus", "8", "--global-batch", "64")
    path = save(tmp_path / "h20.yaml", "--tp", "2", job=job)
    facts = planner("explain", str(path), "--format", "json").json["facts"]
    other = next(fact for fact in facts if fact["name"] == "kernel curves")
    assert (other["value"], other["standing"]) == ("those of h100-80gb-sxm", "estimated")


def test_text_is_of_80_columns_and_shows_its_arithmetic(plan: Path) -> None:
    done = planner("explain", str(plan))
    assert done.code == 0
    assert max(map(len, done.out.splitlines())) <= 80
    assert "\x1b" not in done.out
    assert "dp 2 = 16 / (tp 4 × pp 2 × cp 1)" in done.out
    assert "micro-batches 32 = 64 / (micro_batch 1 × dp 2)" in done.out
    for heading in ("where the step goes", "Bottlenecks", "Communication groups", "One change at a time"):
        assert heading in done.out


def test_the_other_formats(plan: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(planner("explain", str(plan), "--format", "csv").out)))
    parts = [float(row["time_s"]) for row in rows if row["table"] == "waterfall"]
    step = planner("explain", str(plan), "--format", "json").json["estimate"]["step_time_s"]
    assert sum(parts) == pytest.approx(step)
    assert any(row["table"] == "neighbours" for row in rows)
    assert "| where the step goes |" in planner("explain", str(plan), "--format", "markdown").out


def test_formulas_show_equation_numbers_result_and_source(plan: Path) -> None:
    done = planner("explain", str(plan), "--formulas")
    assert done.code == 0
    assert max(map(len, done.out.splitlines())) <= 80
    assert "arXiv:2307.08691" in done.out
    rows = planner("explain", str(plan), "--term", "tp_comm", "--format", "json").json["formulas"]
    (row,) = rows
    ranks, nbytes = row["inputs"]["ranks"], row["inputs"]["nbytes"]
    assert (ranks, nbytes) == (4, 2 * 4096 * 4096)
    link = row["inputs"]["tiers"][0]
    by_hand = (ranks - 1) * link["latency"] + nbytes * (ranks - 1) / ranks / link["bandwidth"]
    assert row["result"] == pytest.approx(by_hand)
    assert "doi:10.1177/1094342005051521" in row["source"]


def test_the_bubble_formula_gives_the_bubble_of_the_waterfall(plan: Path, told: Done) -> None:
    (row,) = planner("explain", str(plan), "--term", "bubble", "--format", "json").json["formulas"]
    bubble = next(part for part in told.json["waterfall"] if part["part"] == "bubble")["time_s"]
    assert row["result"] == pytest.approx(bubble, rel=1e-6)


def test_a_plan_that_does_not_fit_is_explained_and_exits_1(tmp_path: Path) -> None:
    done = planner("explain", str(save(tmp_path / "big.yaml", "--zero", "1", "--micro-batch", "4")))
    assert done.code == 1
    assert "GiB over" in done.out


def test_why_a_plan_cannot_run_stands_before_its_price(plan: Path, tmp_path: Path) -> None:
    job = ("qwen3-30b-a3b", *JOB[1:])
    broken = save(tmp_path / "broken.yaml", "--tp", "2", "--ep", "8", job=job)
    done = planner("explain", str(broken))
    assert done.code == 1
    assert "Megatron-LM cannot run this plan:" in done.out.split("A step takes")[0]
    assert "experts-need-sequence-parallel" in done.out
    aside = planner("compare", str(plan), str(broken))
    assert aside.code == 1
    assert "broken breaks experts-need-sequence-parallel: " in " ".join(aside.out.split())
    large = save(tmp_path / "large.yaml", job=("llama3-70b", *JOB[1:]))
    assert "Does not fit: " in planner("explain", str(large)).out.split("A step takes")[0]


def test_a_model_of_experts_and_adapters_is_explained(tmp_path: Path) -> None:
    job = ("qwen3-30b-a3b", "--hardware", "dgx-h100", "--gpus", "16", "--global-batch", "64")
    path = save(tmp_path / "moe.yaml", "--ep", "8", "--tp", "2", "--sequence-parallel", job=job)
    document = planner("explain", str(path), "--format", "json").json
    named = {part["part"]: part["time_s"] for part in document["waterfall"]}
    assert sum(named.values()) == pytest.approx(document["estimate"]["step_time_s"])
    assert named["ep_comm"] > 0
    assert named["grouped"] > 0
    assert any(row["axis"] == "ep" for row in document["neighbours"])
    assert "expert data parallel" in " ".join(document["arithmetic"])


@every(
    ("arguments", "code", "words"),
    [
        (("nothing.yaml",), 2, "nothing.yaml"),
        ((), 2, "PLAN"),
        (("{plan}", "--term", "tpcomm"), 2, "nearest: tp_comm"),
        (("{plan}", "--format", "yaml"), 2, "yaml"),
    ],
)
def test_mistakes_are_told(plan: Path, arguments: tuple[str, ...], code: int, words: str) -> None:
    done = planner("explain", *(argument.format(plan=plan) for argument in arguments))
    assert done.code == code
    assert words in done.err
    assert done.out == ""


def test_a_plan_without_a_price_exits_1(plan: Path, tmp_path: Path) -> None:
    document = yaml.safe_load(plan.read_text())
    document["plan"] |= {"stage_layers": [30, 1, 1, 1]}
    path = tmp_path / "broken.yaml"
    path.write_text(yaml.safe_dump(document))
    done = planner("explain", str(path))
    assert done.code == 1
    assert "broken.yaml" in done.err


def test_rivals_are_those_of_a_search_and_say_why(plan: Path) -> None:
    document = planner("explain", str(plan), "--search", "--format", "json").json
    best = planner("search", *JOB, "--top", "1", "--format", "json").json["plans"][0]
    rivals = document["rivals"]
    step = document["estimate"]["step_time_s"]
    assert rivals[0]["plan"] == best["plan"]
    assert rivals[0]["step_time_s"] == best["step_time_s"]
    for rival in rivals:
        assert sum(rival["time_s"].values()) == pytest.approx(rival["step_time_s"] - step)


def test_the_picture_has_this_plan_once_in_80_columns(plan: Path) -> None:
    done = planner("explain", str(plan), "--search")
    assert max(map(len, done.out.splitlines())) <= 80
    picture = done.out.split("Pareto front @):")[1]
    assert picture.count("*") == 1
    assert "@" in picture
    assert "GiB |" in picture


def test_the_best_plan_has_a_runner_up(tmp_path: Path) -> None:
    path = tmp_path / "best.yaml"
    planner("search", *JOB, "--top", "1", "--save", str(path))
    text = planner("explain", str(path), "--search").out
    assert "The runner-up of the same job is" in text


def test_long_names_of_rules_are_folded(tmp_path: Path) -> None:
    job = ("qwen3-30b-a3b", "--hardware", "dgx-h100", "--gpus", "16", "--global-batch", "64")
    axes = ("--ep", "8", "--tp", "2", "--pp", "2", "--sequence-parallel")
    text = planner("explain", str(save(tmp_path / "moe.yaml", *axes, job=job))).out
    assert "experts need" in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_plan_is_read_from_standard_input_too(plan: Path, tmp_path: Path) -> None:
    text, out = plan.read_text(), tmp_path / "out"
    own = planner("explain", str(plan), "--format", "json").json
    assert piped(text, "explain", "-", "--format", "json").json == own
    assert piped(f"\ufeff{text}", "explain", "-", "--format", "json").json == own
    assert piped(text, "simulate", "-").out == planner("simulate", str(plan)).out
    assert (
        piped(text, "mfu", "-", "--step-time", "9s").out == planner("mfu", str(plan), "--step-time", "9s").out
    )
    assert [
        each["name"] for each in piped(text, "compare", "-", str(plan), "--format", "json").json["plans"]
    ] == [
        "-",
        "plan",
    ]
    assert piped(text, "emit", "-", "--out", str(out)).code == 0
    assert (out / "train.sh").is_file()


def test_what_is_no_plan_on_standard_input_is_told() -> None:
    for text, told in (("", "found nothing"), ("a: [", "found no YAML"), ('{"schema": "x"}', "schema 'x'")):
        done = piped(text, "explain", "-")
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith("error: standard input")
        assert told in done.err
