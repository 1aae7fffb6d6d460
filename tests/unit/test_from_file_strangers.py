"""Launch files of strangers: what was read wrong or refused without need, each kind by a text of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planner.errors import InputError
from planner.runtimes.imports.dispatch import read_runner_file
from planner.runtimes.imports.sheet import Imported
from tests.cases import every

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


@every(("ranks", "ep"), [(8, "8"), (2, "2"), (64, "16")])
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


@every(("degrees", "etp"), [("", "8"), ("expert_parallel_degree = 8\n", None)])
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


def test_nodes_of_a_launcher_that_multiplies_processes_count(tmp_path: Path) -> None:
    """AI2's mason.py starts ``--num_processes`` on each of its nodes; read as one node before."""
    words = "--model_name_or_path gpt2 --per_device_train_batch_size 1 --max_seq_length 512"
    text = f"python mason.py --num_nodes 8 --gpus 8 -- accelerate launch --num_processes 8 sft.py {words}\n"
    assert read(tmp_path, text).options["gpus"] == "64"
    assert read(tmp_path, text.replace("mason.py", "ours.py")).options["gpus"] == "8"


def test_variables_of_a_shell_in_a_shell_count(tmp_path: Path) -> None:
    words = "swift sft --model Qwen/Qwen3-4B --torch_dtype bfloat16 --max_length 512"
    found = read(tmp_path, f'docker exec box bash -lc "NPROC_PER_NODE=4 {words}"\n')
    assert found.options["gpus"] == "4"


def test_keys_that_mindspeed_repeats_need_not_divide(tmp_path: Path) -> None:
    """Its all-to-all repeats keys of few heads; Megatron-LM's does not."""
    words = f"{GPT} --group-query-attention --num-query-groups 2 --context-parallel-size 4"
    mine = f"{words} --context-parallel-algo ulysses_cp_algo --use-fused-rmsnorm"
    assert read(tmp_path, f"torchrun --nproc_per_node 8 pretrain_gpt.py {mine}\n").lifted == (
        "cp-divides-heads",
    )
    plain = f"{words} --cp-comm-type a2a"
    assert read(tmp_path, f"torchrun --nproc_per_node 8 pretrain_gpt.py {plain}\n").lifted == ()


def test_a_teacher_beside_the_model_is_a_fault(tmp_path: Path) -> None:
    """Megatron-DeepSpeed's distillation was priced as plain training."""
    words = (
        f"{GPT} --kd --kd-beta-ce 1 --num-layers-teacher 4 --hidden-size-teacher 512 --load-teacher /data/t"
    )
    found = read(tmp_path, f"torchrun --nproc_per_node 8 pretrain_gpt.py {words}\n")
    assert [problem.found for _, problem in found.faults] == ["a teacher beside the model"]
    assert found.unknown == ()


@every("name", ["models/LlamaMoEForCausalLM/llama2_7B-scaled", "llama2_7B-16Select4-688Neurons"])
def test_experts_made_of_a_known_model_are_another_one(name: str, tmp_path: Path) -> None:
    words = f"--model_name_or_path {name} --per_device_train_batch_size 1 --max_seq_length 512 --bf16"
    faults = read(tmp_path, f"torchrun --nproc_per_node 8 train.py {words}\n").faults
    assert [option for option, _ in faults] == ["model"]
    known = read(
        tmp_path, f"torchrun --nproc_per_node 8 train.py {words.replace(name, 'gpt2')} --num_selects 4\n"
    )
    assert [problem.where.rpartition(": ")[2] for _, problem in known.faults] == ["num_selects"]


def test_a_flavor_that_no_registry_has_is_named(tmp_path: Path) -> None:
    text = '[model]\nname = "llama3"\nflavor = "1B"\n[training]\nlocal_batch_size = 1\nseq_len = 8192\n'
    found = read(tmp_path, text, "train.toml")
    assert any("llama3 1B" in note and "MODEL" in note for note in found.notes)
    assert read(
        tmp_path, text.replace('llama3"', 'llama2"').replace("1B", "7B"), "train.toml"
    ).model_name == ("llama2-7b")


@every(
    ("words", "wanted"),
    [
        ("--attn_implementation eager", True),
        ("--attn_implementation sdpa", False),
        ("--attn_implementation flash_attention_2", False),
        ("", False),
    ],
)
def test_scores_that_eager_attention_keeps_are_priced(words: str, wanted: bool, tmp_path: Path) -> None:
    text = "--model_name_or_path gpt2 --per_device_train_batch_size 1 --max_seq_length 512 --bf16"
    found = read(tmp_path, f"torchrun --nproc_per_node 8 sft.py {text} {words}\n")
    assert ("attention=unfused" in found.changes) is wanted


def test_a_loss_without_whole_logits_is_told(tmp_path: Path) -> None:
    text = "base_model: gpt2\nmicro_batch_size: 1\nsequence_len: 512\ndatasets: []\n"
    text += "plugins: [axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin]\n"
    found = read(tmp_path, text, "sft.yaml")
    assert any(note.startswith("cut_cross_entropy") for note in found.notes)
    eager = read(tmp_path, f"{text}eager_attention: true\n", "sft.yaml")
    assert "attention=unfused" in eager.changes


BRIDGE = """
model: {tensor_model_parallel_size: 1, pipeline_model_parallel_size: 1, context_parallel_size: 1,
  expert_model_parallel_size: 4, expert_tensor_parallel_size: 1, moe_flex_dispatcher_backend: null}
train: {global_batch_size: 64, micro_batch_size: 1}
dataset: {seq_length: 4096}
"""


def test_changes_of_a_bridge_recipe_keep_their_expert_degree(tmp_path: Path) -> None:
    """It was asked for although the file says it, since the recipe alone has the number of experts."""
    found = read(tmp_path, BRIDGE, "changes.yaml")
    assert found.options["ep"] == "4"
    assert "ep" not in [option for option, _ in found.faults]


TUNE = """
# tune run --nnodes 1 --nproc_per_node 4 full_finetune_distributed --config llama3_1/train
model: {_component_: torchtune.models.llama3_1.llama3_1_8b}
tokenizer: {max_seq_len: 2048}
dataset: {packed: true}
optimizer: {_component_: torch.optim.AdamW, fused: true}
loss: {_component_: torchtune.modules.loss.LinearCrossEntropyLoss}
batch_size: 2
gradient_accumulation_steps: 8
dtype: bf16
enable_activation_checkpointing: true
compile: false
"""


def test_a_torchtune_file_is_read(tmp_path: Path) -> None:
    found = read(tmp_path, TUNE, "train.yaml")
    wanted = {"gpus": "4", "zero": "3", "micro_batch": "2", "accumulation": "8", "recompute": "full"}
    assert found.options.items() >= (wanted | {"seq_len": "2048", "master_dtype": "bf16"}).items()
    assert (found.runtime, found.model_name, found.faults, found.unknown) == ("fsdp", "llama3.1-8b", (), ())
    assert "allocator=growing" in found.changes


def test_adapters_and_single_devices_of_torchtune(tmp_path: Path) -> None:
    model = "torchtune.models.qwen2_5.qlora_qwen2_5_7b_instruct, lora_rank: 16, apply_lora_to_mlp: true"
    text = TUNE.replace("torchtune.models.llama3_1.llama3_1_8b", model).replace("# tune", "# ")
    found = read(tmp_path, text, "7B_single_device.yaml")
    wanted = {"gpus": "1", "zero": "0", "method": "qlora", "lora_rank": "16", "lora_targets": "qkv+fc1+fc2"}
    assert found.options.items() >= wanted.items()
    assert found.model_name == "qwen2.5-7b"


@every(
    "line",
    [
        "optimizer_in_bwd: true",
        "enable_activation_offloading: true",
        "quantizer: {_component_: torchtune.training.quantization.Int8DynActInt4WeightQATQuantizer}",
        "loss: {_component_: torchtune.rlhf.loss.DPOLoss}",
    ],
)
def test_what_torchtune_keeps_otherwise_is_a_fault(line: str, tmp_path: Path) -> None:
    key = line.partition(":")[0]
    kept = "\n".join(row for row in TUNE.splitlines() if not row.startswith(f"{key}:"))
    ((_, problem),) = read(tmp_path, f"{kept}\n{line}\n", "train.yaml").faults
    assert key in problem.where


def test_a_torchtune_command_is_read(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(TUNE, encoding="utf-8")
    words = "full_finetune_distributed --config mine.yaml batch_size=4 tokenizer.max_seq_len=512"
    text = f"tune run --nproc_per_node 8 {words}\n"
    found = read(tmp_path, text)
    wanted = {"gpus": "8", "micro_batch": "4", "seq_len": "512"}
    assert found.options.items() >= wanted.items()
    assert found.unknown == ()
    with pytest.raises(InputError, match="no training command"):
        read(tmp_path, "tune run eleuther_eval --config mine.yaml\n")


LIT = """
checkpoint_dir: checkpoints/meta-llama/Llama-2-7b-hf
precision: bf16-true
devices: 1
num_nodes: 1
lora_r: 32
lora_value: true
lora_mlp: true
train: {global_batch_size: 6, micro_batch_size: 4, max_seq_length: 512}
optimizer: {class_path: torch.optim.AdamW, init_args: {lr: 0.0002}}
"""


def test_adapters_of_litgpt_are_read(tmp_path: Path) -> None:
    """One device has no recompute; of six sequences one whole pass of four runs."""
    found = read(tmp_path, LIT, "lora.yaml")
    wanted = {"gpus": "1", "zero": "0", "recompute": "none", "accumulation": "1", "lora_rank": "32"}
    assert found.options.items() >= (wanted | {"lora_targets": "qkv+fc1+fc2"}).items()
    assert (found.model_name, found.faults, found.unknown) == ("llama2-7b", (), ())
    assert any("4 run" in note for note in found.notes)


def test_whole_weights_of_litgpt_are_sharded_over_several_devices(tmp_path: Path) -> None:
    text = "\n".join(line for line in LIT.splitlines() if not line.startswith("lora_"))
    found = read(tmp_path, text.replace("devices: 1", "devices: 4"), "full.yaml")
    wanted = {"gpus": "4", "zero": "3", "recompute": "full", "master_dtype": "bf16"}
    assert found.options.items() >= wanted.items()
    fresh = text.replace(
        "checkpoint_dir: checkpoints/meta-llama/Llama-2-7b-hf", "model_name: tiny-llama-1.1b"
    )
    fresh = fresh.replace("devices: 1", "devices: 8").replace("num_nodes: 1", "num_nodes: 2")
    found = read(tmp_path, fresh.replace("bf16-true", "bf16-mixed"), "pretrain.yaml")
    wanted = {"gpus": "16", "zero_shards": "8", "recompute": "none"}
    assert found.options.items() >= wanted.items()
    assert "master_dtype" not in found.options


def test_a_litgpt_command_names_its_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "lora.yaml").write_text(LIT, encoding="utf-8")
    words = "litgpt finetune_lora checkpoints/google/gemma-2b --config lora.yaml --train.micro_batch_size 2"
    found = read(tmp_path, f"{words}\n")
    assert (found.model_name, found.options["micro_batch"]) == ("gemma-2b", "2")


NEOX = """
{"pipe-parallel-size": 2, "model-parallel-size": 2, "num-layers": 24, "hidden-size": 2048,
 "num-attention-heads": 16, "seq-length": 2048, "max-position-embeddings": 2048, "pos-emb": "rotary",
 "rotary-pct": 0.25, "no-weight-tying": true, "gpt-j-residual": true,
 "attention-config": [[["flash"], 24]], "train_micro_batch_size_per_gpu": 4,
 "gradient_accumulation_steps": 8, "optimizer": {"type": "Adam", "params": {"lr": 0.0002}},
 "zero_optimization": {"stage": 1}, "checkpoint-activations": true, "partition-activations": true,
 "fp16": {"enabled": true}, "min-lr": 0.00002, "tokenizer_type": "HFTokenizer"}
"""


def test_a_neox_file_is_read(tmp_path: Path) -> None:
    found = read(tmp_path, NEOX, "1-4B.yml")
    wanted = {"tp": "2", "pp": "2", "zero": "1", "micro_batch": "4", "accumulation": "8", "precision": "fp16"}
    assert found.options.items() >= (wanted | {"recompute": "full"}).items()
    assert (found.model_name, found.faults, found.unknown) == ("pythia-1.4b", (), ())


def test_a_gated_width_of_neox_is_a_third(tmp_path: Path) -> None:
    more = '"activation": "swiglu", "intermediate_size": 32768, "use_bias_in_mlp": false, "fp16"'
    found = read(tmp_path, NEOX.replace('"fp16"', more), "gated.yml")
    assert found.model is not None
    ffn = found.model.blocks[found.model.layers[0]].ffn
    assert (ffn.inner, ffn.gated, ffn.bias) == (11008, True, False)


@every(
    ("was", "now", "key"),
    [
        ('[[["flash"], 24]]', '[[["mamba"], 24]]', "attention_config"),
        ('"rotary",', '"rpe",', "pos_emb"),
        ('"Adam"', '"OneBitAdam"', "optimizer.type"),
        ('"gpt-j-residual"', '"moe_num_experts": 8, "gpt-j-residual"', "moe_num_experts"),
    ],
)
def test_what_neox_has_alone_is_a_fault(was: str, now: str, key: str, tmp_path: Path) -> None:
    places = [problem.where for _, problem in read(tmp_path, NEOX.replace(was, now), "other.yml").faults]
    assert any(place.endswith(key) for place in places)


@every(
    ("text", "title"),
    [("apiVersion: v1\nkind: Job\n", "Kubernetes"), ("actor_rollout_ref: {}\n", "verl"),
     ("display_name: x\ninstance_types: []\n", "HyperPod"), ("parallel: {fsdp_size: 8}\n", "MindSpeed-LLM")],
)  # fmt: skip
def test_a_file_of_a_tool_that_is_not_read_is_called_so(text: str, title: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"{title}.*which is not read"):
        read(tmp_path, text, "other.yaml")
