"""What a launch file leaves to its environment, and what it says in the words of a fork."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.cli.from_file_start import accelerators
from planner.errors import InputError
from planner.runtimes.imports.dispatch import read_runner_file
from planner.runtimes.imports.interpolation import interpolated
from planner.runtimes.imports.sheet import Imported
from tests.cases import every
from tests.cli.command import planner

SHAPE = (
    "--num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 2048 "
    "--max-position-embeddings 2048 --bf16 --micro-batch-size 1 --global-batch-size 256"
)
TRAINED = "--per_device_train_batch_size 1 --gradient_accumulation_steps 2 --max_seq_length 4096"
ZERO_3 = '{"zero_optimization": {"stage": 3}, "bf16": {"enabled": "auto"}}'


def read(folder: Path, text: str, name: str = "run.sh") -> Imported:
    (folder / name).write_text(text)
    return read_runner_file(folder / name)


@every(
    ("values", "count"),
    [
        ({}, 8),
        ({"tp": "8", "pp": "4"}, 32),
        ({"tp": "2", "ep": "16", "etp": "1", "pp": "2"}, 32),
        ({"zero_shards": "16"}, 16),
        ({"micro_batch": "1", "global_batch": "4"}, 4),
        ({"tp": "2", "micro_batch": "1", "global_batch": "2"}, 4),
        ({"tp": "1000003"}, None),
    ],
)
def test_accelerators_that_nobody_says_are_the_fewest_whole_nodes(
    values: dict[str, str], count: int | None
) -> None:
    assert accelerators(8, values) == count


def test_accelerators_that_nobody_says_are_told(tmp_path: Path) -> None:
    (tmp_path / "sft.yaml").write_text(
        "model_name_or_path: Qwen/Qwen2.5-7B\nstage: sft\ndo_train: true\nfinetuning_type: lora\n"
        "template: qwen\ncutoff_len: 2048\npacking: true\nper_device_train_batch_size: 1\nbf16: true\n"
    )
    asked = ("estimate", "--from", str(tmp_path / "sft.yaml"), "--hardware", "dgx-h100", "--format", "json")
    told = planner(*asked)
    assert told.json["from"]["notes"][-1].endswith("priced on 8 of dgx-h100; --gpus N")
    assert "gpus" not in told.json["from"]["options"], "it was not read"
    assert planner(*asked, "--gpus", "16").json["plan"]["dp"] == 16


def test_accelerators_that_are_said_wrongly_are_a_fault(tmp_path: Path) -> None:
    text = (
        "distributed_type: FSDP\nmixed_precision: bf16\nnum_processes: many\nfsdp_config: {fsdp_version: 2}\n"
    )
    (tmp_path / "a.yaml").write_text(text)
    told = planner("estimate", "llama3-8b", "--from", str(tmp_path / "a.yaml"), "--hardware", "dgx-h100")
    assert told.code == 2
    assert "num_processes: found 'many'" in told.err


def test_slurm_directives_stand_for_its_variables(tmp_path: Path) -> None:
    script = (
        "#!/bin/bash\n#SBATCH --nodes=4\n#SBATCH --gres=gpu:h100:8\n"
        "torchrun --nnodes $SLURM_JOB_NUM_NODES --nproc_per_node $SLURM_GPUS_ON_NODE pretrain_gpt.py "
        f"{SHAPE.replace('256', '$((SLURM_NNODES * 32))')}\n"
    )
    found = read(tmp_path, script).checked()
    assert (found.options["gpus"], found.options["global_batch"]) == ("32", "128")


def test_a_script_is_read_with_what_it_sources_near_it(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "env.sh").write_text(f'export TP=4\nMODEL_ARGS="{SHAPE}"\nif [ \'\n')
    (tmp_path / "conf" / "args.sh").write_text(f'export TP=4\nMODEL_ARGS="{SHAPE}"\n')
    script = (
        'HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" >/dev/null 2>&1 && pwd)"\n'
        'source ~/.bashrc\nsource "$HERE/absolute.sh"\n. conf/args.sh\n'
        "torchrun --nproc_per_node 8 pretrain_gpt.py --tensor-model-parallel-size $TP $MODEL_ARGS\n"
    )
    assert read(tmp_path, script).options["tp"] == "4"
    broken = read(tmp_path, script.replace("args.sh", "env.sh").replace("$MODEL_ARGS", SHAPE))
    assert broken.options["seq_len"] == "2048", "a broken script that is sourced is passed over"


def test_a_script_is_sourced_a_bounded_number_of_times(tmp_path: Path) -> None:
    script = f". ./run.sh\n. ./run.sh\ntorchrun --nproc_per_node 8 pretrain_gpt.py {SHAPE}\n"
    assert read(tmp_path, script).options["gpus"] == "8"


def test_flags_of_forks_are_read_as_they_are_meant(tmp_path: Path) -> None:
    """BigCode's multi-query attention; Megatron-DeepSpeed's norms and experts."""
    program = "torchrun --nproc_per_node 8 pretrain_gpt.py"
    one = read(tmp_path, f"{program} {SHAPE} --attention-head-type multiquery").model
    assert one is not None
    assert one.blocks[one.layers[0]].mixer.kv_heads == 1  # type: ignore[union-attr]
    deep = (
        f"{program} {SHAPE} --deepspeed --zero-stage 1 --normalization rmsnorm --num-experts 8 "
        "--moe-expert-parallel-size 4 --expert-interval 2 --moe-loss-coeff 0.01"
    )
    found = read(tmp_path, deep)
    assert (found.options["ep"], found.options["etp"], found.unknown) == ("4", "1", ())
    model = found.model
    assert model is not None
    kinds = [model.blocks[name].ffn.kind for name in model.layers]  # type: ignore[union-attr]
    assert kinds == ["dense", "moe"] * 12
    assert model.norm == "rmsnorm"
    dense = read(tmp_path, deep.replace("--num-experts 8", "--num-experts 1"))
    assert "ep" not in dense.options

    few = read(tmp_path, f"{program} {SHAPE} --deepspeed --zero-stage 1 --num-key-value-heads 4").model
    assert few is not None
    assert few.blocks[few.layers[0]].mixer.kv_heads == 4  # type: ignore[union-attr]


MINDSPEED = (
    "msrun --worker_num 16 --local_worker_num 8 pretrain_gpt.py --num-layers 8 --hidden-size 1024 "
    "--num-attention-heads 16 --ffn-hidden-size 4096 --seq-length 2048 --max-position-embeddings 2048 "
    "--padded-vocab-size 32000 --position-embedding-type rope --swiglu --normalization RMSNorm --bf16 "
    "--disable-bias-linear --untie-embeddings-and-output-weights --micro-batch-size 1 --global-batch-size 32 "
    "--tensor-model-parallel-size 2 --use-fused-rmsnorm --use-fused-swiglu --use-distributed-optimizer"
)


def test_mindspeeds_flags_are_read_as_megatrons(tmp_path: Path) -> None:
    experts = (
        "--num-experts 16 --moe-router-topk 2 --moe-ffn-hidden-size 512 --n-shared-experts 2 "
        "--moe-layer-freq -1 --first-k-dense-replace 3 --expert-model-parallel-size 2 "
        "--moe-tp-extend-ep --moe-permutation-async-comm "
        "--moe-router-load-balancing-type pai_megatron_aux_loss --moe-grouped-gemm --sequence-parallel"
    )
    found = read(tmp_path, f"{MINDSPEED} {experts}").checked()
    assert (found.options["gpus"], found.options["ep"], found.options["etp"]) == ("16", "4", "1")
    model = found.model
    assert model is not None
    ffns = [model.blocks[name].ffn for name in model.layers]
    assert [ffn.kind for ffn in ffns if ffn is not None] == ["dense"] * 3 + ["moe"] * 5
    assert ffns[-1].shared_inner == 1024  # type: ignore[union-attr]
    assert model.vocab == 32_000
    assert not found.unknown
    assert any("experts' messages is not priced" in note for note in found.notes)


def test_layers_of_mindspeed_that_do_nothing_are_no_layers(tmp_path: Path) -> None:
    stages = "--pipeline-model-parallel-size 2 --noop-layers 6,7"
    for extra, split in (("", "4,2"), ("--num-layers-per-virtual-pipeline-stage 2", "2,2,2,0")):
        found = read(tmp_path, f"{MINDSPEED} {stages} {extra}").checked()
        assert found.options["stage_layers"] == split
    listed = read(tmp_path, f"{MINDSPEED} --pipeline-model-parallel-size 2 --num-layer-list 5,3").checked()
    assert listed.options["stage_layers"] == "5,3"
    ring = "--context-parallel-size 2 --context-parallel-algo ulysses_cp_algo"
    assert read(tmp_path, f"{MINDSPEED} {ring}").checked().options["cp_method"] == "all-to-all"


def test_arguments_that_nobody_has_set_are_no_part_of_a_value(tmp_path: Path) -> None:
    line = f"torchrun --nproc_per_node 8 pretrain_gpt.py {SHAPE} --seq-length 2048 $EXTRA ${{MORE[@]}} --bf16"
    found = read(tmp_path, line)
    assert found.options["seq_len"] == "2048"
    assert not [fault for _, fault in found.faults if "seq" in fault.where]


def test_a_fine_tuning_of_mindspeed_has_adapters_and_no_rewards(tmp_path: Path) -> None:
    tuned = MINDSPEED.replace("pretrain_gpt", "posttrain_gpt") + " --stage sft --lora-r 8 --lora-alpha 16"
    found = read(tmp_path, f"{tuned} --lora-target-modules linear_qkv linear_proj").checked()
    said = found.options
    assert (found.runtime, said["method"], said["lora_rank"]) == ("megatron-bridge", "lora", "8")
    assert said["lora_targets"] == "qkv+proj"
    for flag, place in (("--stage dpo", "--stage"), ("--swap-optimizer", "--swap-optimizer")):
        with pytest.raises(InputError, match=place):
            read(tmp_path, f"{MINDSPEED} {flag}").checked()


def test_a_yaml_that_repeats_a_key_has_its_last_value(tmp_path: Path) -> None:
    text = (
        "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nmixed_precision: bf16\n"
        "num_processes: 4\nnum_processes: 8\nfsdp_config: {fsdp_version: 2}\n"
    )
    found = read(tmp_path, text, "accelerate.yaml")
    assert found.options["gpus"] == "8"
    assert "'num_processes' twice: the last counts" in found.notes[0]


def test_references_of_a_yaml_are_followed_and_end() -> None:
    tree = {
        "training": {"x": 3},
        "model": {"hidden": 8, "ffn": "${multiply:4, ${.hidden}}", "same": "${model.ffn}", "up": "${..top}"},
        "top": "${data_dir}/x",
        "loop": "${pool}",
        "pool": "${loop}",
    }
    model = interpolated(tree)["model"]
    assert model == {"hidden": 8, "ffn": 32, "same": 32, "up": "${data_dir}/x"}
    assert interpolated({"x": "${training.y}", "y": 3})["x"] == 3
    doubled = {"k0": "x" * 9} | {f"k{n}": f"${{k{n - 1}}}${{k{n - 1}}}" for n in range(1, 99)}
    assert max(len(str(value)) for value in interpolated(doubled).values()) < 10_000


NEMO = """
trainer: {num_nodes: 1, devices: 8, precision: bf16}
model:
  tensor_model_parallel_size: 2
  micro_batch_size: 1
  global_batch_size: 64
  encoder_seq_length: 2048
  max_position_embeddings: ${.encoder_seq_length}
  num_layers: 24
  hidden_size: 2048
  ffn_hidden_size: ${multiply:4, ${.hidden_size}}
  num_attention_heads: 16
  tokenizer: {library: megatron, type: GPT2BPETokenizer}
"""


def test_a_nemo_yaml_refers_to_its_own_keys_and_names_its_tokenizer(tmp_path: Path) -> None:
    found = read(tmp_path, NEMO, "gpt.yaml").checked()
    assert (found.model_name, found.options["seq_len"]) == ("gpt3-1.3b", "2048")
    whole = read(tmp_path, f"{NEMO}  encoder: {{num_layers: 2}}\n", "t5.yaml")
    assert [problem.where.rpartition(": ")[2] for _, problem in whole.faults] == ["model.encoder"]


def test_the_launcher_of_accelerate_says_numbers_and_the_file_of_deepspeed(tmp_path: Path) -> None:
    """As mason.py of open-instruct starts it: what follows ``accelerate launch`` trains, on each node."""
    (tmp_path / "stage3.conf").write_text(ZERO_3)
    script = (
        "python mason.py --cluster x --num_nodes 2 -- accelerate launch --mixed_precision bf16 "
        "--num_processes 8 --use_deepspeed --deepspeed_config_file stage3.conf finetune.py "
        f"--model_name_or_path meta-llama/Llama-3.1-8B {TRAINED}\n"
    )
    found = read(tmp_path, script).checked()
    told = {name: found.options[name] for name in ("gpus", "zero", "precision")}
    assert (found.runtime, told) == ("deepspeed", {"gpus": "16", "zero": "3", "precision": "bf16"})
    gone = read(tmp_path, script.replace("stage3.conf", "stage2.conf"))
    assert [option for option, _ in gone.faults] == ["zero"]


def test_the_file_of_fsdp_is_read(tmp_path: Path) -> None:
    (tmp_path / "fsdp.json").write_text('{"activation_checkpointing": true, "reshard_after_forward": false}')
    script = (
        "torchrun --nproc_per_node 8 sft.py --model_name_or_path Qwen/Qwen2.5-7B --bf16 True "
        f"{TRAINED} --fsdp full_shard --fsdp_config fsdp.json\n"
    )
    found = read(tmp_path, script)
    assert (found.options["recompute"], found.unknown, found.faults) == ("full", (), ())
    assert [option for option, _ in read(tmp_path, script.replace("fsdp.json", "x.json")).faults] == ["zero"]


def test_a_model_is_known_by_the_beginning_of_its_name_and_that_is_told(tmp_path: Path) -> None:
    script = f"torchrun --nproc_per_node 8 sft.py --model_name_or_path /d/llama_2_7b_ours {TRAINED}"
    found = read(tmp_path, script)
    assert found.model_name == "llama2-7b"
    assert any("by its name taken as llama2-7b" in note for note in found.notes)


def test_passes_that_are_not_known_are_answered_by_the_batch(tmp_path: Path) -> None:
    script = f"torchrun --nproc_per_node 8 sft.py --model_name_or_path Qwen/Qwen2.5-7B {TRAINED}"
    found = read(tmp_path, script.replace("steps 2", "steps $((16 / $(hostname | wc -l)))"))
    assert [option for option, _ in found.faults] == ["global_batch"]
    assert "--global-batch on the command line" in found.faults[0][1].expected


@every(
    ("extra", "expected"),
    [
        ("--sequence_parallel_size 4 --deepspeed zero3", {"cp": 4, "zero": 3}),
        ("--sequence_parallel_size 2 --fsdp full_shard", {"cp": 2, "zero": 3}),
        ("--train_type lora --quant_bits 4 --deepspeed zero2", {"zero": 2}),
    ],
)
def test_what_a_library_has_above_its_runtime_is_priced(
    tmp_path: Path, extra: str, expected: dict[str, int]
) -> None:
    """Ulysses under FSDP (ms-swift) and 4-bit bases under DeepSpeed (PEFT) are no plans that emit writes."""
    kind = "" if "train_type" in extra else "--train_type full "
    (tmp_path / "run.sh").write_text(
        "NPROC_PER_NODE=8 swift sft --model Qwen/Qwen2.5-7B --torch_dtype bfloat16 --dataset x "
        f"--per_device_train_batch_size 1 --gradient_accumulation_steps 1 --max_length 4096 {kind}{extra}\n"
    )
    told = planner(
        "estimate", "--from", str(tmp_path / "run.sh"), "--hardware", "dgx-h100", "--format", "json"
    )
    assert told.code == 0, told.err
    assert {name: told.json["plan"][name] for name in expected} == expected


def test_a_nanotron_of_another_age_is_read(tmp_path: Path) -> None:
    """Until 0.3 Adam's numbers stood in ``optimizer`` itself, and one section ``data`` held the data."""
    text = """
general: {project: x, run: y, seed: 1}
checkpoints: {checkpoint_interval: 10, checkpoints_path: c, checkpoints_path_is_shared_file_system: false}
data: {dataset: null, seed: 1, num_loading_workers: 1}
parallelism: {dp: 4, tp: 2, pp: 1, pp_engine: 1f1b, tp_mode: REDUCE_SCATTER,
  tp_linear_async_communication: true}
tokens: {sequence_length: 2048, train_steps: 70_010, micro_batch_size: 1, batch_accumulation_per_replica: 4}
model:
  dtype: bfloat16
  init_method: {std: 0.025}
  model_config: {is_llama_config: true, hidden_size: 2048, intermediate_size: 5632, num_hidden_layers: 22,
    num_attention_heads: 32, num_key_value_heads: 4, vocab_size: 32000, max_position_embeddings: 2048}
optimizer: {zero_stage: 1, weight_decay: 0.1, clip_grad: 1.0, accumulate_grad_in_fp32: true,
  adam_beta1: 0.9, adam_beta2: 0.95, adam_eps: 1.0e-8, torch_adam_is_fused: true,
  learning_rate_scheduler: {learning_rate: 0.0003, lr_warmup_steps: 10, lr_warmup_style: linear,
    lr_decay_style: cosine, min_decay_lr: 1.0e-5}}
"""
    found = read(tmp_path, text, "tiny.yaml").checked()
    assert {name: found.options[name] for name in ("dp", "tp", "zero")} == {"dp": "4", "tp": "2", "zero": "1"}
    assert "before 0.4" in found.notes[0]
    for gone, key in (("{std: 0.025}", "model.init_method"), (" lr_warmup_style: linear,", "warmup_style")):
        bad = read(tmp_path, text.replace(gone, "{}" if "{" in gone else ""), "bad.yaml")
        assert [problem.where.endswith(key) for _, problem in bad.faults] == [True]
    mixed = text.replace("zero_stage: 1,", "zero_stage: 1, optimizer_factory: {name: adamW},")
    assert read(tmp_path, mixed, "mixed.yaml").faults, "keys of two ages"


FLAGSCALE = """
system:
  tensor_model_parallel_size: 2
  pipeline_model_parallel_size: 2
  use_distributed_optimizer: true
  precision: {bf16: true}
  checkpoint: {save_interval: "${experiment.save_steps}", ckpt_format: "${experiment.ckpt_format}"}
model: {num_layers: 24, hidden_size: 2048, num_attention_heads: 16, swiglu: true, multiple_of: 256,
  hidden_dim_multiplier: 1.3, seq_length: 4096, max_position_embeddings: 4096, micro_batch_size: 1,
  global_batch_size: 64, untie_embeddings_and_output_weights: true, optimizer: {lr_scheduler: {lr: 3.0e-4}}}
data: {tokenizer: {tokenizer_type: QwenTokenizerFS, vocab_size: 151851}}
"""
EXPERIMENT = """
defaults: [_self_, {train: tiny}]
experiment: {save_steps: 10, ckpt_format: torch, task: {type: train, backend: megatron},
  runner: {backend: torchrun, nnodes: 2, nproc_per_node: 8}}
"""


def test_a_file_of_flagscale_and_its_experiment_are_read(tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    alone = read(tmp_path / "train", FLAGSCALE, "tiny.yaml").checked()
    whole = read(tmp_path, EXPERIMENT, "train.yaml").checked()
    assert {**alone.options, "gpus": "16", "ranks": "8"} == whole.options
    model = whole.model
    assert model is not None
    width = int(int(4 * 2048 * 2 / 3) * 1.3)
    assert model.blocks[model.layers[0]].ffn.inner == -(-width // 256) * 256  # type: ignore[union-attr]
    uneven = FLAGSCALE.replace("  precision:", "  hetero: {enable_hetero: true}\n  precision:")
    with pytest.raises(InputError, match="enable_hetero"):
        read(tmp_path, uneven, "uneven.yaml")


@every("flag", ["--enable-zb-runtime", "--enable-zbh1-pipeline"])
def test_a_schedule_of_a_fork_is_not_priced_as_another(flag: str, tmp_path: Path) -> None:
    script = f"torchrun --nproc_per_node 8 pretrain_gpt.py {SHAPE} {flag}"
    assert [option for option, _ in read(tmp_path, script).faults] == ["schedule"]


def test_what_a_file_that_is_not_there_says_can_be_said_by_options(tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    path.write_text("deepspeed --num_gpus 8 train.py --deepspeed_config ds.json\n", encoding="utf-8")
    found = read_runner_file(path)
    assert {option for option, _ in found.faults} == {"zero", "micro_batch"}
    assert found.checked({"zero", "micro_batch"}).runtime == "deepspeed"
    path.write_text("torchrun run_train.py --config-file tiny.yaml\n", encoding="utf-8")
    with pytest.raises(InputError, match="the options of a plan"):
        read_runner_file(path)
    path.write_text(
        "accelerate launch --config_file no.yaml train.py --model_name_or_path x --max_seq_length 512"
        " --per_device_train_batch_size 2\n",
        encoding="utf-8",
    )
    assert "zero" in {option for option, _ in read_runner_file(path).faults}
