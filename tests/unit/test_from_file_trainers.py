"""Files of LLaMA-Factory, Axolotl, TRL, the Trainer, ms-swift and xtuner, and what of them is refused."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import InputError
from planner.runtimes.imports.dispatch import read_runner_file
from planner.runtimes.imports.hub import known_name
from planner.runtimes.imports.sheet import Imported
from tests.cases import every
from tests.cli.command import planner
from tests.texts import LETTERS

ZERO_3 = {
    "bf16": {"enabled": "auto"},
    "zero_optimization": {"stage": 3, "overlap_comm": True},
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "train_batch_size": "auto",
}
"""A DeepSpeed file that leaves to the Trainer what the Trainer is told."""

FACTORY = """\
model_name_or_path: Qwen/Qwen2.5-7B-Instruct
stage: sft
do_train: true
finetuning_type: full
template: qwen
cutoff_len: 4096
packing: true
per_device_train_batch_size: 2
gradient_accumulation_steps: 4
bf16: true
learning_rate: 1.0e-5
"""

AXOLOTL = """\
base_model: NousResearch/Meta-Llama-3-8B
datasets:
  - path: ours
    type: alpaca
sequence_len: 8192
sample_packing: true
micro_batch_size: 2
gradient_accumulation_steps: 4
bf16: auto
optimizer: adamw_torch_fused
gradient_checkpointing: true
num_epochs: 1
"""

SWIFT = """\
swift sft --model Qwen/Qwen2.5-7B-Instruct --torch_dtype bfloat16 --dataset ours#500 \\
    --per_device_train_batch_size 1 --gradient_accumulation_steps $(expr 16 / $n) --max_length 2048 \\
"""

XTUNER = """\
from xtuner.model import SupervisedFinetune
from torch.optim import AdamW
pretrained_model_name_or_path = "meta-llama/Llama-2-7b-hf"
max_length = 4096
pack_to_max_length = True
sequence_parallel_size = 2
batch_size = 1
accumulative_counts = 8
accumulative_counts *= sequence_parallel_size
optim_type = AdamW
model = dict(
    type=SupervisedFinetune,
    llm=dict(type=load, quantization_config=dict(type=Bits, load_in_4bit=True)),
    lora=dict(type=LoraConfig, r=64, lora_alpha=16),
)
optim_wrapper = dict(type=AmpOptimWrapper, accumulative_counts=accumulative_counts, dtype="bfloat16")
"""


def read(folder: Path, name: str, text: str, **files: object) -> Imported:
    """Write a file with others beside it, and return what is read of it."""
    for other, content in files.items():
        path = folder / other.replace("__", ".")
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return read_runner_file(path)


def faults(found: Imported) -> dict[str, str]:
    """Return the option that lifts each fault, by the key where it stands."""
    return {problem.where.rpartition(": ")[2]: option for option, problem in found.faults}


def test_llama_factory_with_a_deepspeed_file(tmp_path: Path) -> None:
    found = read(tmp_path, "sft.yaml", FACTORY + "deepspeed: ds.json\n", ds__json=ZERO_3)
    assert (found.runtime, found.model_name, found.unknown) == ("deepspeed", "qwen2.5-7b", ())
    expected = {
        "zero": "3",
        "micro_batch": "2",
        "accumulation": "4",
        "seq_len": "4096",
        "precision": "bf16",
        "optimizer": "adamw",
        "recompute": "full",
    }
    assert dict(found.options) == expected
    assert faults(found) == {"number of processes": "gpus"}


def test_the_launcher_says_how_many(tmp_path: Path) -> None:
    script = "FORCE_TORCHRUN=1 NNODES=2 NPROC_PER_NODE=8 llamafactory-cli train sft.yaml cutoff_len=1024\n"
    found = read(tmp_path, "run.sh", script, sft__yaml=FACTORY)
    assert (found.options["gpus"], found.options["seq_len"], found.options["zero"]) == ("16", "1024", "0")
    assert not found.faults


def test_the_command_in_a_comment_lays_a_file_out(tmp_path: Path) -> None:
    told = "# Start it so:\n# accelerate launch \\\n#     --config_file fsdp.yaml \\\n"
    told += "#     src/train.py sft.yaml\n"
    fsdp = "distributed_type: FSDP\nnum_processes: 16\nmixed_precision: bf16\nfsdp_config:\n"
    fsdp += "  fsdp_version: 2\n  fsdp_reshard_after_forward: false\n"
    found = read(tmp_path, "sft.yaml", told + FACTORY, fsdp__yaml=fsdp)
    assert (found.options["zero"], found.options["gpus"], found.faults) == ("2", "16", ())


def test_llama_factory_adapters_and_quantised_base(tmp_path: Path) -> None:
    text = FACTORY.replace("full", "lora") + "lora_rank: 32\nlora_target: q_proj,k_proj,v_proj,o_proj\n"
    found = read(tmp_path, "sft.yaml", text + "quantization_bit: 4\ndisable_gradient_checkpointing: true\n")
    said = {name: found.options[name] for name in ("method", "lora_rank", "lora_targets", "recompute")}
    assert said == {"method": "qlora", "lora_rank": "32", "lora_targets": "qkv+proj", "recompute": "none"}
    assert faults(read(tmp_path, "8.yaml", text + "quantization_bit: 8\n"))["quantization_bit"] == "method"


@every(
    ("line", "key", "option"),
    [
        ("stage: dpo", "stage", ""),
        ("do_train: false", "do_train", ""),
        ("finetuning_type: freeze", "finetuning_type", "method"),
        ("use_galore: true", "use_galore", ""),
        ("tensor_model_parallel_size: 1", "tensor_model_parallel_size", ""),
        ("model_name_or_path: nobody/knows-it", "model_name_or_path", "model"),
        ("deepspeed: nowhere.json", "deepspeed", "zero"),
        ("optim: adafactor", "optim", "optimizer"),
        ("fp16: true", "fp16", "precision"),
    ],
)
def test_what_is_not_priced_is_a_fault(tmp_path: Path, line: str, key: str, option: str) -> None:
    kept = [old for old in FACTORY.splitlines() if old.partition(":")[0] != line.partition(":")[0]]
    found = read(tmp_path, "sft.yaml", "\n".join([*kept, line]))
    assert faults(found)[key] == option
    assert all(problem.expected for _, problem in found.faults)


def test_axolotl_without_sharding_keeps_no_float32(tmp_path: Path) -> None:
    found = read(tmp_path, "fft.yaml", AXOLOTL)
    assert (found.runtime, found.model_name) == ("fsdp", "llama3-8b")
    kinds = {name: found.options[f"{name}_dtype"] for name in ("state", "master", "gradient")}
    assert kinds == {"state": "bf16", "master": "bf16", "gradient": "bf16"}
    sharded = read(
        tmp_path, "two.yaml", AXOLOTL + "fsdp_version: 2\nfsdp_config:\n  reshard_after_forward: true\n"
    )
    assert sharded.options["zero"] == "3"
    assert "master_dtype" not in sharded.options


@every("optimizer", ["adamw_bnb_8bit", "muon", "lion_pytorch"])
def test_what_only_our_own_script_lacks_is_no_refusal(tmp_path: Path, optimizer: str) -> None:
    """The library's Trainer has optimizers that the planner's files for FSDP have not."""
    lines = [line for line in AXOLOTL.splitlines() if not line.startswith("optimizer:")]
    (tmp_path / "a.yaml").write_text("\n".join([*lines, f"optimizer: {optimizer}", ""]))
    ask = ("--hardware", "dgx-h100", "--gpus", "64", "--format", "json")
    done = planner("estimate", "--from", str(tmp_path / "a.yaml"), *ask)
    assert (done.json["violations"], done.json["feasible"]) == ([], done.code == 0)


def test_axolotl_mesh(tmp_path: Path) -> None:
    mesh = "dp_replicate_size: 2\ndp_shard_size: 2\ncontext_parallel_size: 2\ntensor_parallel_size: 2\n"
    found = read(tmp_path, "mesh.yaml", AXOLOTL + mesh + "fsdp_config:\n  reshard_after_forward: false\n")
    said = {
        name: found.options[name] for name in ("gpus", "dp", "cp", "tp", "zero", "zero_shards", "cp_method")
    }
    assert said == {
        "gpus": "16",
        "dp": "4",
        "cp": "2",
        "tp": "2",
        "zero": "2",
        "zero_shards": "4",
        "cp_method": "all-gather",
    }
    assert not found.faults


@every(
    ("line", "key"),
    [
        ("load_in_8bit: true\nadapter: lora", "load_in_8bit"),
        ("gradient_checkpointing: offload", "gradient_checkpointing"),
        ("rl: dpo", "rl"),
        ("qat:\n  weight_dtype: int4", "qat"),
        ("expert_parallel_size: 4", "expert_parallel_size"),
        ("adapter: lora\nlora_modules_to_save: [router]", "lora_modules_to_save"),
        ("adapter: lora\nlora_target_modules: [router]", "lora_target_modules"),
    ],
)
def test_axolotl_what_is_not_priced_is_a_fault(tmp_path: Path, line: str, key: str) -> None:
    kept = [old for old in AXOLOTL.splitlines() if old.partition(":")[0] != line.partition(":")[0]]
    assert key in faults(read(tmp_path, "x.yaml", "\n".join([*kept, line])))


def test_axolotl_targets_of_a_regular_expression(tmp_path: Path) -> None:
    text = (
        AXOLOTL
        + "adapter: qlora\nlora_r: 16\nlora_target_modules: 'layers.[\\d]+.(mlp|self_attn).(up|down)_proj'\n"
    )
    found = read(tmp_path, "x.yaml", text)
    assert (found.options["method"], found.options["lora_targets"]) == ("qlora", "fc1+fc2")


TRAINER = "run_clm.py --model_name_or_path openai-community/gpt2-xl --block_size 1024 --bf16 --output_dir out"


@every(
    ("command", "runtime", "zero", "gpus"),
    [
        (f"torchrun --nproc_per_node 4 {TRAINER} --per_device_train_batch_size 8", "fsdp", "0", "4"),
        (
            f"torchrun --nproc_per_node 4 --nnodes 2 {TRAINER} --per_device_train_batch_size 8 "
            '--fsdp "full_shard auto_wrap"',
            "fsdp",
            "3",
            "8",
        ),
        (
            f"deepspeed --num_gpus=2 {TRAINER} --per_device_train_batch_size 8 --deepspeed ds.json",
            "deepspeed",
            "3",
            "2",
        ),
        (
            "accelerate launch --num_processes 8 --use_fsdp --fsdp_sharding_strategy SHARD_GRAD_OP "
            f"{TRAINER} --per_device_train_batch_size=8",
            "fsdp",
            "2",
            "8",
        ),
    ],
)
def test_the_trainers_arguments(tmp_path: Path, command: str, runtime: str, zero: str, gpus: str) -> None:
    found = read(tmp_path, "run.sh", command + "\n", ds__json=ZERO_3)
    said = {name: found.options[name] for name in ("zero", "gpus", "micro_batch", "accumulation", "seq_len")}
    assert said == {"zero": zero, "gpus": gpus, "micro_batch": "8", "accumulation": "1", "seq_len": "1024"}
    assert (found.runtime, found.model_name, found.options["recompute"]) == (runtime, "gpt2-xl", "none")
    assert not found.faults


def test_a_deepspeed_file_that_says_another_batch_is_a_fault(tmp_path: Path) -> None:
    command = f"deepspeed --num_gpus=2 {TRAINER} --per_device_train_batch_size 8 --deepspeed ds.json\n"
    found = read(tmp_path, "run.sh", command, ds__json=ZERO_3 | {"train_micro_batch_size_per_gpu": 4})
    assert faults(found) == {"train_micro_batch_size_per_gpu": "micro_batch"}


def test_buffers_that_the_trainer_sizes_by_the_model(tmp_path: Path) -> None:
    sizes = {"stage": 3, "reduce_bucket_size": "auto", "stage3_prefetch_bucket_size": "auto"}
    command = f"deepspeed --num_gpus=2 {TRAINER} --per_device_train_batch_size 8 --deepspeed ds.json\n"
    found = read(tmp_path, "run.sh", command, ds__json=ZERO_3 | {"zero_optimization": sizes})
    assert found.changes == (
        "bucket_elements=2560000",
        "prefetch_elements=2304000",
    )  # 1600 x 1600, and 0.9 of it
    assert not any("auto" in note for note in found.notes)


def test_of_several_commands_the_last_is_read_and_that_is_told(tmp_path: Path) -> None:
    one = f"torchrun --nproc_per_node 4 {TRAINER} --per_device_train_batch_size"
    found = read(tmp_path, "run.sh", f"{one} 2\n{one} 4 --sharded_ddp zero_dp_2\n")
    assert (found.options["micro_batch"], faults(found)) == ("4", {"sharded_ddp": "zero"})
    assert "2 commands train: the last is read" in found.notes


def test_trl_with_an_accelerate_file(tmp_path: Path) -> None:
    launch = (
        "accelerate launch --config_file zero2.yaml scripts/sft.py --config recipe.yaml --max_length 2048\n"
    )
    accelerate = "distributed_type: DEEPSPEED\nnum_processes: 8\nmixed_precision: bf16\n"
    accelerate += "deepspeed_config:\n  zero_stage: 2\n"
    recipe = "model_name_or_path: Qwen/Qwen3-8B\ndataset_name: ours\nmax_length: 8192\n"
    recipe += "packing: true\nuse_peft: true\n"
    found = read(tmp_path, "run.sh", launch, zero2__yaml=accelerate, recipe__yaml=recipe)
    expected = {
        "zero": "2",
        "gpus": "8",
        "micro_batch": "8",
        "accumulation": "1",
        "seq_len": "2048",
        "recompute": "full",
        "method": "lora",
        "lora_rank": "16",
        "lora_targets": "qkv",
        "precision": "bf16",
        "optimizer": "adamw",
    }
    assert (found.runtime, dict(found.options), found.faults) == ("deepspeed", expected, ())


def test_a_recipe_alone_leaves_the_layout_to_its_launcher(tmp_path: Path) -> None:
    recipe = "model_name_or_path: Qwen/Qwen3-8B\ndataset_name: ours\nmax_length: 8192\nlearning_rate: 1e-5\n"
    assert faults(read(tmp_path, "r.yaml", recipe)) == {"layout": "zero", "number of processes": "gpus"}


def test_swift_counts_processes_and_devices(tmp_path: Path) -> None:
    found = read(
        tmp_path, "a.sh", f"n=4\nCUDA_VISIBLE_DEVICES=0,1,2,3 NPROC_PER_NODE=$n {SWIFT} --deepspeed zero2\n"
    )
    said = {
        name: found.options[name]
        for name in ("gpus", "zero", "accumulation", "method", "lora_rank", "recompute")
    }
    assert said == {
        "gpus": "4",
        "zero": "2",
        "accumulation": "4",
        "method": "lora",
        "lora_rank": "8",
        "recompute": "full",
    }
    assert not found.faults
    spread = read(tmp_path, "b.sh", f"n=2\nCUDA_VISIBLE_DEVICES=0,1,2,3 NPROC_PER_NODE=$n {SWIFT}\n")
    assert faults(spread) == {"CUDA_VISIBLE_DEVICES": ""}


TUNED = "--model_name_or_path Qwen/Qwen3-8B --dataset_name ours --per_device_train_batch_size 1 --bf16"
TRL = f"accelerate launch --num_processes 8 scripts/sft.py {TUNED} --use_peft"
OWN = f"torchrun --nproc_per_node 8 train.py {TUNED} --model_max_length 512 --use_lora"


@every(
    ("said", "loads"),
    [("", True), ("--dtype float32", True), ("--dtype bfloat16", False), ("--dtype auto", False)],
)
def test_trl_loads_a_frozen_base_in_fp32_unless_told(tmp_path: Path, said: str, loads: bool) -> None:
    """``ModelConfig.dtype``: 32 GB of an 8B base, not 16."""
    found = read(tmp_path, "run.sh", f"{TRL} {said}\n")
    assert ("base_dtype=fp32" in found.changes) == loads
    assert any("float32" in note for note in found.notes) == loads
    sharded = read(tmp_path, "run.sh", f"{TRL} {said} --deepspeed ds.json\n", ds__json=ZERO_3)
    assert (sharded.runtime, "base_dtype=fp32" in sharded.changes) == ("deepspeed", False)


@every(
    ("command", "drops"),
    [
        (SWIFT, True), (f"{SWIFT} --lora_dropout 0", False), (TRL, True),
        (f"{TRL} --lora_dropout 0.0", False), (OWN, False), (f"{OWN} --lora_dropout 0.1", True),
    ],
)  # fmt: skip
def test_dropout_of_adapters_is_read_with_each_librarys_default(
    command: str, drops: bool, tmp_path: Path
) -> None:
    """``TunerArguments`` of ms-swift and ``ModelConfig`` of TRL have 0.05, peft has none."""
    found = read(tmp_path, "run.sh", f"n=1\n{command}\n")
    assert ("adapter_dropout=true" in found.changes) == drops


@every("share", ["0.05", "0.0", "1/2", "2", "-0.1"])
def test_dropout_of_adapters_in_a_file(share: str, tmp_path: Path) -> None:
    found = read(
        tmp_path, "a.yaml", f"{AXOLOTL}adapter: lora\nlora_target_linear: true\nlora_dropout: {share}\n"
    )
    assert ("adapter_dropout=true" in found.changes) == (share == "0.05")
    assert ("lora_dropout" in faults(found)) == (share not in ("0.05", "0.0"))


def test_swift_megatron_has_the_named_model_and_its_own_defaults(tmp_path: Path) -> None:
    command = (
        "NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-30B-A3B-Instruct-2507 --micro_batch_size 2 "
        "--expert_model_parallel_size 4 --pipeline_model_parallel_size 2 --sequence_parallel true "
        "--global_batch_size 32 "
        "--recompute_granularity full --recompute_method uniform --recompute_num_layers 1 --max_length 4096 "
        "--lr 1e-5 --moe_aux_loss_coeff 1e-3 --overlap_grad_reduce false\n"
    )
    found = read(tmp_path, "m.sh", command)
    assert (found.runtime, found.model_name, found.faults) == ("megatron-lm", "qwen3-30b-a3b", ())
    expected = {
        "gpus": "8",
        "ep": "4",
        "etp": "1",
        "pp": "2",
        "stage_layers": "24,24",
        "zero": "1",
        "recompute": "full",
        "precision": "bf16",
        "seq_len": "4096",
        "micro_batch": "2",
        "global_batch": "32",
    }
    assert {name: found.options[name] for name in expected} == expected
    adapted = read(tmp_path, "l.sh", command.replace("--lr", "--tuner_type lora --lr"))
    assert (adapted.runtime, adapted.options["method"]) == ("megatron-bridge", "lora")


def test_adapters_of_xtuner_alone_start_as_its_launcher_does(tmp_path: Path) -> None:
    alone = read(
        tmp_path, "config.py", XTUNER.replace("sequence_parallel_size = 2", "sequence_parallel_size = 1")
    )
    assert (alone.options["zero"], alone.options["method"]) == ("0", "qlora")
    assert any("--deepspeed of stage N" in note for note in alone.notes)
    whole = XTUNER.replace("    lora=dict(type=LoraConfig, r=64, lora_alpha=16),\n", "")
    assert "layout" in faults(read(tmp_path, "config.py", whole))


def test_xtuner_is_read_without_being_run(tmp_path: Path) -> None:
    launch = "NPROC_PER_NODE=8 xtuner train config.py --deepspeed deepspeed_zero2\n"
    found = read(tmp_path, "run.sh", launch, config__py=XTUNER)
    expected = {
        "zero": "2",
        "gpus": "8",
        "micro_batch": "1",
        "accumulation": "16",
        "seq_len": "4096",
        "cp": "2",
        "cp_method": "all-to-all",
        "precision": "bf16",
        "optimizer": "adamw",
        "recompute": "full",
        "method": "qlora",
        "lora_rank": "64",
    }
    assert (found.model_name, dict(found.options), found.faults) == ("llama2-7b", expected, ())
    eight = XTUNER.replace("load_in_4bit", "load_in_8bit")
    assert faults(read(tmp_path, "eight.py", eight))["quantization_config"] == "method"


def test_deepspeed_chat_takes_the_defaults_that_conditions_set(tmp_path: Path) -> None:
    script = (
        'STAGE=$1\nif [ "$STAGE" == "" ]; then\n    STAGE=3\nfi\n'
        "deepspeed --num_gpus 8 main.py --model_name_or_path meta-llama/Llama-2-7b-hf --max_seq_len 512 "
        "--per_device_train_batch_size 4 --gradient_checkpointing --zero_stage $STAGE --deepspeed\n"
    )
    found = read(tmp_path, "run.sh", script)
    said = {name: found.options[name] for name in ("zero", "gpus", "micro_batch", "precision", "recompute")}
    assert said == {"zero": "3", "gpus": "8", "micro_batch": "4", "precision": "fp16", "recompute": "full"}
    assert (found.runtime, found.faults) == ("deepspeed", ())


@every(
    ("name", "known"),
    [
        ("meta-llama/Meta-Llama-3.1-8B-Instruct", "llama3.1-8b"),
        ("unsloth/Llama-3.2-1B", "llama3.2-1b"),
        ("/models/Qwen2.5-7B-Instruct/", "qwen2.5-7b"),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", "mixtral-8x7b"),
        ("mistralai/Mistral-7B-Instruct-v0.1", "mistral-7b-v0.1"),  # a window that v0.3 has not
        ("internlm/internlm2-chat-1_8b-sft", "internlm2-1.8b"),
        ("facebook/opt-350m", None),  # norms after its layers, and a narrower embedding
        ("baichuan-inc/Baichuan2-7B-Chat", "baichuan2-7b"),
        ("openbmb/MiniCPM-2B-sft-bf16", "minicpm-2b"),
        ("/path/to/hf_llama_7b/", "llama-7b"),
        ("bigscience/bloomz-7b1-mt", "bloom-7b1"),
        ("gradientai/Llama-3-8B-Instruct-262k", None),
        ("Qwen/Qwen3-VL-8B-Instruct", "qwen3-vl-8b"),
        ("Qwen/Qwen2.5-Omni-3B", None),
        ("Qwen/Qwen2.5-7B-Instruct-AWQ", None),
    ],
)
def test_names_of_the_hub(name: str, known: str | None) -> None:
    assert known_name(name) == known


def test_a_command_that_names_no_file_there_is_refused_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read(tmp_path, "run.sh", "llamafactory-cli train nowhere.yaml\n")


ODD = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(LETTERS, max_size=20)
    | st.just("${NAME}"),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(LETTERS, max_size=5), inner, max_size=2)
    ),
    max_leaves=4,
)
KEYS = (
    "model_name_or_path", "base_model", "model", "deepspeed", "fsdp", "fsdp_config", "optim",
    "optimizer", "lora_rank", "lora_target", "lora_target_modules", "adapter", "bf16", "fp16",
    "gradient_checkpointing", "cutoff_len", "stage", "quantization_bit", "dp_shard_size",
    "context_parallel_size", "micro_batch_size", "finetuning_type", "modules", "tuner_type",
    "max_length", "MODEL_ARGS", "per_device_train_batch_size", "ray_num_workers",
)  # fmt: skip


@settings(deadline=None, max_examples=150)
@given(
    kind=st.sampled_from(
        (
            {"model_name_or_path": "gpt2", "stage": "sft", "cutoff_len": 512, "finetuning_type": "lora"},
            {"base_model": "gpt2", "adapter": "lora", "sequence_len": 512, "datasets": []},
            {"model_name_or_path": "gpt2", "packing": True, "learning_rate": 1e-4, "use_peft": True},
            {"model": "gpt2", "tuner_type": "lora", "torch_dtype": "bfloat16", "dataset": "ours"},
            {"model": "gpt2", "micro_batch_size": 1, "max_length": 512, "dataset": "ours"},
            {"modules": {"pre_trainer": {"framework": "megatron", "overrides": {"seq_length": 512}}}},
            {"MODEL_ARGS": {"--num-layers": 2, "--hidden-size": 64}},
        )
    ),
    changes=st.dictionaries(st.sampled_from(KEYS), ODD, max_size=4),
)
def test_odd_values_end_in_messages(
    tmp_path_factory: pytest.TempPathFactory, kind: dict[str, Any], changes: dict[str, Any]
) -> None:
    path = tmp_path_factory.mktemp("odd") / "job.json"
    path.write_text(json.dumps({**kind, **changes}), encoding="utf-8")
    with contextlib.suppress(InputError):
        read_runner_file(path).checked()


def test_names_in_folders_of_modelscope_and_presets_of_swift_are_known(tmp_path: Path) -> None:
    assert known_name("/models/Qwen2___5-3B-Instruct") == "qwen2.5-3b"
    assert known_name("deepseek-ai/deepseek-coder-6.7b-instruct") == "deepseek-coder-6.7b"
    text = SWIFT.replace("Qwen/Qwen2.5-7B-Instruct", "/models/Qwen2___5-7B-Instruct")
    path = tmp_path / "run.sh"
    path.write_text(text.rstrip().rstrip("\\") + " --deepspeed default-zero3\n", encoding="utf-8")
    found = read_runner_file(path)
    assert (found.model_name, found.options["zero"]) == ("qwen2.5-7b", "3")


@every("line", ["fsdp: full_shard offload", "fsdp_config: {offload_params: true}"])
def test_parameters_that_fsdp_keeps_on_the_host_are_priced_there(tmp_path: Path, line: str) -> None:
    found = read(tmp_path, "sft.yaml", f"{FACTORY}{line}\n")
    assert (found.runtime, found.options["offload"], found.options["zero"]) == ("fsdp", "weights", "3")


def test_deepspeed_takes_names_of_stage_3_without_their_prefix(tmp_path: Path) -> None:
    """``DeepSpeedConfigModel`` has ``populate_by_name`` (deepspeed/runtime/config_utils.py)."""
    tree = {**ZERO_3, "zero_optimization": {"stage": 3, "max_live_parameters": 500_000_000}}
    path = tmp_path / "ds.json"
    path.write_text(json.dumps(tree), encoding="utf-8")
    found = read_runner_file(path)
    assert "live_elements=5e+08" in found.changes
    assert not [fault for _, fault in found.faults if "max_live" in fault.where]


def test_an_encoder_of_images_is_frozen_unless_told(tmp_path: Path) -> None:
    """LLaMA-Factory, hparams/model_args.py: ``freeze_vision_tower`` is true by default."""
    seeing = FACTORY.replace("Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-VL-7B-Instruct")
    keys = "image_max_pixels: 262144\nfreeze_multi_modal_projector: true\nenable_liger_kernel: true\n"
    found = read(tmp_path, "v.yaml", seeing + keys)
    assert (found.model_name, found.options["freeze_encoder"], found.unknown) == ("qwen2.5-vl-7b", "true", ())
    assert any("Liger" in note for note in found.notes)
    learns = read(tmp_path, "p.yaml", seeing + "freeze_multi_modal_projector: false\n").options
    assert (learns["freeze_encoder"], learns["train_projector"]) == ("true", "true")
    assert "train_projector" not in found.options
    assert "freeze_encoder" not in read(tmp_path, "o.yaml", seeing + "freeze_vision_tower: false\n").options
    assert "freeze_encoder" not in read(tmp_path, "t.yaml", FACTORY + keys).options
    assert "freeze_language_model" in faults(
        read(tmp_path, "l.yaml", seeing + "freeze_language_model: true\n")
    )


def test_a_folder_of_the_cache_names_its_model(tmp_path: Path) -> None:
    cached = "/root/.cache/huggingface/hub/models--Qwen--Qwen2.5-7B-Instruct/snapshots/a09a35458c70"
    found = read(tmp_path, "sft.yaml", FACTORY.replace("Qwen/Qwen2.5-7B-Instruct", cached))
    assert found.model_name == "qwen2.5-7b"


@every("word", ["null", "'no'"])
def test_a_precision_of_null_is_none_to_accelerate(tmp_path: Path, word: str) -> None:
    """Accelerate 1.15, ``commands/launch.py``: what is not said is "no", and trains in fp32."""
    file = tmp_path / "fsdp.yaml"
    file.write_text(f"distributed_type: FSDP\nmixed_precision: {word}\nfsdp_config:\n  fsdp_version: 2\n")
    assert read_runner_file(file).options["precision"] == "fp32"
