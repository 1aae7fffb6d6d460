"""A saved plan is read as a recipe: the same price, and a start for another machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cases import every
from tests.cli.command import planner

JOBS = {
    "dense": "llama3-8b --hardware dgx-h100 --gpus 16 --tp 2 --pp 4 --vpp 2 --zero 1 --global-batch 64",
    "experts": "qwen3-30b-a3b --hardware dgx-b200 --gpus 16 --runtime megatron-bridge@26.04 --ep 8 --zero 1 "
    "--precision mxfp8 --set expert_dispatcher=fused",
    "predicting": "glm-4.5-air --hardware dgx-h100 --gpus 64 --runtime megatron-lm --pp 4 --vpp 4 --cp 2 "
    "--ep 16 --etp 1 --zero 1 --global-batch 256 --stage-layers 4,3,4,3,3,3,3,3,3,3,3,3,3,3,2m,0 "
    "--set shared_expert_overlap=on",
    "adapters": "llama3-8b --hardware dgx-h100 --gpus 8 --runtime fsdp --method lora --lora-rank 32 --zero 3 "
    "--recompute full",
    "uneven": "llama3-8b --hardware dgx-h100 --gpus 16 --pp 4 --stage-layers 7,9,9,7 --global-batch 64 "
    "--set rank_order=stages-inside",
}


@every("name", JOBS)
def test_what_was_saved_is_priced_the_same(name: str, tmp_path: Path) -> None:
    saved = tmp_path / "plan.yaml"
    done = planner("estimate", *JOBS[name].split(), "--save", str(saved), "--format", "json")
    assert done.code == 0, done.err
    again = planner("estimate", "--from", str(saved), "--format", "json")
    assert again.code == 0, again.err
    for figure in ("step_time_s", "memory", "plan"):
        assert again.json[figure] == done.json[figure]


def test_a_saved_plan_names_its_cluster_with_nodes_price_and_limit(tmp_path: Path) -> None:
    saved = tmp_path / "plan.yaml"
    more = "--gpus-per-node 4 --price 3.5 --memory-limit 70"
    done = planner(
        "estimate", *JOBS["dense"].split(), *more.split(), "--save", str(saved), "--format", "json"
    )
    again = planner("estimate", "--from", str(saved), "--format", "json")
    for figure in ("step_time_s", "memory", "plan", "cost_usd_per_step"):
        assert again.json[figure] == done.json[figure], figure
    assert again.json["from"]["options"]["memory_limit"] == "70.0 GiB"
    named = planner(
        "estimate", "--from", str(saved), "--hardware", "dgx-h100", "--price", "7", "--format", "json"
    )
    assert named.json["step_time_s"] == done.json["step_time_s"]
    assert named.json["cost_usd_per_step"] == pytest.approx(2 * done.json["cost_usd_per_step"])
    moved = planner("estimate", "--from", str(saved), "--hardware", "dgx-b200", "--format", "json")
    assert "gpus_per_node" not in moved.json["from"]["options"]
    near = planner("search", "--near", str(saved), "--format", "json")
    assert near.json["plans"][0]["hardware"]["name"] == "dgx-h100"


def test_a_saved_plan_moves_to_another_machine(tmp_path: Path) -> None:
    saved = tmp_path / "plan.yaml"
    planner("estimate", *JOBS["dense"].split(), "--save", str(saved))
    done = planner(
        "search", "--near", str(saved), "--hardware", "dgx-b200", "--gpus", "32", "--format", "json"
    )
    assert done.code == 0, done.err
    first = done.json["plans"][0]["plan"]
    assert (first["tp"], first["pp"], first["vpp"], first["dp"]) == (2, 4, 2, 4)


def test_a_plan_for_another_model_is_a_fault_of_the_file(tmp_path: Path) -> None:
    saved = tmp_path / "plan.yaml"
    planner("estimate", *JOBS["dense"].split(), "--save", str(saved))
    saved.write_text(saved.read_text().replace("tp: 2", "tp: two").replace("name: llama3-8b", "name: nobody"))
    done = planner("estimate", "--from", str(saved), "--hardware", "dgx-h100")
    assert done.code == 2
    assert "plan.tp" in done.err
    assert "nobody" in done.err


@every(
    ("right", "wrong", "told"),
    [
        ("seq_len:", "seqlen:", "workload.seqlen: found unknown key; expected seq_len"),
        ("micro_batch:", "micro_batches:", "plan.micro_batches: found unknown key"),
        ("\nplan:", "\nplans:", "plans: found unknown key; expected plan"),
        ("release:", "settingss:", "runtime.settingss: found unknown key; expected settings"),
    ],
)
def test_a_misspelt_key_is_a_fault_and_no_default(right: str, wrong: str, told: str, tmp_path: Path) -> None:
    saved = tmp_path / "plan.yaml"
    planner("estimate", *JOBS["dense"].split(), "--save", str(saved))
    saved.write_text(saved.read_text().replace(right, wrong))
    done = planner("estimate", "--from", str(saved))
    assert (done.code, done.out) == (2, "")
    assert told in done.err


@every("part", ["settings: [1]", "traits: 3", "settings: text"])
def test_settings_that_are_no_mapping_are_a_fault(part: str, tmp_path: Path) -> None:
    saved = tmp_path / "plan.yaml"
    planner("estimate", *JOBS["dense"].split(), "--save", str(saved))
    saved.write_text(saved.read_text().replace("runtime:\n", f"runtime:\n  {part}\n"))
    done = planner("estimate", "--from", str(saved), "--hardware", "dgx-h100")
    assert done.code == 2
    assert f"runtime.{part.partition(':')[0]}" in done.err
