"""YAML files with Megatron-LM's arguments, and variables that a file leaves to the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.errors import InputError
from planner.runtimes.imports.dispatch import read_runner_file
from planner.runtimes.imports.sheet import Imported
from planner.runtimes.imports.shell import read_script

ZOO = """\
ENV_VARS:
  CUDA_DEVICE_MAX_CONNECTIONS: 1
MODEL_ARGS:
  --tensor-model-parallel-size: ${TP}
  --pipeline-model-parallel-size: ${PP}
  --context-parallel-size: 1
  --micro-batch-size: 1
  --global-batch-size: ${GBS}
  --seq-length: 8192
  --max-position-embeddings: 8192
  --num-layers: 32
  --hidden-size: 4096
  --ffn-hidden-size: 14336
  --num-attention-heads: 32
  --group-query-attention: true
  --num-query-groups: 8
  --swiglu: true
  --normalization: RMSNorm
  --disable-bias-linear: true
  --position-embedding-type: rope
  --untie-embeddings-and-output-weights: true
  --use-distributed-optimizer: true
  --sequence-parallel: true
  --fp16: false
  --bf16: true
  --tokenizer-type: HuggingFaceTokenizer
  --tokenizer-model: meta-llama/Meta-Llama-3-8B
  --save: ${OUTPUT_PATH}/checkpoints
  --save-interval: 500
"""

PRIMUS = """\
work_group: ${TEAM:ours}
modules:
  pre_trainer:
    framework: megatron
    config: pre_trainer.yaml
    model: llama3.1_8B.yaml
    overrides:
      train_iters: 50
      micro_batch_size: 2
      global_batch_size: ${BATCH:128}
      seq_length: 8192
      tensor_model_parallel_size: 2
      pipeline_model_parallel_size: 1
      sequence_parallel: true
      overlap_grad_reduce: true
      overlap_param_gather: true
      gradient_accumulation_fusion: false
      recompute_granularity: full
      recompute_method: uniform
      recompute_num_layers: 1
      our_own_setting: 3
"""


def read(folder: Path, text: str) -> Imported:
    path = folder / "job.yaml"
    path.write_text(text, encoding="utf-8")
    return read_runner_file(path)


def test_flags_with_variables_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"TP": "2", "PP": "4", "GBS": "256", "NNODES": "4", "VPP": "2"}.items():
        monkeypatch.setenv(name, value)
    found = read(tmp_path, ZOO)
    expected = {
        "gpus": "32",
        "tp": "2",
        "pp": "4",
        "vpp": "2",
        "zero": "1",
        "global_batch": "256",
        "precision": "bf16",
        "stage_layers": "4,4,4,4,4,4,4,4",
        "sequence_parallel": "true",
    }
    assert {name: found.options[name] for name in expected} == expected
    assert (found.runtime, found.model_name, found.faults, found.unknown) == (
        "megatron-lm",
        "llama3-8b",
        (),
        (),
    )


def test_variables_that_are_not_set_are_named_with_both_ways_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TP", "PP", "GBS", "NNODES", "VPP"):
        monkeypatch.delenv(name, raising=False)
    found = read(tmp_path, ZOO)
    told = {option: problem.expected for option, problem in found.faults}
    assert set(told) == {"tp", "pp", "global_batch"}
    assert "TP=value planner" in told["tp"]
    assert "--tp" in told["tp"]
    assert any("not set: TP, PP, GBS" in note for note in found.notes)


def test_primus_without_its_checkout(tmp_path: Path) -> None:
    found = read(tmp_path, PRIMUS)
    expected = {
        "tp": "2",
        "pp": "1",
        "micro_batch": "2",
        "global_batch": "128",
        "seq_len": "8192",
        "precision": "bf16",
        "recompute": "full",
        "zero": "1",
        "sequence_parallel": "true",
    }
    assert {name: found.options[name] for name in expected} == expected
    assert (found.runtime, found.model_name, found.unknown) == (
        "megatron-lm",
        "llama3.1-8b",
        ("our_own_setting",),
    )
    assert "fused_weight_gradient=false" in found.changes


def test_primus_follows_what_its_files_extend(tmp_path: Path) -> None:
    configs = tmp_path / "primus/configs"
    (configs / "models/megatron").mkdir(parents=True)
    (configs / "modules/megatron").mkdir(parents=True)
    (configs / "modules/megatron/base.yaml").write_text("bf16: true\nuse_distributed_optimizer: false\n")
    module = "extends: [base.yaml]\nuse_distributed_optimizer: true\nsome_default: 7\n"
    (configs / "modules/megatron/pre_trainer.yaml").write_text(module)
    shape = (
        "num_layers: 4\nhidden_size: 512\nffn_hidden_size: 1024\nnum_attention_heads: 8\nvocab_size: 1000\n"
    )
    kind = "swiglu: true\nnormalization: RMSNorm\nadd_bias_linear: false\nposition_embedding_type: rope\n"
    (configs / "models/megatron/llama3.1_8B.yaml").write_text(shape + kind)
    (tmp_path / "examples").mkdir()
    found = read(tmp_path / "examples", PRIMUS)
    assert found.model is not None
    assert (found.model.hidden, len(found.model.layers), found.options["zero"]) == (512, 4, "1")
    assert found.unknown == ("our_own_setting",)


def test_primus_with_torchtitan(tmp_path: Path) -> None:
    text = (
        "modules:\n  pre_trainer:\n    framework: torchtitan\n    model: llama3.1_8B.yaml\n    overrides:\n"
        "      training: {local_batch_size: 4, seq_len: 8192}\n      activation_checkpoint: {mode: full}\n"
        "      parallelism: {tensor_parallel_degree: 2}\n"
    )
    found = read(tmp_path, text)
    said = {name: found.options[name] for name in ("tp", "micro_batch", "seq_len", "recompute", "zero")}
    assert said == {"tp": "2", "micro_batch": "4", "seq_len": "8192", "recompute": "full", "zero": "3"}
    assert (found.runtime, found.model_name) == ("torchtitan", "llama3.1-8b")


def test_what_primus_alone_has_is_a_fault(tmp_path: Path) -> None:
    found = read(tmp_path, PRIMUS + "      patch_zero_bubble: true\n")
    assert [option for option, _ in found.faults] == ["schedule"]
    idle = "      enable_zero_bubble: true\n      enable_zb_runtime: true\n"
    assert not read(tmp_path, PRIMUS + idle).faults, "without the patch they are idle"
    with pytest.raises(InputError, match="megatron or torchtitan"):
        read(tmp_path, PRIMUS.replace("framework: megatron", "framework: maxtext"))
    own = "framework: megatron\n    trainer_class: FluxPretrainTrainer"
    with pytest.raises(InputError, match="trainer_class: found 'FluxPretrainTrainer'"):
        read(tmp_path, PRIMUS.replace("framework: megatron", own))


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("n=4\nrun --steps $(expr 16 / $n)", "4"),
        ("n=4\nrun --steps $(expr 2 \\* $n)", "8"),
        ('S=$1\nif [ -z "$S" ]; then S=3; fi\nrun --steps $S', "3"),
        ('S=2\nif [ -z "$S" ]; then S=3; fi\nrun --steps $S', "2"),
        ("run --steps ${PLANNER_TEST_STEPS:-5}", "5"),
    ],
)
def test_sums_and_defaults_of_a_script(text: str, word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PLANNER_TEST_STEPS", raising=False)
    assert read_script(text, "script").commands[-1][-1] == word


def test_the_environment_goes_before_a_default_and_after_the_script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANNER_TEST_STEPS", "7")
    commands = read_script(
        "run ${PLANNER_TEST_STEPS:-5}\nPLANNER_TEST_STEPS=9\nrun $PLANNER_TEST_STEPS", "s"
    ).commands
    assert [words[-1] for words in commands] == ["7", "9"]


MEGATRON = (
    "torchrun --nproc_per_node 8 --nnodes 1 pretrain_gpt.py --num-layers 30 --hidden-size 1024 "
    "--num-attention-heads 16 --seq-length 2048 --max-position-embeddings 2048 --vocab-size 50257 "
    "--micro-batch-size 1 --global-batch-size 16 --bf16 "
)


def test_the_partition_that_counts_both_embeddings_as_layers(tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    parts = "--pipeline-model-parallel-size 8 --pp-partition-method 'type:transformer|embedding'"
    path.write_text(f"{MEGATRON} {parts}\n")
    found = read_runner_file(path)
    assert found.options["stage_layers"] == "3,4,4,4,4,4,4,3"  # 30 layers and 2 embeddings over 8 stages


def test_ulysses_of_megatron_deepspeed_is_a_degree(tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    path.write_text(f"{MEGATRON} --ds-sequence-parallel-size 4 --deepspeed --zero-stage 1\n")
    found = read_runner_file(path)
    assert (found.options["cp"], found.options["cp_method"]) == ("4", "all-to-all")
