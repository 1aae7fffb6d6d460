"""No key that may change a price is passed over in silence: by every reader, each of its runner's keys.

The keys stand here at a value that their runner does not have by itself; what they say is read, told in a
note, or a fault. A key that nobody knows is told too.
"""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
import yaml

from planner.errors import InputError
from planner.inputs.model_yaml import model_yaml
from planner.runtimes.imports.dispatch import read_runner_file
from planner.runtimes.imports.python_objects import objects
from planner.runtimes.imports.sheet import Imported
from tests.cases import every

QWEN: Final = "Qwen/Qwen2.5-7B-Instruct"
ZERO: Final = "zero_optimization."
FSDP: Final = "fsdp_config."


class Reader(NamedTuple):
    """A plain file of a runner, and keys with values that matter."""

    name: str
    base: Mapping[str, Any]
    keys: Mapping[str, Any]
    suffix: str = ".yaml"
    command: str = ""
    assigned: str = "--{} {}"


TRAINED: Final[dict[str, Any]] = {
    "per_device_train_batch_size": 2, "gradient_accumulation_steps": 8, "bf16": True,
}  # fmt: skip
OF_TRAINER: Final[dict[str, Any]] = {
    "per_device_train_batch_size": 4, "gradient_accumulation_steps": 2, "optim": "adafactor", "fp16": True,
    "auto_find_batch_size": True, "torch_compile": True, "use_liger_kernel": True, "fsdp": "full_shard",
    "deepspeed": "ds_z3_config.json",
}  # fmt: skip
OF_FSDP: Final = {
    "auto_wrap_policy": "NO_WRAP", "backward_prefetch": "NO_PREFETCH", "limit_all_gathers": False,
}  # fmt: skip
TUNE: Final[dict[str, Any]] = {
    "model": {"_component_": "torchtune.models.llama3_1.llama3_1_8b"}, "tokenizer": {"max_seq_len": 4096},
    "batch_size": 2, "optimizer": {"_component_": "torch.optim.AdamW"}, "dtype": "bf16",
}  # fmt: skip
NEMO: Final[dict[str, Any]] = {
    "trainer": {"devices": 8, "num_nodes": 1, "precision": "bf16"},
    "model": {
        "micro_batch_size": 1, "global_batch_size": 8, "tensor_model_parallel_size": 2,
        "pipeline_model_parallel_size": 1, "encoder_seq_length": 2048, "max_position_embeddings": 2048,
        "num_layers": 4, "hidden_size": 512, "num_attention_heads": 8, "ffn_hidden_size": 2048,
    },
}  # fmt: skip
DEEPSPEED: Final[dict[str, Any]] = {
    "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 8, "bf16": {"enabled": True},
}  # fmt: skip
GPT: Final = {
    "num-layers": 4, "hidden-size": 512, "num-attention-heads": 8, "seq-length": 1024,
    "max-position-embeddings": 1024, "micro-batch-size": 8, "global-batch-size": 64, "train-iters": 10,
    "vocab-size": 32000, "hidden-dropout": 0, "attention-dropout": 0,
}  # fmt: skip

READERS: Final = (
    Reader(
        "llama-factory",
        {"model_name_or_path": QWEN, "stage": "sft", "template": "qwen", "finetuning_type": "full",
         "cutoff_len": 2048, **TRAINED},
        {**OF_TRAINER, "use_unsloth_gc": True, "shift_attn": True, "flash_attn": "disabled", "packing": True,
         "use_galore": True, "pure_bf16": True, "disable_gradient_checkpointing": True, "stage": "dpo",
         "enable_liger_kernel": True, "quantization_bit": 8, "finetuning_type": "freeze"},
    ),
    Reader(
        "trl",
        {"model_name_or_path": QWEN, "learning_rate": 1e-5, "max_length": 2048, "use_peft": True, **TRAINED},
        {**OF_TRAINER, "model_init_kwargs.attn_implementation": "eager", "activation_offloading": True,
         "model_kwargs.torch_dtype": "bfloat16", "attn_implementation": "eager", "packing": True,
         "gradient_checkpointing": False, "load_in_4bit": True, "lora_r": 4, "beta": 0.1},
    ),
    Reader(
        "trl and FSDP",
        {"model_name_or_path": QWEN, "learning_rate": 1e-5, "max_length": 2048,
         "fsdp": "full_shard auto_wrap", "gradient_checkpointing": False, **TRAINED},
        {**{f"{FSDP}{key}": value for key, value in OF_FSDP.items()}, f"{FSDP}activation_checkpointing": True,
         f"{FSDP}offload_params": True, f"{FSDP}version": 1, f"{FSDP}reshard_after_forward": False,
         "fsdp": "full_shard"},
    ),
    Reader(
        "axolotl",
        {"base_model": QWEN, "sequence_len": 2048, "micro_batch_size": 1, "gradient_accumulation_steps": 4,
         "datasets": [{"path": "a"}], "bf16": True, "adapter": "lora", "lora_r": 8},
        {"s2_attention": True, "peft_layers_to_transform": [0, 1], "gradient_checkpointing": "unsloth",
         "dp_replicate_size": 2, "eager_attention": True, "sample_packing": True, "lora_r": 16, "rl": "dpo",
         "tensor_parallel_size": 2, "activation_offloading": True, "load_in_4bit": True,
         "torch_compile": True, "cut_cross_entropy": True, "lora_modules_to_save": ["lm_head"],
         "auto_find_batch_size": True},
    ),
    Reader(
        "ms-swift",
        {"model": QWEN, "tuner_type": "lora", "torch_dtype": "bfloat16", "max_length": 2048, "dataset": "a",
         "packing": True, "per_device_train_batch_size": 1, "gradient_accumulation_steps": 8},
        {"packing_length": 8192, "target_regex": "model.*", "attn_impl": "eager", "lora_rank": 4,
         "vit_gradient_checkpointing": False, "sequence_parallel_size": 2, "tuner_type": "full",
         "freeze_parameters_ratio": 0.5, "auto_find_batch_size": True, "use_liger_kernel": True},
    ),
    Reader(
        "ms-swift's Megatron",
        {"model": QWEN, "tuner_type": "full", "max_length": 2048, "micro_batch_size": 1,
         "global_batch_size": 16, "tensor_model_parallel_size": 2, "packing": "true"},
        {"packing_length": 8192, "cross_entropy_loss_fusion": "true", "recompute_granularity": "full",
         "recompute_modules": "mlp", "overlap_grad_reduce": "true", "attention_backend": "unfused",
         "pipeline_model_parallel_size": 2, "sequence_parallel": "true", "context_parallel_size": 2,
         "tuner_type": "lora"},
        ".sh",
        "NPROC_PER_NODE=8 megatron sft",
    ),
    Reader(
        "torchtune",
        TUNE,
        {"data_parallel_replicate_dim": 2, "tensor_parallel_dim": 2, "compile": True, "dtype": "fp32",
         "enable_activation_checkpointing": True, "enable_activation_offloading": True,
         "ac_mode": "selective", "custom_sharded_layers": ["tok_embeddings"],
         "model.decoder_trainable": "frozen",
         "optimizer_in_bwd": True, "fsdp_cpu_offload": True, "fsdp_reshard_after_forward": False,
         "dataset.packed": True, "enable_fp8_training": True},
    ),
    Reader(
        "litgpt",
        {"checkpoint_dir": "checkpoints/meta-llama/Llama-2-7b-hf", "precision": "bf16-true", "devices": 4,
         "train": {"global_batch_size": 16, "micro_batch_size": 1, "max_seq_length": 2048}},
        {"num_nodes": 2, "precision": "32-true", "quantize": "bnb.nf4", "lora_r": 8,
         "train.micro_batch_size": 2, "devices": 8},
    ),
    Reader(
        "automodel",
        {"model": {"_target_": "nemo_automodel.NeMoAutoModelForCausalLM.from_pretrained",
                   "pretrained_model_name_or_path": QWEN}, "loss_fn": {"_target_": "a.MaskedCrossEntropy"},
         "step_scheduler": {"global_batch_size": 32, "local_batch_size": 2}, "distributed": {"tp_size": 1},
         "optimizer": {"_target_": "torch.optim.Adam"}, "packed_sequence": {"packed_sequence_size": 2048}},
        {"model.attn_implementation": "eager", "freeze_config.freeze_embeddings": True,
         "optimizer.store_param_remainders": True, "model.torch_dtype": "float32", "compile.enabled": True,
         "distributed.activation_checkpointing": True, "distributed.pp_size": 2, "fp8.enabled": True,
         "distributed.reshard_after_forward": False, "step_scheduler.local_batch_size": 1,
         "packed_sequence.packed_sequence_size": 4096, "kd_ratio": 0.5},
    ),
    Reader(
        "accelerate",
        {"distributed_type": "FSDP", "num_processes": 8, "mixed_precision": "bf16",
         "fsdp_config": {"fsdp_sharding_strategy": "FULL_SHARD"}},
        {**{f"{FSDP}fsdp_{key}": value for key, value in OF_FSDP.items() if "limit" not in key},
         f"{FSDP}fsdp_offload_params": True, f"{FSDP}fsdp_activation_checkpointing": True,
         f"{FSDP}fsdp_sharding_strategy": "SHARD_GRAD_OP", "num_processes": 4, "mixed_precision": "fp16"},
    ),
    Reader(
        "deepspeed 2",
        DEEPSPEED | {"zero_optimization": {"stage": 2}},
        {f"{ZERO}overlap_comm": True, f"{ZERO}reduce_scatter": False, f"{ZERO}contiguous_gradients": False,
         f"{ZERO}reduce_bucket_size": 1000000, f"{ZERO}offload_optimizer.device": "cpu", f"{ZERO}stage": 1,
         "data_efficiency.enabled": True, "compile.deepcompile": True, "communication_data_type": "fp32",
         "data_types.grad_accum_dtype": "fp32", "activation_checkpointing.cpu_checkpointing": True,
         "activation_checkpointing.partition_activations": True, "sparse_gradients": True},
        ".json",
    ),
    Reader(
        "deepspeed 3",
        DEEPSPEED | {"zero_optimization": {"stage": 3}},
        {f"{ZERO}overlap_comm": False, f"{ZERO}zero_quantized_nontrainable_weights": True,
         f"{ZERO}zero_quantized_weights": True, f"{ZERO}stage3_max_live_parameters": 100000000,
         f"{ZERO}stage3_param_persistence_threshold": 100000000, f"{ZERO}zero_hpz_partition_size": 8,
         f"{ZERO}offload_param.device": "cpu", f"{ZERO}stage3_prefetch_bucket_size": 1000},
        ".json",
    ),
    Reader(
        "gpt-neox",
        {"pipe_parallel_size": 1, "model_parallel_size": 2, "num_layers": 4, "hidden_size": 512,
         "num_attention_heads": 8, "seq_length": 1024, "max_position_embeddings": 1024,
         "train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 1}, "fp16": {"enabled": True}},
        {"train_impl": "dpo", "fp32_allreduce": True, "checkpoint_activations": True, "moe_num_experts": 8,
         "attention_config": [[["flash"], 4]], "gradient_accumulation_steps": 2, "precision": "bfloat16",
         "sequence_parallel": True, "num_kv_heads": 2, "intermediate_size": 4096, "te_mha": True,
         f"{ZERO}overlap_comm": False},
        ".yml",
    ),
    Reader(
        "megatron",
        GPT,
        {"cross-entropy-loss-fusion": "", "transformer-impl": "local", "data-impl": "mmap",
         "overlap-grad-reduce": "", "recompute-activations": "", "use-distributed-optimizer": "",
         "attention-backend": "unfused", "no-rope-fusion": "", "bf16": "", "hidden-dropout": 0.1,
         "no-gradient-accumulation-fusion": "", "tensor-model-parallel-size": 2, "deterministic-mode": "",
         "optimizer": "sgd", "zero-stage": 1, "swiglu": "", "fp8-format": "hybrid"},
        ".sh",
        "torchrun --nproc_per_node 8 pretrain_gpt.py",
    ),
    Reader(
        "verl",
        {"data.train_batch_size": 64, "data.micro_batch_size_per_gpu": 2, "data.max_length": 2048,
         "model.partial_pretrain": QWEN},
        {"model.strategy": "fsdp", "model.fsdp_config.model_dtype": "bf16", "model.lora_rank": 8,
         "model.enable_gradient_checkpointing": "false", "ulysses_sequence_parallel_size": 2,
         "model.use_liger": "true", "model.fsdp_config.cpu_offload": "true",
         "model.fsdp_config.wrap_policy.min_num_params": 100000000},
        ".sh",
        "torchrun --nproc_per_node 8 -m verl.trainer.fsdp_sft_trainer",
        "{}={}",
    ),
    Reader(
        "verl of today",
        {"data.train_batch_size": 64, "data.max_token_len_per_gpu": 8192, "data.max_length": 2048,
         "model.path": QWEN, "engine": "fsdp"},
        {"engine": "megatron", "engine.strategy": "fsdp2", "engine.ulysses_sequence_parallel_size": 2,
         "engine.model_dtype": "bf16", "engine.param_offload": "true", "engine.optimizer_offload": "true",
         "engine.reshard_after_forward": "false", "engine.fsdp_size": 4, "data.max_token_len_per_gpu": 4096,
         "data.use_dynamic_bsz": "false", "model.lora_rank": 8, "model.use_liger": "true",
         "engine.wrap_policy.min_num_params": 100000000},
        ".sh",
        "torchrun --nproc_per_node 8 -m verl.trainer.sft_trainer",
        "{}={}",
    ),
    Reader(
        "openrlhf",
        {"pretrain": QWEN, "max_len": 2048, "train_batch_size": 64, "micro_train_batch_size": 2, "bf16": ""},
        {"zero_stage": 3, "adam_offload": "", "flash_attn": "", "packing_samples": "", "lora_rank": 8,
         "gradient_checkpointing": "", "overlap_comm": "", "use_liger_kernel": "", "zpg": 8,
         "grad_accum_dtype": "fp32", "ring_attn_size": 2, "deepcompile": ""},
        ".sh",
        "deepspeed --num_gpus 8 --module openrlhf.cli.train_sft",
    ),
    Reader(
        "nemo 1.0",
        NEMO,
        {"model.peft.peft_scheme": "lora", "model.data.train_ds.max_seq_length": 1024, "model.patch_dim": 16,
         "model.mm_cfg.llm.from_pretrained": "a", "model.activations_checkpoint_granularity": "full",
         "model.sequence_parallel": True, "trainer.precision": 32, "model.fp8": True,
         "trainer.num_nodes": 2, "model.fsdp": True, "model.megatron_amp_O2": False,
         "model.transformer_engine": False, "model.gradient_accumulation_fusion": False,
         "model.virtual_prompt_style": "p-tuning", "model.bert_binary_head": True},
    ),
)  # fmt: skip
"""Every reader with keys, each with a file that it reads."""


def put(tree: Mapping[str, Any], key: str, value: Any, nested: bool) -> dict[str, Any]:
    """Return a file with one more key, below its sections where it has any."""
    whole = copy.deepcopy(dict(tree))
    place, names = whole, key.split(".") if nested else [key]
    for name in names[:-1]:
        place = place.setdefault(name, {})
    place[names[-1]] = value
    return whole


def text_of(reader: Reader, tree: Mapping[str, Any]) -> str:
    if reader.suffix == ".sh":
        words = (reader.assigned.format(key, value).strip() for key, value in tree.items())
        return f"{reader.command} {' '.join(words)}\n"
    return json.dumps(tree) if reader.suffix == ".json" else yaml.safe_dump(tree, sort_keys=False)


def said(folder: Path, reader: Reader, tree: Mapping[str, Any]) -> tuple[object, ...]:
    """Return all that a reading says; a refusal says its words."""
    path = folder / f"file{reader.suffix}"
    path.write_text(text_of(reader, tree), encoding="utf-8")
    try:
        found = read_runner_file(path, 32_000)
    except InputError as error:
        return (str(error),)
    model = None if found.model is None else model_yaml(found.model)
    faults = [(option, fault.where, fault.found) for option, fault in found.faults]
    told = (found.unknown, found.notes, faults)
    return (found.runtime, dict(found.options), found.changes, model, found.model_name, *told)


def test_no_key_that_matters_is_passed_over_in_silence(tmp_path: Path) -> None:
    """Found by leaving each key out of 587 files of strangers: what changed nothing was looked at."""
    silent = []
    for reader in READERS:
        plain = said(tmp_path, reader, reader.base)
        assert len(plain) > 1, (reader.name, plain)
        for key, value in reader.keys.items():
            tree = put(reader.base, key, value, reader.suffix != ".sh")
            if said(tmp_path, reader, tree) == plain:
                silent.append(f"{reader.name}: {key}")
    assert silent == []


def test_a_key_that_nobody_knows_is_told(tmp_path: Path) -> None:
    silent = []
    for reader in READERS:
        plain = said(tmp_path, reader, reader.base)
        key = "model.our_own_switch" if reader.name == "nemo 1.0" else "our_own_switch"
        tree = put(reader.base, key, 3, nested=True)
        if said(tmp_path, reader, tree) == plain:
            silent.append(reader.name)
    assert silent == []


FOREIGN: Final = {
    "pyproject.toml": '[build-system]\nrequires = ["hatchling"]\n[project]\nname = "a"\n[tool.ruff]\n',
    "package.json": '{"name": "a", "version": "1.0", "scripts": {"build": "b"}, "dependencies": {}}',
    "mkdocs.yml": "site_name: a\nnav: [a.md]\nplugins: [search]\n",
    "compose.yaml": "services:\n  web:\n    image: a\n    ports: ['80:80']\n",
    "workflow.yml": "name: CI\njobs:\n  test:\n    runs-on: ubuntu\n    steps: [{run: make}]\n",
    "own.yaml": "model: {d_model: 512, n_layers: 4}\ntraining: {batch_size: 8, lr: 1e-3}\n",
}


@every(("name", "text"), list(FOREIGN.items()))
def test_a_file_of_something_else_is_refused(name: str, text: str, tmp_path: Path) -> None:
    """The settings of a Python package were read as a torchtitan job of 8 sequences of 2,048 tokens."""
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError):
        read_runner_file(path)


def read(folder: Path, name: str, text: str) -> Imported:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return read_runner_file(path)


def test_settings_of_ones_own_are_no_arguments_of_the_trainer(tmp_path: Path) -> None:
    """They were priced with the batch and length that TRL has by itself."""
    (tmp_path / "own.yaml").write_text(FOREIGN["own.yaml"], encoding="utf-8")
    with pytest.raises(InputError, match="settings of a program of one's own"):
        read(tmp_path, "run.sh", "python train.py --config own.yaml\n")
    (tmp_path / "k8s.yaml").write_text("apiVersion: v1\nkind: Job\n", encoding="utf-8")
    with pytest.raises(InputError, match="Kubernetes"):
        read(tmp_path, "run.sh", "python train.py --config k8s.yaml\n")


@every("flags", ["--pretrain a --micro_train_batch_size 2 --bf16", "--config a --output b", ""])
def test_a_program_with_a_name_like_megatrons_is_another(flags: str, tmp_path: Path) -> None:
    """OpenRLHF's train_sft.py was asked for the arguments of pretrain_gpt.py."""
    with pytest.raises(InputError, match=r"own settings are not known|own code"):
        read(tmp_path, "run.sh", f"torchrun --nproc_per_node 8 train_sft.py {flags}\n")
    kept = "torchrun --nproc_per_node 8 train_sft.py --num-layers 2 --micro-batch-size 1 --seq-length 8\n"
    assert read(tmp_path, "run.sh", kept).runtime == "megatron-lm"


SCRIPT: Final = Reader("megatron", GPT, {}, ".sh", "torchrun --nproc_per_node 8 pretrain_gpt.py")


@every(
    ("flags", "unfused"),
    [
        ({}, False),
        ({"transformer-impl": "local"}, True),
        ({"transformer-impl": "local", "use-flash-attn": ""}, False),
        ({"transformer-impl": "transformer_engine", "data-impl": "mmap"}, False),
        ({"data-impl": "mmap"}, True),
        ({"data-impl": "mmap", "use-flash-attn-v2": ""}, False),
        ({"zero-stage": 1}, True),
        ({"data-impl": "mmap", "attention-backend": "flash"}, False),
    ],
)
def test_attention_of_older_releases_keeps_its_scores(
    flags: Mapping[str, Any], unfused: bool, tmp_path: Path
) -> None:
    found = read(tmp_path, "a.sh", text_of(SCRIPT, {**GPT, **flags}))
    assert ("attention=unfused" in found.changes) is unfused


@every(
    ("flags", "told"),
    [
        ({}, []),
        ({"num-experts": 8}, ["--moe-grouped-gemm", "--moe-permute-fusion"]),
        ({"num-experts": 8, "moe-grouped-gemm": "", "moe-permute-fusion": ""}, []),
        ({"use-distributed-optimizer": "", "overlap-grad-reduce": ""}, ["--overlap-param-gather"]),
        ({"use-distributed-optimizer": "", "overlap-grad-reduce": "", "overlap-param-gather": ""}, []),
    ],
)
def test_what_a_command_leaves_out_and_is_priced_all_the_same_is_told(
    flags: Mapping[str, Any], told: list[str], tmp_path: Path
) -> None:
    found = read(tmp_path, "a.sh", text_of(SCRIPT, {**GPT, **flags}))
    lacking = [note.removeprefix("no ").partition(":")[0] for note in found.notes if "are priced as" in note]
    assert lacking == told


@every(("flags", "loss"), [({}, ["loss=vocab-parallel"]), ({"cross-entropy-loss-fusion": ""}, [])])
def test_a_loss_that_is_not_fused_is_priced_so(
    flags: Mapping[str, Any], loss: list[str], tmp_path: Path
) -> None:
    """megatron/training/arguments.py: ``--cross-entropy-loss-fusion`` is off unless it is there."""
    found = read(tmp_path, "a.sh", text_of(SCRIPT, {**GPT, **flags}))
    assert [change for change in found.changes if change.startswith("loss")] == loss


@every(
    ("section", "off"),
    [
        ({"stage": 0}, False), ({"stage": 0, "overlap_comm": False}, False), ({"stage": 1}, True),
        ({"stage": 2}, True), ({"stage": 3}, False),
        ({"stage": 2, "overlap_comm": True}, False), ({"stage": 3, "overlap_comm": False}, True),
    ],
)  # fmt: skip
def test_communication_overlaps_below_stage_3_where_it_is_asked_to(
    section: Mapping[str, Any], off: bool, tmp_path: Path
) -> None:
    """deepspeed/runtime/zero/config.py, ``overlap_comm_valid``."""
    found = read(tmp_path, "a.json", json.dumps(DEEPSPEED | {"zero_optimization": section}))
    assert ("overlap_comm=false" in found.changes) is off


def test_adapters_and_lengths_of_nemo_are_read(tmp_path: Path) -> None:
    """They were priced as a training of all weights, at the model's own length."""
    tuned = {
        "peft_scheme": "lora",
        "lora_tuning": {"adapter_dim": 16, "target_modules": ["attention", "mlp_fc1"]},
    }
    tree = put(NEMO, "model.peft", tuned, nested=True)
    tree = put(tree, "model.data.train_ds.max_seq_length", 1024, nested=True)
    found = read(tmp_path, "a.yaml", yaml.safe_dump(tree))
    wanted = {"method": "lora", "lora_rank": "16", "lora_targets": "qkv+proj+fc1", "seq_len": "1024"}
    assert {name: found.options.get(name) for name in wanted} == wanted
    assert found.faults == ()
    other = put(NEMO, "model.peft.peft_scheme", "ia3", nested=True)
    assert [option for option, _ in read(tmp_path, "b.yaml", yaml.safe_dump(other)).faults] == ["method"]


def test_passes_of_verl_are_filled_by_tokens(tmp_path: Path) -> None:
    """verl/trainer/config/sft_trainer_engine.yaml: ``use_dynamic_bsz``, which is on."""
    start = "torchrun --nproc_per_node 8 -m verl.trainer.sft_trainer engine=fsdp data.max_length=1024"
    whole = f"{start} model.path={QWEN} data.train_batch_size=256"
    for words, micro in (
        ("", "8"),
        ("data.max_token_len_per_gpu=3000", "2"),
        ("data.use_dynamic_bsz=False", "4"),
    ):
        found = read(tmp_path, "a.sh", f"{whole} {words}\n")
        assert (found.options["micro_batch"], found.options["seq_len"]) == (micro, "1024")
        assert (found.options["zero"], found.faults, found.unknown) == ("3", (), ())
    assert "engine=fsdp1" in found.changes


INNER: Final = """\
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=8
srun python pretrain_gpt.py {words} --tensor-model-parallel-size ${{TP:-1}} \\
    --pipeline-model-parallel-size ${{1:-1}}
"""


@every(
    ("start", "wanted"),
    [
        ("sbatch --nodes=4 inner.sh", ("32", "1", "1")),
        ("sbatch -N 4 inner.sh 2", ("32", "1", "2")),
        ("TP=2 sbatch inner.sh", ("8", "2", "1")),
        ("sbatch --nodes=2 --export=ALL,TP=4 inner.sh", ("16", "4", "1")),
        ("export TP=2\nbash inner.sh 4", ("8", "2", "4")),
        ("for TP in 2 4; do\n  sbatch inner.sh\ndone", ("8", "2", "1")),
    ],
)
def test_a_script_that_another_starts_is_read(start: str, wanted: tuple[str, ...], tmp_path: Path) -> None:
    words = " ".join(f"--{key} {value}" for key, value in GPT.items())
    (tmp_path / "inner.sh").write_text(INNER.format(words=words), encoding="utf-8")
    found = read(tmp_path, "outer.sh", f"#!/bin/bash\n{start}\n")
    assert tuple(found.options[name] for name in ("gpus", "tp", "pp")) == wanted
    assert any("inner.sh" in note for note in found.notes)
    assert any("TP" in note for note in found.notes) is start.startswith("for")


def test_of_a_loop_the_first_value_is_taken_or_the_one_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = "llamafactory-cli train --model_name_or_path {} --stage sft --finetuning_type full --template a"
    whole = f"{start.format(QWEN)} --cutoff_len 2048 --bf16 true --per_device_train_batch_size $SIZE"
    text = f"for SIZE in 4 8; do\n  {whole}\ndone\n"
    found = read(tmp_path, "a.sh", text)
    assert found.options["micro_batch"] == "4"
    assert any(note.startswith("SIZE: ") for note in found.notes)
    monkeypatch.setenv("SIZE", "8")
    assert read(tmp_path, "a.sh", text).options["micro_batch"] == "8"
    monkeypatch.delenv("SIZE")
    single = read(tmp_path, "a.sh", text.replace("in 4 8", "in 4"))
    assert not any(note.startswith("SIZE: ") for note in single.notes)
    unknown = read(tmp_path, "a.sh", text.replace("in 4 8", "in $(seq 4)"))
    assert any("SIZE" in fault.found for _, fault in unknown.faults)


def test_qloras_own_script_trains_adapters_unless_told(tmp_path: Path) -> None:
    flags = "--model_name_or_path huggyllama/llama-7b --per_device_train_batch_size 1 --bf16"
    flags += " --source_max_len 384 --target_max_len 128"
    found = read(tmp_path, "a.sh", f"python qlora.py {flags}\n")
    wanted = {"method": "qlora", "lora_rank": "64", "seq_len": "512", "recompute": "full"}
    assert {name: found.options.get(name) for name in wanted} == wanted
    assert "method" not in read(tmp_path, "a.sh", f"python qlora.py {flags} --full_finetune True\n").options


@every(
    ("kind", "wanted"),
    [("full", (None, ())), ("lora", ("lora", ())), ("qlora", ("qlora", ())), ("frozen", (None, ("method",)))],
)
def test_tinyllava_says_how_its_language_model_is_tuned(
    kind: str, wanted: tuple[str | None, tuple[str, ...]], tmp_path: Path
) -> None:
    """Adapters on 4 bits were 16 bits, a model at rest one that learns."""
    flags = f"--model_name_or_path {QWEN} --per_device_train_batch_size 2 --model_max_length 512 --bf16 True"
    start = f"torchrun --nproc_per_node 8 train.py {flags} --tune_type_llm {kind}"
    found = read(tmp_path, "a.sh", f"{start} --lora_r 128\n")
    assert (found.options.get("method"), tuple(option for option, _ in found.faults)) == wanted


def test_a_program_that_evaluates_is_no_training(tmp_path: Path) -> None:
    """Of a script that trains and evaluates the last command was read."""
    flags = f"--model_name_or_path {QWEN} --per_device_train_batch_size 2 --max_length 512 --bf16"
    trains = f"accelerate launch --num_processes 8 sft.py {flags}"
    found = read(tmp_path, "a.sh", f"{trains}\naccelerate launch --num_processes 4 evaluate.py --model a\n")
    assert (found.options["gpus"], found.options["micro_batch"]) == ("8", "2")
    assert not any("commands train" in note for note in found.notes)
    with pytest.raises(InputError, match="no training command"):
        read(tmp_path, "b.sh", "accelerate launch --num_processes 4 tools/convert_to_hf.py --model a\n")


def test_values_made_of_values_do_not_double_without_end() -> None:
    """A test of NeMo Automodel was read for minutes: under a condition a value's words hold it twice."""
    doubled = "".join("    a = [a, a]\n" for _ in range(24))
    made = objects(f"def run(a):\n  if known():\n{doubled}  return llm.go(a)\nrun(start())\n")
    given = [str(value) for one in made for value in one.args]
    assert given
    assert max(map(len, given)) < 2_000


def test_parts_of_a_hydra_file_are_read_where_they_lie(tmp_path: Path) -> None:
    """What ``defaults`` name was left out, and its numbers taken from the library."""
    whole = yaml.safe_dump({"defaults": [{"model": "small"}, "_self_"], "trainer": NEMO["trainer"]})
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "small.yaml").write_text(yaml.safe_dump(NEMO["model"]), encoding="utf-8")
    found = read(tmp_path, "run.yaml", whole)
    assert found.options == read(tmp_path, "flat.yaml", yaml.safe_dump(NEMO)).options
    changed = whole + "model:\n  tensor_model_parallel_size: 1\n"
    assert read(tmp_path, "run.yaml", changed).options["tp"] == "1"
    with pytest.raises(InputError, match=r"no model/large\.yaml near it"):
        read(tmp_path, "run.yaml", whole.replace("small", "large"))
    beside = yaml.safe_dump({**NEMO, "defaults": ["other"]})
    assert any("no other.yaml near it" in note for note in read(tmp_path, "b.yaml", beside).notes)


@every("name", ["''", "..", "/", "$1"])
def test_a_configuration_without_a_name_is_no_error_of_ours(name: str, tmp_path: Path) -> None:
    """Of ``--job.config_file`` without a value the planner ended in a traceback."""
    starts = (
        f"torchrun -m torchtitan.train --job.config_file {name}",
        f"accelerate launch --config_file {name} a.py",
    )
    for start in (
        *starts,
        f"deepspeed a.py --deepspeed_config {name}",
        f"python run_train.py --config-file {name}",
    ):
        with contextlib.suppress(InputError):
            read(tmp_path, "run.sh", f"{start}\n")
