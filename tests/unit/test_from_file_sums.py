"""Files that their runner refuses are refused, each by the key that is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planner.runtimes._imports.dispatch import read_runner_file

FSDP = "distributed_type: FSDP\nnum_processes: 8\nnum_machines: 1\nmixed_precision: bf16\n"
SIZES = "parallelism_config:\n  parallelism_config_dp_shard_size: {}\n  parallelism_config_cp_size: {}\n"
MEGATRON = """torchrun --nproc_per_node 8 --nnodes 1 pretrain_gpt.py --num-layers 32 --hidden-size 4096 \\
 --ffn-hidden-size 14336 --num-attention-heads 32 --max-position-embeddings 8192 --seq-length 4096 --swiglu \\
 --vocab-size 32000 --normalization RMSNorm --disable-bias-linear --position-embedding-type rope \\
 --untie-embeddings-and-output-weights --micro-batch-size 1 --global-batch-size 64 """


def faults(path: Path, text: str) -> set[str]:
    path.write_text(text)
    return {problem.where.rpartition(": ")[2] for _, problem in read_runner_file(path).faults}


@pytest.mark.parametrize(
    ("tree", "key"),
    [
        ({}, None),
        ({"train_batch_size": 16, "gradient_accumulation_steps": 3}, "train_batch_size"),
        ({"gradient_accumulation_steps": 0}, "gradient_accumulation_steps"),
        ({"fp16": {"enabled": True}}, "fp16.enabled"),
        ({"communication_data_type": "foo"}, "communication_data_type"),
    ],
)
def test_deepspeed(tmp_path: Path, tree: dict, key: str | None) -> None:
    whole = {"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": True}, **tree}
    assert faults(tmp_path / "ds.json", json.dumps(whole)) == ({key} if key else set())


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (FSDP + SIZES.format(1, 8), None),
        (FSDP + SIZES.format(3, 8), "num_processes"),
        (FSDP.replace("FSDP", "FOO"), "distributed_type"),
        (FSDP.replace("machines: 1", "machines: 3"), "num_machines"),
        (FSDP + "fsdp_config:\n  fsdp_version: 3\n", "fsdp_config.fsdp_version"),
    ],
)
def test_accelerate(tmp_path: Path, text: str, key: str | None) -> None:
    assert faults(tmp_path / "a.yaml", text) == ({key} if key else set())


def test_accelerate_ulysses_under_deepspeed_is_sequence_parallel(tmp_path: Path) -> None:
    sizes = SIZES.format(2, 1) + "  parallelism_config_sp_size: 2\n"
    path = tmp_path / "a.yaml"
    path.write_text(
        "distributed_type: DEEPSPEED\nnum_processes: 4\ndeepspeed_config:\n  zero_stage: 3\n" + sizes
    )
    options = read_runner_file(path).options
    assert (options["cp"], options["cp_method"]) == ("2", "all-to-all")


@pytest.mark.parametrize(
    ("flags", "key"),
    [
        ("--bf16", None),
        ("--bf16 --fp16", "--fp16"),
        ("--bf16 --recompute-granularity full", "--recompute-granularity"),
        ("--bf16 --overlap-param-gather", "--overlap-param-gather"),
        ("--bf16 --pipeline-model-parallel-size 3", "--pipeline-model-parallel-size"),
        ("--bf16 --use-torch-fsdp2 --pipeline-model-parallel-size 2", "--use-torch-fsdp2"),
        ("--bf16 --num-layers-per-virtual-pipeline-stage 4", "--num-layers-per-virtual-pipeline-stage"),
        ("--bf16 --seq-length 16384", "--seq-length"),
    ],
)
def test_megatron(tmp_path: Path, flags: str, key: str | None) -> None:
    assert faults(tmp_path / "train.sh", MEGATRON + flags + "\n") == ({key} if key else set())


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("", None),
        ("tensor_parallel_degree = 8", "training.tensor_parallel_degree"),
        ('mixed_precision_reduce = "bfloat16"', "training.mixed_precision_reduce"),
        ('[parallelism]\nfsdp_reshard_after_forward = "sometimes"', "parallelism.fsdp_reshard_after_forward"),
    ],
)
def test_torchtitan(tmp_path: Path, text: str, key: str | None) -> None:
    whole = (
        f'[model]\nname = "llama3"\nflavor = "8B"\n[training]\nseq_len = 8192\nlocal_batch_size = 1\n{text}\n'
    )
    assert faults(tmp_path / "a.toml", whole) == ({key} if key else set())


@pytest.mark.parametrize(("batch", "wrong"), [(64, False), (32, True)])
def test_deepspeed_batch_is_that_of_the_replicas_that_start(tmp_path: Path, batch: int, wrong: bool) -> None:
    """Two a replica, four times, on eight: 64."""
    sizes = {
        "train_batch_size": batch,
        "train_micro_batch_size_per_gpu": 2,
        "gradient_accumulation_steps": 4,
    }
    (tmp_path / "ds.json").write_text(json.dumps({**sizes, "bf16": {"enabled": True}}))
    (tmp_path / "a.yaml").write_text(
        "distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config:\n  deepspeed_config_file: ds.json\n"
    )
    found = [problem.where for _, problem in read_runner_file(tmp_path / "a.yaml").faults]
    assert [where.rpartition(": ")[2] for where in found] == (["train_batch_size"] if wrong else [])
