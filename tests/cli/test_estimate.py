"""``planner estimate``: nothing is searched, defaults are listed, broken plans are answered in full."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cases import every
from tests.cli.command import planner
from tests.cli.schema import ESTIMATE_KEYS, STAGE_KEYS, key_tree

JOB = ("llama2-7b", "--hardware", "dgx-h100", "--gpus", "8", "--global-batch", "64")


def test_the_document_has_the_keys_of_the_contract_in_their_order() -> None:
    done = planner("estimate", *JOB, "--tp", "2", "--pp", "2", "--format", "json")
    assert (done.code, done.err) == (0, "")
    assert key_tree(done.json) == [*ESTIMATE_KEYS, ("moments", ["engine", "loss", "stages"])]
    for stage, told in zip(done.json["memory"]["stages"], done.json["moments"]["stages"], strict=True):
        most = max(moment["allocated_gib"] for moment in told["moments"])
        assert most == pytest.approx(stage["allocated_gib"])
    assert [list(stage) for stage in done.json["memory"]["stages"]] == [STAGE_KEYS, STAGE_KEYS]
    assert done.json["schema"] == "planner/estimate/1"


def test_times_add_up_and_the_peak_is_the_largest_total() -> None:
    answer = planner("estimate", *JOB, "--tp", "2", "--pp", "2", "--format", "json").json
    assert sum(answer["time_s"].values()) == pytest.approx(answer["step_time_s"], rel=1e-9)
    totals = [stage["total_gib"] for stage in answer["memory"]["stages"]]
    assert answer["memory"]["peak_gib"] == max(totals)
    for stage in answer["memory"]["stages"]:
        parts = stage["allocated_gib"] + stage["reserve_gib"] + stage["framework_gib"]
        assert parts == pytest.approx(stage["total_gib"], rel=1e-9)
    assert answer["tokens_per_s_per_gpu"] == pytest.approx(64 * 4096 / answer["step_time_s"] / 8)
    assert answer["mfu"] == pytest.approx(answer["model_tflops_per_gpu"] / 989, rel=1e-3)


def test_what_is_not_given_is_one_or_none_and_listed() -> None:
    answer = planner("estimate", *JOB, "--tp", "2", "--format", "json").json
    plan, defaults = answer["plan"], answer["defaults"]
    assert (plan["tp"], plan["dp"], plan["zero"], plan["zero_shards"]) == (2, 4, 1, 4)
    assert (plan["pp"], plan["micro_batch"], plan["num_microbatches"]) == (1, 1, 16)
    assert defaults["dp"] == 4
    assert defaults["seq_len"] == 4096
    assert defaults["runtime"] == "megatron-lm"
    assert defaults["recompute"] == "none"
    assert "tp" not in defaults
    assert "global_batch" not in defaults


def test_a_sequence_is_no_longer_than_the_learned_positions_unless_asked_for() -> None:
    ask = ("estimate", "gpt2-xl", "--hardware", "dgx-h100", "--gpus", "1", "--format", "json")
    assert planner(*ask).json["defaults"]["seq_len"] == 1024
    broken = planner(*ask, "--seq-len", "2048").json["violations"]
    assert [item["rule"] for item in broken] == ["positions-cover-sequence"]


def test_zero_is_the_default_of_the_runtime() -> None:
    answer = planner("estimate", *JOB, "--runtime", "torchtitan", "--format", "json").json
    assert (answer["runtime"], answer["plan"]["zero"]) == ("torchtitan", 3)


def test_chunks_ask_for_the_interleaved_schedule() -> None:
    answer = planner("estimate", *JOB, "--pp", "2", "--vpp", "4", "--format", "json").json
    assert (answer["plan"]["schedule"], answer["defaults"]["schedule"]) == ("interleaved-1f1b",) * 2


def test_the_count_follows_from_the_degrees_where_dp_is_given() -> None:
    ask = ("estimate", "llama2-7b", "--hardware", "dgx-h100", "--tp", "2", "--dp", "8", "--format", "json")
    assert planner(*ask).json["hardware"]["gpus"] == 16


@every(
    ("options", "names"),
    [
        (
            ("--schedule", "ScheduleInterleaved1F1B", "--pp", "2", "--vpp", "2"),
            {"schedule": "interleaved-1f1b"},
        ),
        (("--cp", "2", "--cp-method", "ulysses"), {"cp_method": "all-to-all"}),
        (("--cp", "2", "--cp-method", "P2P"), {"cp_method": "ring"}),
        (("--recompute", "every-layer"), {"recompute": "full"}),
        (("--recompute", "full:4"), {"recompute": "full:4"}),
        (("--stage-layers", "15,17", "--pp", "2"), {"stage_layers": [15, 17]}),
        (("--tp", "2", "--sequence-parallel"), {"sequence_parallel": True}),
    ],
)
def test_aliases_become_the_names_of_the_contract(options: tuple[str, ...], names: dict[str, object]) -> None:
    plan = planner("estimate", *JOB, *options, "--format", "json").json["plan"]
    assert {name: plan[name] for name in names} == names


def test_a_plan_that_does_not_fit_exits_with_1_and_is_told_in_full() -> None:
    ask = ("estimate", "llama3-70b", "--hardware", "dgx-h100", "--gpus", "8")
    done = planner(*ask, "--format", "json")
    assert (done.code, done.err) == (1, "")
    assert done.json["feasible"] is False
    assert done.json["violations"] == []
    assert done.json["memory"]["peak_gib"] > done.json["memory"]["capacity_gib"]
    assert "Does not fit" in planner(*ask).out


def test_all_broken_rules_are_told_at_once_with_the_nearest() -> None:
    ask = ("estimate", "mixtral-8x7b", "--hardware", "dgx-h100", "--gpus", "15", "--tp", "5", "--pp", "3")
    done = planner(*ask, "--ep", "3", "--micro-batch", "3", "--format", "json")
    assert done.code == 1
    assert "15 accelerators do not fill nodes of 8" in done.err
    assert key_tree(done.json) == ESTIMATE_KEYS
    broken = {item["rule"]: item for item in done.json["violations"]}
    assert {"batch-divides", "experts-divide", "expert-mesh-divides", "tp-divides-heads"} <= set(broken)
    assert broken["experts-divide"]["nearest"] == "2 or 4"
    assert broken["tp-divides-heads"]["nearest"] == "tp 4 or 8"
    assert all(list(item) == ["rule", "found", "expected", "nearest"] for item in broken.values())


def test_a_plan_without_a_price_has_nulls_for_figures() -> None:
    done = planner("estimate", *JOB, "--micro-batch", "7", "--format", "json")
    assert done.code == 1
    assert done.json["plan"]["num_microbatches"] is None
    assert done.json["step_time_s"] is None
    assert done.json["memory"] == {
        "capacity_gib": pytest.approx(79.110, abs=1e-3),
        "peak_gib": None,
        "stages": [],
    }
    assert set(done.json["time_s"].values()) == {None}


def test_a_rule_of_the_runtime_leaves_the_figures() -> None:
    done = planner("estimate", *JOB, "--zero", "1", "--runtime", "torchtitan", "--format", "json")
    assert done.code == 1
    assert [item["rule"] for item in done.json["violations"]] == ["zero-offered"]
    assert done.json["step_time_s"] > 0


def test_traits_change_the_price() -> None:
    plain = planner("estimate", *JOB, "--format", "json").json["step_time_s"]
    slow = planner(
        "estimate", *JOB, "--set", "attention=unfused", "--set", "compute_derate=0.5", "--format", "json"
    )
    assert slow.json["step_time_s"] > 1.5 * plain


def test_the_method_changes_what_is_stored() -> None:
    peaks = {
        method: planner("estimate", *JOB, "--runtime", "fsdp", "--method", method, "--format", "json").json
        for method in ("full", "lora")
    }
    assert peaks["lora"]["memory"]["peak_gib"] < peaks["full"]["memory"]["peak_gib"]


def test_batches_may_be_given_in_tokens() -> None:
    ask = ("llama2-7b", "--hardware", "dgx-h100", "--gpus", "8", "--format", "json")
    for text in ("262144", "256Ki"):
        done = planner("estimate", *ask, "--global-batch-tokens", text)
        assert done.json["workload"]["global_batch"] == 64


def test_the_table_fits_eighty_columns() -> None:
    three = (*JOB[:4], "3", *JOB[5:])
    for job, options in ((JOB, ()), (JOB, ("--pp", "8")), (three, ("--tp", "3", "--dp", "1"))):
        lines = planner("estimate", *job, *options).out.splitlines()
        assert max(map(len, lines)) <= 80


def test_save_writes_a_plan_file_that_tells_the_same(tmp_path: Path) -> None:
    saved = tmp_path / "plan.yaml"
    assert planner("estimate", *JOB, "--tp", "2", "--save", str(saved)).code == 0
    text = saved.read_text()
    assert text.startswith("format: planner/plan/1\n")
    for word in ("llama2-7b", "dgx-h100", "megatron-lm", "sha256", "version"):
        assert word in text


def test_a_split_that_nobody_gave_is_listed_where_there_are_stages() -> None:
    halves = planner("estimate", *JOB, "--pp", "2", "--format", "json").json
    assert halves["defaults"]["stage_layers"] == halves["plan"]["stage_layers"] == [16, 16]
    given = planner("estimate", *JOB, "--pp", "2", "--stage-layers", "15,17", "--format", "json").json
    assert (given["plan"]["stage_layers"], "stage_layers" in given["defaults"]) == ([15, 17], False)
    assert "stage_layers" not in planner("estimate", *JOB, "--format", "json").json["defaults"]
