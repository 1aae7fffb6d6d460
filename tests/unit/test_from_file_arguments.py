"""Arguments of a command are read, told or refused, and what a file leaves out is its runner's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planner.errors import InputError
from planner.runtimes.imports.dispatch import read_runner_file
from planner.runtimes.imports.sheet import Imported
from tests.cases import every

DEEPSPEED = json.dumps(
    {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 2}, "bf16": {"enabled": True}}
)
ACCELERATE = (
    "distributed_type: FSDP\nmixed_precision: bf16\nnum_machines: 1\nnum_processes: 8\n"
    "fsdp_config: {fsdp_version: 2, fsdp_reshard_after_forward: true}\n"
)
NANOTRON = """
general: {project: a, run: b, seed: 1}
model:
  dtype: bfloat16
  init_method: {std: 0.02}
  model_config: {is_llama_config: true, hidden_size: 512, intermediate_size: 1024, num_hidden_layers: 4,
    num_attention_heads: 8, num_key_value_heads: 8, vocab_size: 32000, max_position_embeddings: 2048}
optimizer: {zero_stage: 0, accumulate_grad_in_fp32: true, weight_decay: 0.1, clip_grad: 1.0,
  learning_rate_scheduler: {learning_rate: 0.0003, lr_warmup_steps: 1, lr_warmup_style: linear,
    lr_decay_style: linear, lr_decay_steps: 8, lr_decay_starting_step: 2, min_decay_lr: 0.00001},
  optimizer_factory: {name: adamW, adam_beta1: 0.9, adam_beta2: 0.95, adam_eps: 1.0e-8,
    torch_adam_is_fused: true}}
parallelism: {dp: 4, tp: 2, pp: 1, pp_engine: 1f1b, tp_mode: REDUCE_SCATTER,
  tp_linear_async_communication: true}
tokens: {sequence_length: 2048, micro_batch_size: 2, batch_accumulation_per_replica: 4, train_steps: 10,
  limit_test_batches: 0, limit_val_batches: 0, val_check_interval: -1}
"""
TITAN = '[model]\nname = "llama3"\nflavor = "8B"\n[training]\nlocal_batch_size = 2\nseq_len = 8192\n'
LLAMA_FACTORY = (
    "model_name_or_path: Qwen/Qwen2.5-7B-Instruct\nstage: sft\ndo_train: true\nfinetuning_type: full\n"
    "cutoff_len: 2048\nbf16: true\n"
)
AXOLOTL = "base_model: Qwen/Qwen2.5-7B-Instruct\nsequence_len: 2048\nmicro_batch_size: 1\nbf16: true\n"
TRL = (
    "model_name_or_path: Qwen/Qwen2.5-7B-Instruct\nmax_length: 2048\nper_device_train_batch_size: 1\n"
    "learning_rate: 1.0e-5\n"
)
TUNE = (
    "model: {_component_: torchtune.models.llama3_2.llama3_2_1b}\n"
    "tokenizer: {_component_: torchtune.models.llama3.llama3_tokenizer, max_seq_len: 2048}\n"
    "optimizer: {_component_: torch.optim.AdamW, lr: 2e-5}\nbatch_size: 1\ndtype: bf16\n"
    "gradient_accumulation_steps: 1\n"
)
FILES = {
    "ds.json": DEEPSPEED, "acc.yaml": ACCELERATE, "nano.yaml": NANOTRON, "titan.toml": TITAN,
    "lf.yaml": LLAMA_FACTORY, "ax.yaml": AXOLOTL, "trl.yaml": TRL, "tune.yaml": TUNE,
}  # fmt: skip
GPT = (
    "--num-layers 4 --hidden-size 512 --num-attention-heads 8 --seq-length 1024 "
    "--max-position-embeddings 1024 --micro-batch-size 8 --global-batch-size 64 --fp16"
)
COMMANDS = {
    "megatron-lm": f"torchrun --nproc_per_node 8 pretrain_gpt.py {GPT} --zz-odd 3",
    "deepspeed": "deepspeed --num_gpus 8 train.py --deepspeed_config ds.json --zz-odd 3",
    "accelerate": "accelerate launch --config_file acc.yaml train.py --zz-odd 3",
    "nanotron": "torchrun --nproc_per_node 8 run_train.py --config-file nano.yaml --zz-odd 3",
    "torchtitan": "torchrun --nproc_per_node 8 train.py --job.config_file titan.toml --zz.odd 3",
    "llama-factory": "NPROC_PER_NODE=8 llamafactory-cli train lf.yaml zz_odd=3",
    "axolotl": "axolotl train ax.yaml --zz-odd 3",
    "trl": "accelerate launch --config_file acc.yaml sft.py --config trl.yaml --zz_odd 3",
    "torchtune": "tune run --nproc_per_node 2 full_finetune_distributed --config tune.yaml zz.odd=3",
    "ms-swift": "NPROC_PER_NODE=8 swift sft --model Qwen/Qwen2.5-7B --max_length 2048 --zz_odd 3",
}


def read(folder: Path, text: str, name: str = "run.sh", **files: str) -> Imported:
    for file, content in {**FILES, **files}.items():
        (folder / file).write_text(content, encoding="utf-8")
    path = folder / name
    path.write_text(f"{text}\n", encoding="utf-8")
    return read_runner_file(path)


@every("runner", COMMANDS)
def test_an_argument_that_nobody_reads_is_told(runner: str, tmp_path: Path) -> None:
    """DeepSpeed's, nanotron's and torchtitan's were passed over in silence."""
    found = read(tmp_path, COMMANDS[runner])
    told = " ".join((*found.unknown, *found.notes)).replace("-", "_").replace(".", "_")
    assert "zz_odd" in told


def test_arguments_go_before_the_job_config_of_torchtitan(tmp_path: Path) -> None:
    line = "torchrun --nproc_per_node 8 -m torchtitan.train --job.config_file titan.toml"
    more = "--training.local-batch-size 7 --activation_checkpoint.mode=full --compile.enable"
    found = read(tmp_path, f"{line} {more} --parallelism.tensor_parallel_degree 2")
    said = {key: found.options.get(key) for key in ("micro_batch", "recompute", "tp")}
    assert said == {"micro_batch": "7", "recompute": "full", "tp": "2"}
    assert "compiled=false" not in found.changes


def test_run_train_takes_its_job_config_from_the_environment(tmp_path: Path) -> None:
    line = 'NGPU=4 CONFIG_FILE="./titan.toml" ./run_train.sh --training.local_batch_size 1 "$@"'
    found = read(tmp_path, line)
    assert (found.options["gpus"], found.options["micro_batch"], found.model_name) == ("4", "1", "llama3-8b")


def test_what_a_job_config_leaves_out_is_torchtitans_own(tmp_path: Path) -> None:
    """``job_config.py`` of 0.2.2: 8 sequences of 2,048 tokens, every second layer recomputed, no compiler."""
    path = tmp_path / "job.toml"
    path.write_text('[model]\nname = "llama3"\nflavor = "8B"\n', encoding="utf-8")
    found = read_runner_file(path)
    said = {key: found.options[key] for key in ("micro_batch", "seq_len", "recompute")}
    assert said == {"micro_batch": "8", "seq_len": "2048", "recompute": "full:16"}
    assert "compiled=false" in found.changes
    assert any("torchtitan's own" in note for note in found.notes)
    path.write_text(
        TITAN + '[activation_checkpoint]\nmode = "none"\n[compile]\nenable = true\n', encoding="utf-8"
    )
    found = read_runner_file(path)
    assert found.options["recompute"] == "none"
    assert "compiled=false" not in found.changes
    assert not any("torchtitan's own" in note for note in found.notes)


def test_an_argument_that_a_yaml_of_nanotron_says_otherwise_is_a_fault(tmp_path: Path) -> None:
    """Of a training script of one's own: nanotron's ``run_train.py`` takes the file alone."""
    line = "torchrun --nproc_per_node 8 run_train.py --config-file nano.yaml"
    found = read(tmp_path, f"{line} --micro-batch-size 1 --dp 4")
    assert [option for option, _ in found.faults] == ["micro_batch", "gpus"]
    assert read(tmp_path, line).faults == ()


TRAINER = (
    "deepspeed llava/train/train_mem.py --deepspeed ds.json --model_name_or_path Qwen/Qwen2.5-7B-Instruct "
    "--per_device_train_batch_size 1 --gradient_accumulation_steps 1 --model_max_length 2048 --bf16 True"
)


def test_adapters_of_llava_are_on_all_layers_with_rank_64(tmp_path: Path) -> None:
    found = read(tmp_path, f"{TRAINER} --lora_enable True")
    assert (found.options["lora_rank"], found.options.get("lora_targets")) == ("64", None)
    assert "adapter_dropout=true" in found.changes
    assert read(tmp_path, f"{TRAINER} --lora_enable True --lora_r 16").options["lora_rank"] == "16"
    assert "method" not in read(tmp_path, f"{TRAINER} --lora_enable False").options


@every(
    "flag",
    ["--tune_mm_mlp_adapter True", "--freeze_llm True", "--tune_mm_llm False", "--freeze_backbone True",
     "--mm_tunable_parts mm_mlp_adapter"],
)  # fmt: skip
def test_a_language_model_that_learns_nothing_is_a_fault(flag: str, tmp_path: Path) -> None:
    """Only a projector learns there: read as training of all weights before."""
    options = {option for option, _ in read(tmp_path, f"{TRAINER} {flag}").faults}
    assert "method" in options
    adapted = {option for option, _ in read(tmp_path, f"{TRAINER} --lora_enable True {flag}").faults}
    assert "method" not in adapted


@every(
    "flag", ["--tune_mm_mlp_adapter False", "--freeze_llm False", "--tune_mm_llm True"]
)  # fmt: skip
def test_a_language_model_that_learns_is_none(flag: str, tmp_path: Path) -> None:
    assert "method" not in {option for option, _ in read(tmp_path, f"{TRAINER} {flag}").faults}


@every(
    ("more", "fused"),
    [("enable_liger_kernel: true\n", True), ("enable_liger_kernel: false\n", False), ("", False)],
)
def test_ligers_loss_is_said_where_it_is_on(more: str, fused: bool, tmp_path: Path) -> None:
    path = tmp_path / "sft.yaml"
    path.write_text(LLAMA_FACTORY + more, encoding="utf-8")
    assert ("loss=fused-linear" in read_runner_file(path).changes) is fused


def test_axolotl_has_a_switch_for_ligers_loss(tmp_path: Path) -> None:
    path = tmp_path / "ax.yaml"
    path.write_text(AXOLOTL + "liger_rms_norm: true\n", encoding="utf-8")
    assert "loss=fused-linear" not in read_runner_file(path).changes
    path.write_text(AXOLOTL + "liger_fused_linear_cross_entropy: true\n", encoding="utf-8")
    assert read_runner_file(path).changes.count("loss=fused-linear") == 1


NEMO = (
    "trainer: {{devices: 8, num_nodes: 1, precision: {precision}}}\nmodel: {{micro_batch_size: 1, "
    "global_batch_size: 8, tensor_model_parallel_size: 1, pipeline_model_parallel_size: 1, "
    "encoder_seq_length: 4096, max_position_embeddings: 4096, num_layers: 4, hidden_size: 512, "
    "ffn_hidden_size: 2048, num_attention_heads: 8}}\n"
)


@every(("precision", "said"), [("bf16-true", "bf16"), ("16-true", "fp16"), ("bf16", "bf16"), ("32", None)])
def test_numbers_of_nemo_are_its_trainers(precision: str, said: str | None, tmp_path: Path) -> None:
    """float32 was read as bfloat16."""
    path = tmp_path / "conf.yaml"
    path.write_text(NEMO.format(precision=precision), encoding="utf-8")
    found = read_runner_file(path, 32000)
    faults = [option for option, _ in found.faults]
    assert (faults == ["precision"]) if said is None else (found.options["precision"] == said)


UNREAD = {
    "verl": "python3 -m verl.trainer.main_ppo data.train_batch_size=8",
    "OpenRLHF": "deepspeed --module openrlhf.cli.train_dpo --zero_stage 3",
    "slime": "ray job submit -- python3 train.py --actor-num-nodes 1 --rollout-batch-size 32",
    "MaxText": "python3 -m MaxText.train MaxText/configs/base.yml run_name=a",
    "dolomite-engine": "torchrun --nproc_per_node 8 -m lm_engine.pretrain --config a.yml",
    "NeMo-Aligner": "torchrun --nproc_per_node 8 examples/nlp/gpt/train_gpt_sft.py trainer.devices=8",
}


@every("tool", UNREAD)
def test_a_command_of_a_tool_that_is_not_read_is_refused_by_name(tool: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"found a command of {tool}, which is not read"):
        read(tmp_path, UNREAD[tool])


def test_a_configuration_of_olmo_is_none_of_llm_foundry(tmp_path: Path) -> None:
    path = tmp_path / "olmo.yaml"
    path.write_text(
        "model: {d_model: 4096, n_heads: 32, n_layers: 32, block_type: sequential, embedding_size: 50304}\n"
        "global_train_batch_size: 2048\ndevice_train_microbatch_size: 2\n",
        encoding="utf-8",
    )
    with pytest.raises(InputError, match=r"an OLMo \.yaml, which is not read"):
        read_runner_file(path)


def test_a_script_beside_a_file_that_trains_nothing_starts_nothing(tmp_path: Path) -> None:
    (tmp_path / "train.sh").write_text("python -m other.program --config zero3.yaml\n", encoding="utf-8")
    path = tmp_path / "zero3.yaml"
    path.write_text(ACCELERATE, encoding="utf-8")
    assert read_runner_file(path).options["gpus"] == "8"


def test_a_path_from_the_root_of_another_machine_is_found_by_its_last_folders(tmp_path: Path) -> None:
    for folder in ("scripts", "configs"):
        (tmp_path / folder).mkdir()
    (tmp_path / "configs" / "lf.yaml").write_text(LLAMA_FACTORY, encoding="utf-8")
    path = tmp_path / "scripts" / "train.sh"
    path.write_text(
        "NPROC_PER_NODE=8 llamafactory-cli train /home/me/repo/configs/lf.yaml\n", encoding="utf-8"
    )
    assert read_runner_file(path).options["seq_len"] == "2048"


def test_a_retriever_beside_the_model_is_a_fault(tmp_path: Path) -> None:
    found = read(tmp_path, f"torchrun --nproc_per_node 8 pretrain_retro.py {GPT} --retro-add-retriever")
    assert any("retriever" in problem.found for _, problem in found.faults)


VERL = (
    "torchrun --standalone --nnodes=1 --nproc_per_node=8 -m verl.trainer.fsdp_sft_trainer "
    "data.train_files=a.parquet model.partial_pretrain=Qwen/Qwen2.5-7B-Instruct"
)


def test_supervised_fine_tuning_by_verl_is_read(tmp_path: Path) -> None:
    found = read(tmp_path, VERL)
    usual = {"gpus": "8", "global_batch": "256", "micro_batch": "4", "seq_len": "1024", "recompute": "full",
             "zero": "3", "precision": "bf16"}  # fmt: skip
    assert {key: found.options[key] for key in usual} == usual
    assert (found.runtime, found.model_name, found.unknown) == ("fsdp", "qwen2.5-7b", ())
    keys = (
        "data.train_batch_size=64 data.micro_batch_size_per_gpu=2 data.max_length=8192 model.strategy=fsdp "
        "ulysses_sequence_parallel_size=2 use_remove_padding=true model.lora_rank=32 +zz.odd=3 "
        "model.target_modules=all-linear model.enable_gradient_checkpointing=False"
    )
    found = read(tmp_path, f"{VERL} {keys}")
    said = {"global_batch": "64", "micro_batch": "2", "seq_len": "8192", "cp": "2", "cp_method": "all-to-all",
            "method": "lora", "lora_rank": "32", "recompute": "none"}  # fmt: skip
    assert {key: found.options[key] for key in said} == said
    assert "engine=fsdp1" in found.changes
    assert found.unknown == ("zz.odd",)


@every(
    ("key", "option"),
    [("data.micro_batch_size=8", "micro_batch"), ("model.fsdp_config.cpu_offload=true", "offload")],
)
def test_what_differs_between_releases_of_verl_is_asked_for(key: str, option: str, tmp_path: Path) -> None:
    assert [name for name, _ in read(tmp_path, f"{VERL} {key}").faults] == [option]


OPENRLHF = (
    "read -r -d '' training_commands <<EOF\nopenrlhf.cli.train_sft \\\n   --{length} 4096 \\\n"
    "   --{batch} 64 \\\n"
    "   --{micro} 2 \\\n   --{model} meta-llama/Meta-Llama-3-8B \\\n   --{stage} 3 {more}\nEOF\n"
    "deepspeed --num_gpus 8 --module $training_commands"
)
OLD = {"length": "max_len", "batch": "train_batch_size", "micro": "micro_train_batch_size",
       "model": "pretrain", "stage": "zero_stage"}  # fmt: skip
CURRENT = {"length": "data.max_len", "batch": "train.batch_size", "micro": "train.micro_batch_size",
           "model": "model.model_name_or_path", "stage": "ds.zero_stage"}  # fmt: skip


@every(
    ("names", "more", "kept"),
    [
        (OLD, "--bf16 --flash_attn --packing_samples --gradient_checkpointing --adam_offload", False),
        (OLD, "--bf16 --gradient_checkpointing --adam_offload", True),
        (CURRENT, "--ds.packing_samples --model.gradient_checkpointing_enable --ds.adam_offload", False),
    ],
)
def test_supervised_fine_tuning_by_openrlhf_is_read(
    names: dict[str, str], more: str, kept: bool, tmp_path: Path
) -> None:
    """``read`` fills the variable with its command; without ``--flash_attn`` old releases keep scores."""
    found = read(tmp_path, OPENRLHF.format(**names, more=more))
    said = {"gpus": "8", "global_batch": "64", "micro_batch": "2", "seq_len": "4096", "zero": "3",
            "recompute": "full", "offload": "optimizer", "precision": "bf16"}  # fmt: skip
    assert {key: found.options[key] for key in said} == said
    assert (found.runtime, found.model_name, found.faults) == ("deepspeed", "llama3-8b", ())
    assert ("attention=unfused" in found.changes) is kept
    assert "overlap_comm=false" in found.changes


def test_openrlhf_without_numbers_asks_for_them(tmp_path: Path) -> None:
    assert [name for name, _ in read(tmp_path, OPENRLHF.format(**OLD, more="")).faults] == ["precision"]


def test_the_command_of_gpt_neox_reads_all_its_files(tmp_path: Path) -> None:
    (tmp_path / "configs").mkdir()
    sizes = (
        '{"pipe-parallel-size": 1, "model-parallel-size": 2, "num-layers": 4, "hidden-size": 512, '
        '"num-attention-heads": 8, "seq-length": 2048, "max-position-embeddings": 2048, '
        '"fp16": {"enabled": true}, "train_micro_batch_size_per_gpu": 4, "gas": 1}'
    )
    (tmp_path / "configs" / "125M.yml").write_text(sizes, encoding="utf-8")
    setup = '{"data-path": "a", "vocab-file": "b", "gradient_accumulation_steps": 2, "global_num_gpus": 8}'
    (tmp_path / "configs" / "setup.yml").write_text(setup, encoding="utf-8")
    found = read(tmp_path, "python ./deepy.py train.py -d configs 125M setup.yml")
    said = {key: found.options.get(key) for key in ("gpus", "tp", "micro_batch", "accumulation", "seq_len")}
    assert said == {"gpus": "8", "tp": "2", "micro_batch": "4", "accumulation": "2", "seq_len": "2048"}
    assert (found.runtime, found.unknown, found.faults) == ("megatron-lm", (), ())
    with pytest.raises(InputError, match="no such file"):
        read(tmp_path, "python ./deepy.py train.py -d configs 125M other.yml")


@every("between", ["", "  # --bf16 \\\n"])
def test_a_line_that_lost_its_backslash_is_a_fault(between: str, tmp_path: Path) -> None:
    """A shell ends the command there, as behind a comment within it: what follows was left out in silence."""
    first = "torchrun --nproc_per_node 8 pretrain_gpt.py " + ("\\\n" if between else "")
    line = f"{first}{between}  {GPT} \\\n  --tensor-model-parallel-size 2"
    found = read(tmp_path, line if between else line.replace("--micro", "\n  --micro", 1))
    assert any("a line of its own" in problem.found for _, problem in found.faults)
    whole = read(tmp_path, line.replace(between, "") if between else line)
    assert (whole.faults, whole.options["tp"]) == ((), "2")


def test_a_deepspeed_file_that_is_not_there_leaves_no_argument_untold(tmp_path: Path) -> None:
    line = "deepspeed --num_gpus 8 main.py --seq-length 512 --deepspeed --deepspeed_config gone.json"
    found = read(tmp_path, line)
    assert any("--seq-length" in note for note in found.notes)
    assert [option for option, _ in found.faults] == ["zero", "micro_batch"]


def test_no_file_of_deepspeed_makes_bert_a_language_model(tmp_path: Path) -> None:
    line = f"deepspeed --num_gpus 8 pretrain_bert.py {GPT} --deepspeed --deepspeed_config ds.json"
    with pytest.raises(InputError, match="a program that trains a language model"):
        read(tmp_path, line)


def test_arguments_in_a_text_that_a_sourced_script_keeps_are_read(tmp_path: Path) -> None:
    """As in the scripts of Megatron-LM's paper of 2021, which leave paths to be filled in."""
    config = 'export DATA=<path to the data>\nexport PARAMS=" --tensor-model-parallel-size ${TP} '
    (tmp_path / "CONFIG.sh").write_text(
        f'{config}{GPT} --data-path ${{DATA}} --train-iters 5 "\n', encoding="utf-8"
    )
    found = read(tmp_path, "TP=4\n. `pwd`/CONFIG.sh\nsbatch --nodes=4 --export=PARAMS SRUN.sh")
    assert (found.faults, found.options["tp"], found.options["micro_batch"]) == ((), "4", "8")


def test_a_program_of_ones_own_takes_a_job_config_of_torchtitan(tmp_path: Path) -> None:
    line = 'torchrun --nproc_per_node 8 -m ${TRAIN_FILE:-"my_titan.entry"} --job.config_file titan.toml "$@"'
    found = read(tmp_path, line)
    assert found.runtime.startswith("torchtitan")
    assert found.options["micro_batch"] == "2"


@every("program", ["multimodal/train.py", "tools/retro/preprocess_data.py"])
def test_megatrons_arguments_make_no_other_program_a_training(program: str, tmp_path: Path) -> None:
    """Of images its ``--seq-length`` is that of the encoder."""
    with pytest.raises(InputError):
        read(tmp_path, f"torchrun --nproc_per_node 8 {program} {GPT} --train-iters 5")
