"""Files for fine-tuning libraries say the plan, and are read back as it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from planner.errors import InputError, UnsupportedPlan
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.workload import Workload
from planner.launchers import launchers
from planner.launchers.card import Card
from planner.launchers.emit import Target, launch_files
from planner.plan import Plan
from planner.question.launch import wanted_target
from planner.question.launched import Launch
from planner.runtimes import runtimes
from planner.runtimes.family import Job
from planner.runtimes.imports.dispatch import read_runner_file
from planner.runtimes.libraries import libraries, library_named
from tests.cases import every
from tests.cli.command import planner

LIBRARIES = tuple(libraries())
CASES = [
    ("fsdp", "full", 2, "none"),
    ("fsdp", "full", 3, "full"),
    ("fsdp", "lora", 0, "full"),
    ("fsdp", "lora", 3, "full"),
    ("fsdp", "qlora", 0, "none"),
    ("fsdp", "qlora", 3, "none"),
    ("deepspeed", "full", 1, "full"),
    ("deepspeed", "full", 3, "none"),
    ("deepspeed", "lora", 2, "full"),
]


def tuned(method: str, **fields: Any) -> Job:
    """Return a small fine-tuning job on four accelerators."""
    work = Workload(seq_len=2048, global_batch=32, method=method, **fields)
    return Job(load_model("llama3-8b"), load_hardware("dgx-a100-80gb"), 4, work)


def files_of(library: str, host: str, plan: Plan, job: Job) -> dict[str, str]:
    """Return what is written for a plan on a host."""
    wanted = wanted_target(Launch(Path(), library, "torchrun", None, False, False), runtimes()[host])
    return launch_files(plan, job, wanted, Card())


def plan_of(zero: int, recompute: str, **fields: Any) -> Plan:
    """Return four ranks of data parallelism, two sequences in a pass."""
    shards = 4 if zero else 1
    usual: dict[str, Any] = {"dp": 4, "micro_batch": 2, "num_microbatches": 4, "zero_shards": shards}
    return Plan(zero=zero, recompute=recompute, **{**usual, **fields})


@every("library", LIBRARIES)
@every(("host", "method", "zero", "recompute"), CASES)
@every("which", ["train.sh", "file"])
def test_files_are_read_back_as_the_plan(
    tmp_path: Path, library: str, host: str, method: str, zero: int, recompute: str, which: str
) -> None:
    for name, text in files_of(library, host, plan_of(zero, recompute), tuned(method)).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    found = read_runner_file(tmp_path / (libraries()[library].file if which == "file" else which))
    assert not found.faults
    assert not found.unknown
    assert found.runtime == host
    expected = {"micro_batch": "2", "zero": str(zero), "recompute": recompute, "seq_len": "2048"}
    expected |= {"accumulation": "4", "gpus": "4", "precision": "bf16", "optimizer": "adamw"}
    expected |= {} if method == "full" else {"method": method, "lora_rank": "16"}
    assert {name: found.options.get(name) for name in expected} == expected
    assert found.model_name == "llama3-8b"


@every("library", LIBRARIES)
def test_adapters_on_some_layers_are_named(tmp_path: Path, library: str) -> None:
    job = tuned("lora", lora_rank=8, lora_targets=("qkv", "proj"))
    for name, text in files_of(library, "fsdp", plan_of(0, "full"), job).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    found = read_runner_file(tmp_path / "train.sh")
    assert (found.options["lora_targets"], found.options["lora_rank"]) == ("qkv+proj", "8")


@every("library", LIBRARIES)
@every("method", ["lora", "qlora"])
def test_a_base_on_the_host_is_said_and_read_back(tmp_path: Path, library: str, method: str) -> None:
    for name, text in files_of(library, "fsdp", plan_of(3, "full", offload="weights"), tuned(method)).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    found = read_runner_file(tmp_path / "train.sh")
    assert (found.faults, found.unknown, found.options["offload"]) == ((), (), "weights")


@every("library", LIBRARIES)
def test_what_a_library_cannot_say_is_refused(library: str) -> None:
    with pytest.raises(UnsupportedPlan, match=r"tp 2.*nearest: tp 1"):
        files_of(
            library, "fsdp", plan_of(3, "full", dp=2, tp=2, num_microbatches=8, zero_shards=2), tuned("full")
        )


BFLOAT16: dict[str, Any] = {"master_dtype": "bf16", "gradient_dtype": "bf16"}
LOW = [
    (0, BFLOAT16 | {"state_dtype": "bf16"}),
    (3, BFLOAT16 | {"state_dtype": "bf16"}),
    (0, BFLOAT16 | {"optimizer": "adam8bit"}),
    (3, {"optimizer": "adam8bit"}),
    (2, {"optimizer": "sgd"}),
]
"""ZeRO stages, and weights, gradients and states of few bytes."""


def sayable(library: str, zero: int, work: Mapping[str, Any]) -> bool:
    """Whether a library can say it: Axolotl computes in bf16 beside whatever FSDP2 shards."""
    return not (library == "axolotl" and zero and "master_dtype" in work)


@every("library", LIBRARIES)
@every(("zero", "work"), LOW, ids=str)
def test_weights_and_states_of_few_bytes_are_read_back(
    tmp_path: Path, library: str, zero: int, work: dict[str, Any]
) -> None:
    if not sayable(library, zero, work):
        with pytest.raises(UnsupportedPlan, match="--zero 0, or no dtypes"):
            files_of(library, "fsdp", plan_of(zero, "full"), tuned("full", **work))
        return
    for name, text in files_of(library, "fsdp", plan_of(zero, "full"), tuned("full", **work)).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    found = read_runner_file(tmp_path / "train.sh")
    assert (found.faults, found.unknown) == ((), ())
    expected = {"zero": str(zero), "precision": "bf16", "optimizer": "adamw"} | work
    expected |= {name: None for name in ("state_dtype", "master_dtype", "gradient_dtype") if name not in work}
    assert {name: found.options.get(name) for name in expected} == expected


@every("library", LIBRARIES)
@every("method", ["lora", "qlora"])
def test_half_precision_is_said_and_read_back(tmp_path: Path, library: str, method: str) -> None:
    """As on a T4, which has no bfloat16."""
    for name, text in files_of(library, "fsdp", plan_of(0, "full"), tuned(method, precision="fp16")).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    tree = yaml.safe_load((tmp_path / libraries()[library].file).read_text())
    assert (tree["fp16"], tree["bf16"]) == (True, False)
    assert "bfloat16" not in tree.values()
    found = read_runner_file(tmp_path / "train.sh")
    assert (found.faults, found.unknown) == ((), ())
    assert (found.options["precision"], found.options["method"]) == ("fp16", method)


@every("library", ["trl", "llama-factory"])
def test_torchao_cannot_trace_states_of_sharded_bf16_weights(library: str) -> None:
    work = BFLOAT16 | {"optimizer": "adam8bit"}
    with pytest.raises(UnsupportedPlan, match=r"AdamW8bit.*nearest: --zero 0"):
        files_of(library, "fsdp", plan_of(3, "full"), tuned("full", **work))


def test_replicas_of_whole_weights_are_not_axolotls() -> None:
    with pytest.raises(UnsupportedPlan, match="float32 copy; nearest: --zero 2"):
        files_of("axolotl", "fsdp", plan_of(0, "full"), tuned("full"))


def test_names_and_versions_are_those_that_people_type() -> None:
    assert library_named("llamafactory") is libraries()["llama-factory"]
    with pytest.raises(InputError, match=r"one of .*axolotl"):
        wanted_target(Launch(Path(), "axolotle", "torchrun", None, False, False), runtimes()["fsdp"])
    with pytest.raises(InputError, match=r"nearest: 1\.16\.0"):
        wanted_target(Launch(Path(), "trl", "torchrun", "0.9", False, False), runtimes()["fsdp"])


def test_one_command_makes_a_file_that_starts(tmp_path: Path) -> None:
    asked = "search llama3.1-8b --method qlora --hardware 2xrtx4090 --seq-len 2048 --global-batch 16"
    run = planner(*asked.split(), "--target", "trl", "--emit", str(tmp_path / "out"))
    assert run.code == 0, run.err
    tree = yaml.safe_load((tmp_path / "out/trl.yaml").read_text(encoding="utf-8"))
    assert tree["load_in_4bit"] is True
    assert tree["per_device_train_batch_size"] * tree["gradient_accumulation_steps"] * 2 == 16
    assert "trl.scripts.sft" in (tmp_path / "out/train.sh").read_text(encoding="utf-8")


@every(("weights", "launcher"), [(True, "torchrun"), (False, "torchrun"), (True, "kubernetes")])
def test_weights_beside_the_configuration_are_what_files_start_from(
    tmp_path: Path, weights: bool, launcher: str
) -> None:
    folder = tmp_path / "my-llama"
    folder.mkdir()
    small = {"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
             "num_attention_heads": 4, "vocab_size": 512, "max_position_embeddings": 256}  # fmt: skip
    (folder / "config.json").write_text(json.dumps(small), encoding="utf-8")
    if weights:
        (folder / "model.safetensors").touch()
    asked = f"search {folder} --method lora --hardware rtx4090 --target trl --launcher {launcher}"
    run = planner(*asked.split(), "--emit", str(tmp_path / "out"))
    assert run.code == 0, run.err
    told = "".join(path.read_text("utf-8") for path in (tmp_path / "out").iterdir())
    assert (f"CHECKPOINT:-{folder}" in told) == (weights and launcher == "torchrun")
    assert "max_length: 256" in told


def test_a_target_keeps_launchers(tmp_path: Path) -> None:
    target = Target(libraries()["trl"].on(runtimes()["fsdp"]), launchers()["slurm"], "1.16.0")
    files = launch_files(plan_of(3, "full"), tuned("full"), target, Card())
    assert any("trl.scripts.sft" in text for name, text in files.items() if name.endswith(".sbatch"))


def test_an_accelerator_alone_is_one() -> None:
    asked = "search llama3-8b --method qlora --hardware rtx4090 --seq-len 1024 --global-batch 4 --format json"
    assert planner(*asked.split()).json["plans"][0]["hardware"]["gpus"] == 1
    two = planner(*asked.split(), "--dp", "2")
    assert (two.code, "--gpus: found nothing" in two.err) == (2, True)
    cluster = planner(*asked.replace("rtx4090", "dgx-h100").split())
    assert (cluster.code, "--gpus: found nothing" in cluster.err) == (2, True)


def test_a_library_is_no_runtime_and_the_message_says_what_it_is() -> None:
    done = planner("estimate", "llama3-8b", "--hardware", "rtx4090", "--runtime", "axolotl")
    assert (done.code, "nearest: fsdp with --target axolotl" in done.err) == (2, True)


@every(
    ("name", "wrapped"), [("qwen3-8b", True), ("gemma2-2b", True), ("chatglm3-6b", False), ("phi4", False)]
)
def test_a_layer_is_named_where_the_model_is_of_its_type_alone(name: str, wrapped: bool) -> None:
    """ChatGLM has Qwen2's shapes, Phi-4 Llama's: layers of their own, which their checkpoints' code names."""
    job = replace(tuned("full"), model=load_model(name))
    tree = yaml.safe_load(files_of("trl", "fsdp", plan_of(3, "none"), job)["trl.yaml"])
    assert ("transformer_layer_cls_to_wrap" in tree["fsdp_config"]) == wrapped
