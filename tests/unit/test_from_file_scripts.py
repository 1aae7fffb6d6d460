"""What scripts found elsewhere say in ways of their own, and Megatron-LM's hybrids and ``--yaml-cfg``."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from planner.errors import InputError
from planner.runtimes.imports.command_line import training_of
from planner.runtimes.imports.dispatch import ALONE, read_runner_file
from planner.runtimes.imports.sheet import Imported
from planner.runtimes.imports.shell import read_script
from tests.cases import every
from tests.cli.command import planner
from tests.unit.test_from_file_sums import MEGATRON

SHAPE = (
    "--num-layers 4 --hidden-size 256 --num-attention-heads 4 --max-position-embeddings 128 --seq-length 128"
    " --micro-batch-size 1 --global-batch-size 8 --bf16 --vocab-size 1024"
)


def read(folder: Path, text: str, name: str = "train.sh") -> Imported:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return read_runner_file(file)


@every(
    "text",
    [
        ': "${A:=3}"\necho $A',
        ': ${A=3}\nB=${A:=4}\necho $A $B',
        "A=2\n: ${A:=3}\necho $A",
        'A=$(cat <<- END\nrun --a \\\n  --b \\$C\nEND\n)\necho $A',
        "B=7\nA=$(cat <<END\n--a $B\nEND\n)\necho $A",
        "B=7\nA=$(cat <<'END'\n--a $B\nEND\n)\necho $A",
    ],
)  # fmt: skip
def test_defaults_and_documents_are_those_of_bash(text: str) -> None:
    said = subprocess.check_output(["bash", "-c", text], text=True).split()
    assert read_script(text, "it").commands[-1] == ("echo", *said)


def test_what_a_command_would_print_is_one_word(tmp_path: Path) -> None:
    name = "run_$(date +%F | head -c 4)_$(( $(ls | wc -l) - 2 ))"
    text = f"A='--noted-as {name}'\ntorchrun pretrain_gpt.py $A {SHAPE}"
    assert read(tmp_path, text).unknown == ("--noted-as",)


def test_arguments_in_an_array_are_read_where_nothing_starts_them(tmp_path: Path) -> None:
    found = read(tmp_path, f"ALL=()\nALL+=({SHAPE})\nALL+=(--tensor-model-parallel-size 2)\n").checked()
    assert (found.options["tp"], found.options["global_batch"]) == ("2", "8")


def test_a_fork_that_spells_flags_with_underscores_is_read(tmp_path: Path) -> None:
    words = SHAPE.replace("-", "_").replace("__", "--") + " --tensor_model_parallel_size 2"
    found = read(tmp_path, f"torchrun --nproc_per_node 8 pretrain_gpt.py {words}").checked()
    assert (found.options["tp"], found.options["seq_len"], found.unknown) == ("2", "128", ())


def test_a_fork_may_save_otherwise_and_megatron_may_not(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--save-interval"):
        read(tmp_path, f"python pretrain_gpt.py {SHAPE} --save a").checked()
    found = read(tmp_path, f"python pretrain_gpt.py {SHAPE} --save a --use-mpi").checked()
    assert any("a fork (--use-mpi)" in note for note in found.notes)


def test_a_tokenizer_of_the_same_kind_is_not_llama_2s(tmp_path: Path) -> None:
    shape = SHAPE.replace(" --vocab-size 1024", " --tokenizer-type Llama2Tokenizer --tokenizer-model")
    ours = read(tmp_path, f"python pretrain_gpt.py {shape} /src/our-tokenizer-v4/v4.model").checked()
    theirs = read(tmp_path, f"python pretrain_gpt.py {shape} /data/llama-2-7b/tokenizer.model").checked()
    assert ours.model is not None
    assert theirs.model is not None
    assert (ours.model.vocab, theirs.model.vocab) == (50_257, 32_000)


def test_accelerate_as_a_module_is_its_launcher(tmp_path: Path) -> None:
    text = (
        "uv run python -m accelerate.commands.launch --mixed_precision bf16 --num_processes 4 finetune.py"
        " --model_name_or_path Qwen/Qwen2.5-7B --per_device_train_batch_size 2 --max_seq_length 2048"
    )
    found = read(tmp_path, text).checked()
    assert (found.options["precision"], found.options["gpus"]) == ("bf16", "4")


HYBRID = SHAPE.replace("--num-layers 4 ", "") + " --position-embedding-type none --disable-bias-linear"


def test_a_hybrid_is_read_with_its_stages(tmp_path: Path) -> None:
    text = f"torchrun --nproc_per_node 8 pretrain_hybrid.py {HYBRID} --pipeline-model-parallel-size 2"
    found = read(tmp_path, f"{text} --hybrid-layer-pattern 'M-M*|M-M-M'").checked()
    assert found.options["stage_layers"] == "4,5"
    model = found.model
    assert model is not None
    mixers = [getattr(model.blocks[name].mixer, "kind", None) for name in model.layers]
    assert mixers == ["mamba2", None, "mamba2", "attention", "mamba2", None, "mamba2", None, "mamba2"]


def test_shares_of_a_hybrid_are_laid_out_as_the_core_lays_them(tmp_path: Path) -> None:
    """The order is what ``pattern_from_ratios`` of Megatron-LM d98e8a64 returns for 8 layers."""
    shares = "--hybrid-attention-ratio 0.25 --hybrid-mlp-ratio 0.25"
    model = read(tmp_path, f"python pretrain_mamba.py --num-layers 8 {HYBRID} {shares}").checked().model
    assert model is not None
    parts = [
        "M" if b.recurrent else "*" if b.mixer else "-" for b in map(model.blocks.__getitem__, model.layers)
    ]
    assert "".join(parts) == "MM*-M*M-"


@every(
    ("more", "key"),
    [
        ("--hybrid-layer-pattern M-X", "--hybrid-layer-pattern"),
        ("--hybrid-layer-pattern 'M-|M-|M-' --pipeline-model-parallel-size 2", "--hybrid-layer-pattern"),
        ("--hybrid-layer-pattern M- --hybrid-override-pattern M-", "--hybrid-layer-pattern"),
        ("--hybrid-layer-pattern ME", "--num-experts"),
        (
            "--hybrid-layer-pattern 'M-|M' --pipeline-model-parallel-size 2"
            " --decoder-first-pipeline-num-layers 1",
            "--decoder-first-pipeline-num-layers",
        ),
        (
            "--hybrid-layer-pattern M-M- --pipeline-model-parallel-size 2"
            " --num-layers-per-virtual-pipeline-stage 1",
            "--num-layers-per-virtual-pipeline-stage",
        ),
        ("--hybrid-layer-pattern M- --mtp-num-layers 1", "--mtp-num-layers"),
        ("--num-layers 8 --hybrid-attention-ratio 1.5", "--hybrid-attention-ratio"),
    ],
)
def test_a_hybrid_that_megatron_refuses_is_a_fault(tmp_path: Path, more: str, key: str) -> None:
    with pytest.raises(InputError, match=key):
        read(tmp_path, f"torchrun --nproc_per_node 8 pretrain_hybrid.py {HYBRID} {more}").checked()


def test_what_is_written_for_a_hybrid_is_read_back(tmp_path: Path) -> None:
    layout = ("--gpus", "16", "--tp", "2", "--ep", "8", "--pp", "2", "--sequence-parallel", "--cp", "1")
    job = ("nemotron-3-nano-30b-a3b", "--hardware", "dgx-h100", "--seq-len", "4096", "--global-batch", "64")
    saved, back = tmp_path / "plan.yaml", tmp_path / "back.yaml"
    assert planner("estimate", *job, *layout, "--save", str(saved)).code == 0
    assert planner("emit", str(saved), "--out", str(tmp_path / "out")).code == 0
    script = str(tmp_path / "out" / "train.sh")
    assert planner("estimate", "--from", script, "--hardware", "dgx-h100", "--save", str(back)).code == 0
    assert back.read_text(encoding="utf-8") == saved.read_text(encoding="utf-8")


CONFIG = """\
language_model:
  num_layers: 4
  hidden_size: 256
  num_attention_heads: 4
  num_query_groups: null
  ffn_hidden_size: 512
  add_bias_linear: False
  activation_func: swiglu
  num_moe_experts: null
  normalization: RMSNorm
  init_method: null
model_parallel:
  tensor_model_parallel_size: 2
  pipeline_model_parallel_size: 1
  sequence_parallel: True
  bf16: True
  grad_scale_func: null
swiglu: False
micro_batch_size: 1
global_batch_size: 8
seq_length: 128
max_position_embeddings: 128
position_embedding_type: rope
untie_embeddings_and_output_weights: True
vocab_size: 1024
use_distributed_optimizer: True
"""


def test_a_yaml_takes_the_place_of_megatrons_arguments(tmp_path: Path) -> None:
    (tmp_path / "gpt.yaml").write_text(CONFIG, encoding="utf-8")
    text = "torchrun --nproc_per_node 8 pretrain_gpt.py --yaml-cfg gpt.yaml"
    for found in (read(tmp_path, text).checked(), read_runner_file(tmp_path / "gpt.yaml").checked()):
        assert [found.options[name] for name in ("tp", "zero", "seq_len")] == ["2", "1", "128"]
        assert found.model is not None
        assert found.model.params == 2 * 1024 * 256 + 256 + 4 * (4 * 256**2 + 3 * 256 * 512 + 2 * 256)
        assert found.unknown == ()


def test_a_yaml_is_held_to_megatrons_sums(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--recompute-granularity"):
        read(tmp_path, f"{CONFIG}recompute_granularity: full\n", "gpt.yaml").checked()


TITAN = """\
[model]
name = "{}"
flavor = "{}"
[training]
local_batch_size = 2
{}
[parallelism]
data_parallel_shard_degree = -1
"""


@every(
    ("family", "flavor", "training", "params", "tokens"),
    [
        ("llama3", "debugmodel", "seq_len = 2048", 6_163_712, "2048"),
        ("llama3", "debugmodel_varlen_attn", "seq_len = 2048", 6_163_712, "2048"),
        ("qwen3", "debugmodel", "seq_len = 2048", 31_987_968, "2048"),
        ("qwen3", "debugmodel_moe", "seq_len = 2048", 315_758_848, "2048"),
        ("deepseek_v3", "debugmodel", "seq_len = 2048", 33_014_016, "2048"),
        ("llama4", "debugmodel", "seq_len = 2048", 15_017_216, "2048"),
        ("gpt_oss", "debugmodel", "seq_len = 2048", 183_397_920, "2048"),
        ("flux", "flux-dev", "img_size = 512", 11_891_178_560, "1280"),
        ("flux", "flux-schnell", "", 11_891_178_560, "512"),
    ],
)
def test_torchtitans_own_models_are_read(
    tmp_path: Path, family: str, flavor: str, training: str, params: int, tokens: str
) -> None:
    """Counted by building each of torchtitan v0.2.2 on the meta device."""
    found = read(tmp_path, TITAN.format(family, flavor, training), "job.toml").checked()
    assert found.model is not None
    assert (found.model.params, found.options["seq_len"]) == (params, tokens)


TRAINER = "torchrun --nproc_per_node 4 x.py --bf16 --max_seq_length 2048 --per_device_train_batch_size 1"


def test_quantised_checkpoints_and_layers_in_turns_are_no_plain_training(tmp_path: Path) -> None:
    four = read(
        tmp_path, f"{TRAINER} --model_name_or_path Qwen/Qwen2.5-7B --use_qlora 1 --lora_r 8"
    ).checked()
    assert four.options["method"] == "qlora"
    with pytest.raises(InputError, match="--method qlora"):
        read(tmp_path, f"{TRAINER} --model_name_or_path x/Meta-Llama-3-8B-Instruct-AWQ --lora_r 8").checked()
    with pytest.raises(InputError, match="use_lisa"):
        read(tmp_path, f"{TRAINER} --model_name_or_path Qwen/Qwen2.5-7B --use_lisa 1").checked()


NEMO = """\
trainer: {devices: 8, num_nodes: 1, precision: bf16}
model:
  tensor_model_parallel_size: 2
  micro_batch_size: 1
  global_batch_size: 8
  encoder_seq_length: 128
  num_layers: 4
  hidden_size: 256
  num_attention_heads: 4
  rotary_base: 500000.0
  override_vocab_size: 1024
  fp8: true
  fp8_params: true
"""


def test_fp8_of_nemo_is_delayed(tmp_path: Path) -> None:
    found = read(tmp_path, NEMO, "nemo.yaml").checked()
    assert found.options["precision"] == "fp8-delayed"
    assert "low_bit_weights=alone" in found.changes
    plain = read(tmp_path, NEMO.replace("fp8: true", "fp8: false"), "nemo.yaml").checked()
    assert (plain.options["precision"], "low_bit_weights=alone" in plain.changes) == ("bf16", False)


SPARSE = f"{MEGATRON} --bf16 --num-experts 8 --sequence-parallel --tensor-model-parallel-size $TP\n"
SHARED = "NUM=$(nvidia-smi -L | wc -l)\nSTEPS=$((512 / NUM / 4))\n"


def test_what_a_command_prints_is_the_environments_to_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = f"{SHARED}{TRAINER} --model_name_or_path Qwen/Qwen2.5-7B --gradient_accumulation_steps $STEPS"
    with pytest.raises(InputError, match=r"512 / \$\{NUM\} / 4.*NUM=value planner"):
        read(tmp_path, line).checked()
    monkeypatch.setenv("NUM", "8")
    assert read(tmp_path, line).checked().options["accumulation"] == "16"


def test_models_by_other_flags_images_and_several_commands(tmp_path: Path) -> None:
    found = read(
        tmp_path, f"{TRAINER} --model_path Qwen/Qwen2.5-7B --use_peft\n{TRAINER} --base_model Qwen/Qwen2.5-3B"
    )
    assert found.checked().model_name == "qwen2.5-3b"
    assert "2 commands train: the last is read" in found.notes
    adapted = read(tmp_path, f"{TRAINER} --model_path Qwen/Qwen2.5-7B --use_peft").checked()
    assert any("q_proj and v_proj, as peft has it" in note for note in adapted.notes)
    with pytest.raises(InputError, match="vision_tower"):
        read(tmp_path, f"{TRAINER} --model_path Qwen/Qwen2.5-7B --vision_tower clip").checked()
    saved = read(
        tmp_path, f"{TRAINER} --model_path Qwen/Qwen2.5-7B --use_peft --modules_to_save lm_head,norm"
    )
    assert saved.checked().options["lora_targets"] == "qkv+ends"


def test_one_flag_says_tensor_parallelism_of_experts_too(tmp_path: Path) -> None:
    path = tmp_path / "train.sh"
    path.write_text(SPARSE)
    ask = ("--from", str(path), "--hardware", "dgx-h100", "--format", "json")
    plan = planner("estimate", *ask, "--tp", "2").json["plan"]
    assert (plan["tp"], plan["etp"]) == (2, 2)


def test_a_script_of_the_files_own_name_starts_it(tmp_path: Path) -> None:
    recipe = "model_name_or_path: Qwen/Qwen2.5-7B\nper_device_train_batch_size: 2\nlearning_rate: 1.0e-5\n"
    (tmp_path / "sft.sh").write_text("echo nothing about the recipe")
    with pytest.raises(InputError, match="layout"):
        read(tmp_path, recipe, "sft.yaml").checked()
    (tmp_path / "sft.sh").write_text(
        "torchrun --nproc_per_node 4 sft.py --config sft.yaml --deepspeed zero3\n"
    )
    found = read(tmp_path, recipe, "sft.yaml").checked()
    assert (found.options["gpus"], found.options["micro_batch"]) == ("4", "2")


@every(
    "flag",
    ["--moe-ffn-hidden-size", "--moe-router-topk", "--kv-channels", "--multi-latent-attention --kv-lora-rank",
     "--multi-latent-attention --v-head-dim"],
)  # fmt: skip
def test_a_width_of_nothing_is_no_default(flag: str, tmp_path: Path) -> None:
    """Megatron-LM takes a width of 0 as it stands, and not as its default or that of a dense layer."""
    line = (
        "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 2 --hidden-size 64 --num-attention-heads 2 "
        f"--seq-length 64 --max-position-embeddings 64 --num-experts 8 {flag} 0"
    )
    with pytest.raises(InputError, match=f"{flag.split()[-1]}: found 0; expected a whole number, 1 or more"):
        read(tmp_path, line).checked()


def test_a_value_of_a_flag_is_no_name_of_a_program(tmp_path: Path) -> None:
    line = (
        "torchrun --nproc_per_node 3 tune.py --per_device_train_batch_size 1 --max_steps 9 --eval_strategy no"
    )
    with pytest.raises(InputError, match="model_name_or_path: found nothing"):
        read(tmp_path, line).checked()


@every(
    ("family", "config", "params", "length"),
    [
        ("llama3", "llama3_debugmodel", 6_163_712, "2048"),
        ("deepseek_v3", "deepseek_v3_debugmodel", 33_014_016, "2048"),
        ("qwen3", "qwen3_debugmodel", 31_987_968, "2048"),
        ("qwen3", "qwen3_moe_debug", 315_758_848, "4096"),
        ("gpt_oss", "gpt_oss_debugmodel", 81_489_440, "2048"),
        ("flux", "flux_schnell", 11_891_178_560, "512"),
        ("flux", "flux_schnell_mxfp8", 11_891_178_560, "512"),
    ],
)
def test_torchtitans_own_models_by_their_functions(
    tmp_path: Path, family: str, config: str, params: int, length: str
) -> None:
    """Counted by building each of torchtitan b5bcd76c on the meta device."""
    line = f"torchrun --nproc_per_node 8 -m torchtitan.train --module {family} --config {config}"
    found = read(tmp_path, line).checked()
    assert found.model is not None
    assert (found.model.params, found.options["seq_len"]) == (params, length)


@every(
    ("launcher", "alone"),
    [
        ("torchrun --nnodes 2", True),
        ("srun torchrun --nnodes=2", True),
        ("python -m torch.distributed.run", True),
        ("torchrun --nnodes 2 --nproc-per-node=8", False),
        ("torchrun --nproc_per_node 8", False),
        ("torchrun $DISTRIBUTED_ARGS", False),
        ("PET_NPROC_PER_NODE=8\ntorchrun --nnodes 2", False),
        ("mpirun -n 8 python", False),
    ],
)
def test_torchrun_starts_one_process_a_node_where_it_is_not_told(
    launcher: str, alone: bool, tmp_path: Path
) -> None:
    script = tmp_path / "train.sh"
    script.write_text(f"{launcher} pretrain_gpt.py --num-layers 2 --hidden-size 64 --num-attention-heads 2\n")
    assert (ALONE in read_runner_file(script).notes) == alone


@every(
    ("program", "priced"),
    [
        ("open_instruct/dpo_tune_cache.py", False),
        ("run.py --gpus 8 -- torchrun --nproc_per_node 8 scripts/run_dpo.py", False),
        ("train_grpo.py", False),
        ("nash_md.py", False),
        ("reward_modeling.py", False),
        ("train_sft.py", True),
    ],
)
def test_a_program_called_after_preferences_is_not_priced(program: str, priced: bool, tmp_path: Path) -> None:
    script = tmp_path / "train.sh"
    script.write_text(
        f"torchrun --nproc_per_node 8 {program} --model_name_or_path Qwen/Qwen3-0.6B --bf16 "
        "--per_device_train_batch_size 1 --max_seq_length 1024 --output_dir x\n"
    )
    words = [problem.found for _, problem in read_runner_file(script).faults]
    assert ("a training with rewards or preferences" in words) == (not priced)


BLOOM = (
    "#SBATCH --nodes=16\n#SBATCH --ntasks-per-node=1\n#SBATCH --gres=gpu:4\nGPUS=4\n"
    'export LAUNCHER="python -m torch.distributed.launch --nproc_per_node $GPUS --nnodes 16"\n'
    'export CMD="pretrain_gpt.py --num-layers 24 --hidden-size 2048 --num-attention-heads 16 --bf16 '
    '--tensor-model-parallel-size 2"\necho $CMD\n'
    "srun bash -c '$LAUNCHER --node_rank $SLURM_PROCID $CMD' 2>&1 | tee log\n"
)
"""As Slurm's scripts of BLOOM: one task a node starts a launcher, and the command is printed before."""


def test_a_command_of_another_shell_has_the_script_s_variables() -> None:
    found = training_of(BLOOM, "train.slurm")
    assert (found.nodes, found.ranks, found.words[0]) == (16, 4, "pretrain_gpt.py")
    assert found.flags["--tensor-model-parallel-size"] == "2"


@every(
    ("directives", "ranks"),
    [
        ("--ntasks-per-node=1 --gres=gpu:4", 4),
        ("--ntasks-per-node=4 --gres=gpu:4", 4),
        ("--ntasks-per-node=8", 8),
        ("--gpus-per-node=8", 8),
    ],
)
def test_one_task_of_a_node_with_several_devices_is_a_launcher(directives: str, ranks: int) -> None:
    lines = "\n".join(f"#SBATCH {word}" for word in ["--nodes=2", *directives.split()])
    assert training_of(f"{lines}\nsrun python pretrain_gpt.py --num-layers 2\n", "run.sh").ranks == ranks


@every(
    ("launcher", "nodes", "ranks"),
    [
        ("mpirun -np 32 -N 8 --hostfile h", 4, 8),
        ("mpiexec -n 32 -ppn 8", 4, 8),
        ("mpirun -np 32 --map-by ppr:8:node", 4, 8),
        ("mpirun -np 8", 1, 8),
        ("aprun -n 16 -N 4", 4, 4),
        ("srun -N 4 --ntasks-per-node=8", 4, 8),
        ("srun --ntasks-per-node=8 -N 4", 4, 8),
    ],
)
def test_the_ranks_of_an_mpi_launcher_are_read(launcher: str, nodes: int, ranks: int) -> None:
    found = training_of(f"{launcher} python pretrain_gpt.py --num-layers 2\n", "run.sh")
    assert (found.nodes, found.ranks) == (nodes, ranks)


@every("line", ["--nodes=2 --gpus-per-node=4", "-N 2 --gpus-per-node 4", "-N2 --gres=gpu:4"])
def test_a_line_of_slurm_may_have_several_options(line: str) -> None:
    found = training_of(f"#SBATCH {line}  # comment\nsrun python pretrain_gpt.py --num-layers 2\n", "run.sh")
    assert (found.nodes, found.ranks) == (2, 4)


def test_degrees_of_another_program_are_faults(tmp_path: Path) -> None:
    path = tmp_path / "neox.json"
    path.write_text(
        '{"train_micro_batch_size_per_gpu": 4, "pipe_parallel_size": 2, "model-parallel-size": 4}'
    )
    found = read_runner_file(path)
    assert [option for option, _ in found.faults] == ["pp", "tp"]
    path.write_text('{"train_micro_batch_size_per_gpu": 4, "pipe_parallel_size": 1}')
    assert not read_runner_file(path).faults
