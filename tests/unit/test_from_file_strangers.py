"""Launch files of strangers: what was read wrong or refused without need, each kind by a text of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planner.runtimes.imports.dispatch import read_runner_file
from planner.runtimes.imports.sheet import Imported

GPT = (
    "--num-layers 4 --hidden-size 512 --num-attention-heads 8 --seq-length 1024 "
    "--max-position-embeddings 1024 --micro-batch-size 8 --global-batch-size 64 --train-iters 10 --fp16"
)


def read(tmp_path: Path, text: str, name: str = "train.sh") -> Imported:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return read_runner_file(path)


def test_a_path_that_is_still_to_be_filled_in_is_one(tmp_path: Path) -> None:
    """As the scripts of MindSpeed-LLM have it, unquoted: ``--load ${CKPT}`` of several words."""
    text = (
        f'CKPT="your model ckpt path"\ntorchrun --nproc_per_node 8 pretrain_gpt.py {GPT} --load ${{CKPT}}\n'
    )
    found = read(tmp_path, text)
    assert found.faults == ()
    assert any("your model ckpt path" in note for note in found.notes)
    other = read(tmp_path, text.replace("your model ckpt path", "/data/a /data/b"))
    assert [problem.found for _, problem in other.faults] == ["'/data/a /data/b'"]


@pytest.mark.parametrize(("ranks", "ep"), [(8, "8"), (2, "2"), (64, "16")])
def test_experts_of_megablocks_are_experts(ranks: int, ep: str, tmp_path: Path) -> None:
    """They lie over the data-parallel ranks, as far as they go; read as a dense model before."""
    words = "--moe-num-experts=16 --moe-top-k=2 --moe-loss-weight=0.1 --moe-expert-model-parallelism"
    found = read(tmp_path, f"torchrun --nproc_per_node {ranks} pretrain_gpt.py {GPT} {words}\n")
    assert (found.options["ep"], found.options["etp"], found.unknown) == (ep, "1", ())
    assert found.model is not None
    assert [(kind.experts, kind.topk) for kind in found.model.expert_kinds] == [(16, 2)]


def test_experts_over_ranks_that_are_not_counted_are_asked_for(tmp_path: Path) -> None:
    words = "--moe-num-experts=16 --moe-expert-model-parallelism"
    found = read(tmp_path, f"srun python pretrain_gpt.py {GPT} {words}\n")
    assert [option for option, _ in found.faults] == ["ep"]


SWIFT = "NPROC_PER_NODE=2 megatron sft --model {model} --tensor_model_parallel_size 2 --max_length 2048"


def test_swift_leaves_an_encoder_as_it_is_unless_told(tmp_path: Path) -> None:
    """``freeze_vit`` and ``freeze_aligner`` are true by default, for the Trainer and for Megatron."""
    megatron = SWIFT.format(model="Qwen/Qwen3-VL-8B-Instruct")
    assert read(tmp_path, f"{megatron}\n").options["freeze_encoder"] == "true"
    assert "freeze_encoder" not in read(tmp_path, f"{megatron} --freeze_vit false\n").options
    assert read(tmp_path, f"{megatron} --freeze_aligner false\n").options["train_projector"] == "true"
    trainer = (
        "NPROC_PER_NODE=2 swift sft --model Qwen/Qwen3-VL-8B-Instruct --tuner_type full --max_length 2048"
    )
    found = read(tmp_path, f"{trainer} --torch_dtype bfloat16\n")
    assert found.options["freeze_encoder"] == "true"
    (fault,) = read(tmp_path, f"{trainer} --torch_dtype bfloat16 --freeze_llm true\n").faults
    assert fault[1].where.endswith("freeze_llm")


def test_swift_trains_prediction_layers_where_it_is_told(tmp_path: Path) -> None:
    """``mtp_num_layers`` is None by default, whatever the model has."""
    plain = read(tmp_path, SWIFT.format(model="Qwen/Qwen3-4B") + "\n")
    assert plain.model_name == "Qwen/Qwen3-4B" or plain.model is None
    one = read(tmp_path, SWIFT.format(model="Qwen/Qwen3-4B") + " --mtp_num_layers 1\n")
    assert one.model is not None
    assert one.model.prediction is not None
    assert (one.model.prediction.layers, one.unknown) == (1, ())
    none = read(tmp_path, SWIFT.format(model="deepseek-ai/DeepSeek-V3") + "\n")
    assert none.model is not None
    assert none.model.prediction is None


@pytest.mark.parametrize(("degrees", "etp"), [("", "8"), ("expert_parallel_degree = 8\n", None)])
def test_experts_without_a_mesh_are_split_as_the_layer_is(
    degrees: str, etp: str | None, tmp_path: Path
) -> None:
    """In torchtitan 0.2, ``apply_moe_ep_tp``; the plan was called illegal before."""
    text = (
        '[model]\nname = "llama4"\nflavor = "17bx16e"\n[training]\nlocal_batch_size = 1\nseq_len = 8192\n'
        f"[parallelism]\ntensor_parallel_degree = 8\n{degrees}"
    )
    assert read(tmp_path, text, "train.toml").options.get("etp") == etp


def test_a_deepspeed_file_of_another_ending_is_one(tmp_path: Path) -> None:
    said = {"train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 3}, "bf16": {"enabled": True}}
    found = read(tmp_path, json.dumps({"_why": "small buckets", **said}), "stage3.conf")
    assert (found.runtime, found.options["zero"], found.unknown) == ("deepspeed", "3", ())


def test_a_flag_with_its_value_is_no_file(tmp_path: Path) -> None:
    """``program.py --deepspeed=zero2.json``: the file is what stands behind the sign."""
    (tmp_path / "zero2.json").write_text(
        '{"zero_optimization": {"stage": 2}, "bf16": {"enabled": true}}', encoding="utf-8"
    )
    words = "--deepspeed=zero2.json --per_device_train_batch_size 1 --bf16 --max_seq_length 512"
    found = read(tmp_path, f"deepspeed --num_gpus 8 sft.py {words} --model_name_or_path gpt2\n")
    assert (found.runtime, found.options["zero"]) == ("deepspeed", "2")
