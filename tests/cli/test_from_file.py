"""``estimate --from``: launch files priced as a user's own, and saved as a plan."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cases import every
from tests.cli.command import planner
from tests.deep import deep

JOB = ("--hardware", "dgx-h100", "--gpus", "64", "--seq-len", "8192", "--global-batch", "128")
PLAN = ("--tp", "8", "--pp", "4", "--vpp", "5", "--sequence-parallel")

OWN = """\
torchrun --nnodes 1 --nproc-per-node 8 pretrain_gpt.py --num-layers 4 --hidden-size 1024 \\
  --num-attention-heads 16 --seq-length 2048 --max-position-embeddings 2048 --vocab-size 32000 \\
  --micro-batch-size 2 --global-batch-size 64 --bf16 --overlap-grad-reduce --strange-flag
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    plan = str(tmp_path / "plan.yaml")
    assert planner("estimate", "llama3-70b", *JOB, *PLAN, "--save", plan).code == 0
    assert planner("emit", plan, "--out", str(tmp_path / "out")).code == 0
    return tmp_path


def test_what_was_written_is_priced_as_what_was_planned(folder: Path) -> None:
    before = planner("estimate", "llama3-70b", *JOB, *PLAN, "--format", "json").json
    script = str(folder / "out" / "train.sh")
    after = planner("estimate", "--from", script, "--hardware", "dgx-h100", "--format", "json")
    assert after.code == 0
    assert after.json["from"]["not_understood"] == []
    assert {key: after.json[key] for key in ("plan", "workload", "step_time_s", "memory", "model")} == {
        key: before[key] for key in ("plan", "workload", "step_time_s", "memory", "model")
    }


def test_a_recipe_of_8_bit_is_written_and_read_as_it_was_asked(tmp_path: Path) -> None:
    """Megatron-LM's own default is delayed: its casts read a tensor once, and it may not rebuild norms."""
    plan, out, answers = str(tmp_path / "plan.yaml"), tmp_path / "out", {}
    for precision, recipe in (("fp8", "tensorwise"), ("fp8-delayed", "delayed")):
        asked = ("estimate", "llama3-70b", *JOB, *PLAN, "--precision", precision)
        answers[precision] = planner(*asked, "--save", plan, "--force", "--format", "json").json
        assert planner("emit", plan, "--out", str(out), "--force").code == 0
        assert f"--fp8-recipe {recipe}" in (out / "train.sh").read_text()
        read = planner(
            "estimate", "--from", str(out / "train.sh"), "--hardware", "dgx-h100", "--format", "json"
        )
        assert (read.json["workload"], read.json["from"]["not_understood"]) == (
            answers[precision]["workload"],
            [],
        )
        norms = planner(*asked, "--recompute", "selective:norm", "--format", "json").json["violations"]
        assert [one["rule"] for one in norms] == ["recompute-module"] * (precision == "fp8-delayed")
    now, delayed = answers["fp8"], answers["fp8-delayed"]
    assert delayed["memory"] == now["memory"]
    assert delayed["time_s"].pop("compute") < now["time_s"].pop("compute")
    assert delayed["time_s"]["tp_comm"] == now["time_s"]["tp_comm"]


@pytest.mark.parametrize(("method", "targets"), [("lora", ""), ("qlora", ""), ("qlora", "qkv+proj")])
def test_adapters_are_read_back_as_they_were_written(tmp_path: Path, method: str, targets: str) -> None:
    plan, out = str(tmp_path / "plan.yaml"), tmp_path / "out"
    asked = (
        "estimate", "llama3-8b", "--hardware", "dgx-h100", "--gpus", "8", "--global-batch", "16", "--runtime",
        "fsdp", "--method", method, "--lora-rank", "8", *(("--lora-targets", targets) if targets else ()),
    )  # fmt: skip
    before = planner(*asked, "--save", plan, "--format", "json").json
    assert planner("emit", plan, "--out", str(out)).code == 0
    read = planner(
        "estimate", "--from", str(out / "accelerate.yaml"), "--hardware", "dgx-h100", "--format", "json"
    ).json
    assert read["from"]["not_understood"] == []
    assert {key: read[key] for key in ("plan", "workload", "step_time_s", "memory", "violations")} == {
        key: before[key] for key in ("plan", "workload", "step_time_s", "memory", "violations")
    }


def test_options_go_before_the_file(folder: Path) -> None:
    script = str(folder / "out" / "train.sh")
    options = ("--micro-batch", "2", "--hardware", "dgx-h100", "--format", "json")
    found = planner("estimate", "--from", script, *options).json
    assert (found["plan"]["micro_batch"], found["plan"]["num_microbatches"]) == (2, 32)
    assert "micro_batch" not in found["from"]["options"]


def test_a_saved_plan_of_a_file_is_a_plan(tmp_path: Path) -> None:
    script, plan = tmp_path / "pretrain.sh", tmp_path / "mine.yaml"
    script.write_text(OWN)
    done = planner("estimate", "--from", str(script), "--hardware", "dgx-h100", "--save", str(plan))
    assert done.code == 0
    assert "not understood, so without effect: --strange-flag" in done.err
    saved = yaml.safe_load(plan.read_text())
    assert Path(saved["model"]["name"]).name == "mine.model.yaml"
    assert (saved["workload"]["seq_len"], saved["plan"]["dp"], saved["plan"]["zero"]) == (2048, 8, 0)
    assert planner("emit", str(plan), "--out", str(tmp_path / "again")).code == 0
    again = planner("estimate", "--from", str(tmp_path / "again" / "train.sh"), "--hardware", "dgx-h100")
    assert again.code == 0


def test_faults_stand_at_their_key_of_the_file(tmp_path: Path) -> None:
    script = tmp_path / "a.sh"
    script.write_text(OWN.replace("--bf16", "--fp8-format hybrid --fp8-recipe custom").replace("64", "0"))
    done = planner("estimate", "--from", str(script), "--hardware", "dgx-h100")
    assert done.code == 2
    assert f"{script}: --global-batch-size: found '0'" in done.err
    assert f"{script}: --fp8-recipe: found 'custom'" in done.err
    assert "Traceback" not in done.err


@every(
    ("arguments", "words"),
    [
        (("--hardware", "dgx-h100"), "MODEL: found nothing"),
        (("--from", "nowhere.sh"), "no such file"),
    ],
)
def test_nothing_to_price_is_told(arguments: tuple[str, ...], words: str) -> None:
    done = planner("estimate", *arguments)
    assert (done.code, words in done.err) == (2, True)


def test_a_file_without_a_model_asks_for_one(tmp_path: Path) -> None:
    config = tmp_path / "ds_config.json"
    config.write_text('{"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 8,'
                      ' "bf16": {"enabled": true}, "zero_optimization": {"stage": 2}}')  # fmt: skip
    known = ("--from", str(config), "--hardware", "dgx-h100", "--gpus", "16", "--format", "json")
    assert "MODEL: found nothing" in planner("estimate", *known).err
    found = planner("estimate", "llama3-8b", *known).json
    assert (found["workload"]["global_batch"], found["plan"]["zero"], found["runtime"]) == (
        128,
        2,
        "deepspeed",
    )


def test_the_file_goes_before_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "a.sh"
    script.write_text(OWN)
    settings = {"RUNTIME": "deepspeed", "GPUS": "64", "HARDWARE": "dgx-h100", "PRECISION": "fp8"}
    for name, value in settings.items():
        monkeypatch.setenv(f"PLANNER_{name}", value)
    found = planner("estimate", "--from", str(script), "--format", "json").json
    assert (found["runtime"], found["hardware"]["gpus"]) == ("megatron-lm", 8)
    assert (found["hardware"]["name"], found["workload"]["precision"]) == ("dgx-h100", "bf16")


CONFIGS = {
    "ds_config.json": {
        "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 8, "train_batch_size": 128,
        "bf16": {"enabled": True}, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "none"}},
        "tensor_parallel": {"autotp_size": 1}, "sequence_parallel_size": 1, "optimizer": {"type": "AdamW"},
    },
    "titan.toml": {
        "model": {"name": "llama3", "flavor": "8B"}, "activation_checkpoint": {"mode": "full"},
        "training": {"local_batch_size": 1, "seq_len": 8192, "global_batch_size": 128},
        "parallelism": {
            "data_parallel_shard_degree": -1, "data_parallel_replicate_degree": 1,
            "tensor_parallel_degree": 1,
            "pipeline_parallel_degree": 2, "pipeline_parallel_schedule": "1F1B", "context_parallel_degree": 1,
            "module_fqns_per_model_part": [["tok_embeddings", "layers.0"], ["layers.1", "norm"]],
        },
    },
    "accelerate.yaml": {
        "distributed_type": "FSDP", "num_processes": 16, "mixed_precision": "bf16",
        "fsdp_config": {"fsdp_reshard_after_forward": True, "fsdp_activation_checkpointing": False},
        "parallelism_config": {f"parallelism_config_{axis}_size": 1 for axis in ("dp_replicate", "tp", "cp")},
    },
}  # fmt: skip
"""Configurations that are right, each value of which is then made wrong."""

WRONG = (None, -1, 0, 1.5, "x", [], {}, True, 10**30, "auto", [1], "1" * 400)


def leaves(tree: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, value in tree.items():
        yield (*path, key)
        if isinstance(value, dict):
            yield from leaves(value, (*path, key))


def as_text(name: str, tree: dict[str, Any]) -> str:
    """Return a configuration in the format of its name; JSON is YAML too."""
    if not name.endswith(".toml"):
        return json.dumps(tree)
    plain = {key: value for key, value in tree.items() if not isinstance(value, dict)}
    tables = {key: value for key, value in tree.items() if isinstance(value, dict)}
    lines = [f"{key} = {json.dumps(value)}" for key, value in plain.items() if value is not None]
    for table, values in tables.items():
        lines += [f"[{table}]", *(f"{k} = {json.dumps(v)}" for k, v in values.items() if v not in (None, {}))]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("name", CONFIGS)
def test_no_wrong_value_leads_to_a_traceback(name: str, tmp_path: Path) -> None:
    known = ("llama3-8b", "--hardware", "dgx-h100", "--seq-len", "8192", "--gpus", "16", "--quiet")
    path = tmp_path / name
    path.write_text(as_text(name, CONFIGS[name]))
    assert planner("estimate", *known, "--micro-batch", "1", "--from", str(path)).code in (0, 1)
    for number, place in enumerate(leaves(CONFIGS[name])):
        for wrong in WRONG[number % deep(6, 3) :: deep(6, 3)]:
            tree = copy.deepcopy(CONFIGS[name])
            part: Any = tree
            for key in place[:-1]:
                part = part[key]
            part[place[-1]] = wrong
            path.write_text(as_text(name, tree))
            done = planner("estimate", *known, "--from", str(path))
            assert done.code in (0, 1, 2), f"{place} = {wrong!r}: {done.err}"
            assert "Traceback" not in done.err


@pytest.mark.parametrize("flag", [word for word in OWN.split() if word.startswith("--")])
def test_no_wrong_argument_leads_to_a_traceback(flag: str, tmp_path: Path) -> None:
    path = tmp_path / "a.sh"
    for wrong in ("", "-1", "0", "1.5", "x", "$NOWHERE", "9" * 30):
        path.write_text(re.sub(rf"{flag}( [^- ]\S*)?", f"{flag} {wrong}", OWN))
        done = planner("estimate", "--from", str(path), "--hardware", "dgx-h100", "--quiet")
        assert done.code in (0, 1, 2), f"{flag} {wrong}: {done.err}"
