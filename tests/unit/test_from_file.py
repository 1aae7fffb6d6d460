"""Launch files as people write them: what is read, what is not, and what is refused."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import InputError
from planner.runtimes.imports.command_flags import flag_values
from planner.runtimes.imports.command_line import training_of
from planner.runtimes.imports.dispatch import read_runner_file
from planner.runtimes.imports.sheet import Imported
from planner.runtimes.imports.shell import read_script
from planner.runtimes.megatron_lm.layout import layout_layers
from planner.runtimes.megatron_lm.reading.megatron_model import layer_pattern
from tests.cases import every

LLAMA = """\
    --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32
    --group-query-attention --num-query-groups 8 --max-position-embeddings 8192 --seq-length 8192
    --swiglu --normalization RMSNorm --disable-bias-linear --position-embedding-type rope
    --untie-embeddings-and-output-weights
"""

SCRIPT = f"""\
#!/bin/bash
#SBATCH --nodes=4
export CUDA_DEVICE_MAX_CONNECTIONS=1
GPUS_PER_NODE=8
NNODES=${{SLURM_NNODES:-4}}
WORLD_SIZE=$(($GPUS_PER_NODE*$NNODES))
CHECKPOINT_PATH=$1  # the first argument
TP=2; PP="4"
DISTRIBUTED_ARGS=(
    --nproc_per_node $GPUS_PER_NODE   # all of them
    --nnodes $NNODES
    --master_addr $(scontrol show hostnames "$SLURM_NODELIST" | head -1)
)
GPT_MODEL_ARGS=(
{LLAMA})
TRAINING_ARGS="
    --micro-batch-size 1 \\
    --global-batch-size 256 \\
    --bf16 --lr 3.0e-4 --attention-dropout 0.0 --hidden-dropout 0.0 \\
    --overlap-grad-reduce --use-distributed-optimizer --cross-entropy-loss-fusion
"
if [[ $TP -gt 1 ]]; then
    TRAINING_ARGS="$TRAINING_ARGS --sequence-parallel"
fi
PARALLEL=(--tensor-model-parallel-size $TP --pipeline-model-parallel-size "$PP")
PARALLEL+=(--num-layers-per-virtual-pipeline-stage 4 --recompute-activations)
cat <<EOF > hosts
torchrun --nnodes 99 pretrain_gpt.py
EOF
mkdir -p logs && torchrun ${{DISTRIBUTED_ARGS[@]}} pretrain_gpt.py \\
    ${{GPT_MODEL_ARGS[@]}} \\
    $TRAINING_ARGS "${{PARALLEL[@]}}" \\
    --save "$CHECKPOINT_PATH" --tokenizer-type HuggingFaceTokenizer \\
    --made-up-flag 3 --distributed-backend nccl 2>&1 | tee logs/out.log
"""


def read(folder: Path, name: str, text: str) -> Imported:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return read_runner_file(path)


def test_a_script_as_people_write_it(tmp_path: Path) -> None:
    found = read(tmp_path, "pretrain.sh", SCRIPT)
    assert found.runtime == "megatron-lm"
    wanted = {
        "gpus": "32", "tp": "2", "pp": "4", "vpp": "2", "schedule": "interleaved-1f1b", "micro_batch": "1",
        "global_batch": "256", "seq_len": "8192", "precision": "bf16", "zero": "1", "recompute": "selective",
        "stage_layers": ",".join(["4"] * 8), "sequence_parallel": "true", "optimizer": "adamw",
    }  # fmt: skip
    assert {name: found.options.get(name) for name in wanted} == wanted
    assert found.unknown == ("--made-up-flag",)
    assert found.changes == ()


def test_the_zoo_fills_in_the_vocabulary_that_a_tokenizer_decides(tmp_path: Path) -> None:
    assert read(tmp_path, "pretrain.sh", SCRIPT).model_name == "llama3-8b"


def test_a_model_of_ones_own_is_built_whole(tmp_path: Path) -> None:
    own = SCRIPT.replace("--num-layers 32", "--num-layers 16 --vocab-size 50000")
    model = read(tmp_path, "pretrain.sh", own).model
    assert model is not None
    assert (model.num_layers, model.hidden, model.vocab) == (16, 4096, 50000)
    attention = 4096 * (32 + 2 * 8) * 128 + 4096 * 4096
    layer = attention + 3 * 4096 * 14336 + 2 * 4096
    assert model.params == 16 * layer + 2 * 50000 * 4096 + 4096


def test_a_vocabulary_that_nothing_tells_is_that_of_pretrain_gpt_and_told(tmp_path: Path) -> None:
    """``args_defaults={'tokenizer_type': 'GPT2BPETokenizer'}``; a shape of 16 layers is not in the zoo."""
    found = read(tmp_path, "pretrain.sh", SCRIPT.replace("--num-layers 32", "--num-layers 16"))
    assert found.model is not None
    assert found.model.vocab == 50_257
    share = 2 * 50_257 * 4096 / found.model.params
    assert any(f"50,257 tokens are taken, as GPT-2's has, {share:.0%}" in note for note in found.notes)
    assert any("--vocab-size N" in note for note in found.notes)


@every(
    ("flags", "option", "value"),
    [
        ("--context-parallel-size 2 --cp-comm-type a2a", "cp_method", "all-to-all"),
        (
            "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1",
            "recompute",
            "full",
        ),
        (
            "--recompute-granularity full --recompute-method block --recompute-num-layers 3",
            "recompute",
            "full:6",
        ),
        (
            "--recompute-granularity selective --recompute-modules core_attn layernorm",
            "recompute",
            "selective:core_attn+norm",
        ),
        ("--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params", "zero", "3"),
        ("--use-torch-fsdp2", "zero", "3"),
        ("--fp8-format hybrid --fp8-recipe blockwise", "precision", "fp8-block"),
        ("--fp8-format hybrid", "precision", "fp8-delayed"),
        ("--fp16", "gradient_dtype", "fp16"),
        ("--grad-reduce-in-bf16", "gradient_dtype", "bf16"),
        ("--num-experts 8 --moe-router-topk 2 --vocab-size 9", "etp", "2"),
        ("--optimizer-cpu-offload", "offload", "optimizer"),
        ("--cpu-offloading-num-layers 8", "offload", "activations:8"),
        (
            "--use-precision-aware-optimizer --exp-avg-dtype bf16 --exp-avg-sq-dtype bf16",
            "state_dtype",
            "bf16",
        ),
        ("--num-distributed-optimizer-instances 2", "instances", "2"),
    ],
)
def test_flags_of_megatron_are_options(flags: str, option: str, value: str, tmp_path: Path) -> None:
    found = read(tmp_path, "pretrain.sh", SCRIPT.replace("--made-up-flag 3", flags))
    assert found.options[option] == value
    assert found.unknown == ()


def test_uneven_ends_are_cut_as_megatron_cuts_them(tmp_path: Path) -> None:
    ends = "--decoder-first-pipeline-num-layers 6 --decoder-last-pipeline-num-layers 6"
    script = SCRIPT.replace("--num-layers-per-virtual-pipeline-stage 4", ends)
    assert read(tmp_path, "pretrain.sh", script).options["stage_layers"] == "6,10,10,6"
    counted = "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split"
    script = SCRIPT.replace("--num-layers-per-virtual-pipeline-stage 4", counted)
    script = script.replace("--num-layers 32", "--num-layers 30 --vocab-size 1000")
    assert read(tmp_path, "pretrain.sh", script).options["stage_layers"] == "7,8,8,7"


def test_what_is_not_overlapped_is_priced_so(tmp_path: Path) -> None:
    found = read(tmp_path, "pretrain.sh", SCRIPT.replace("--overlap-grad-reduce", ""))
    assert found.changes == ("dp_exposed=1",)
    assert any("--overlap-grad-reduce" in note for note in found.notes)


def test_experts_overlapped_without_delayed_gradients_are_priced_as_with_them(tmp_path: Path) -> None:
    script = SCRIPT.replace("--bf16", "--bf16 --overlap-moe-expert-parallel-comm")
    found = read(tmp_path, "pretrain.sh", script)
    assert "overlaps_experts=true" in found.changes
    assert any("without --delay-wgrad-compute" in note for note in found.notes)


def test_conditions_are_told_where_they_matter(tmp_path: Path) -> None:
    unknown = SCRIPT.replace("$TP -gt 1", "-f here")
    assert any("TRAINING_ARGS" in note for note in read(tmp_path, "a.sh", unknown).notes)
    assert not any("TRAINING_ARGS" in note for note in read(tmp_path, "b.sh", SCRIPT).notes), "2 is above 1"


def test_a_command_kept_in_a_variable_is_found(tmp_path: Path) -> None:
    text = SCRIPT.replace("mkdir -p logs && torchrun", 'CMD="torchrun').replace(
        " 2>&1 | tee logs/out.log", '"'
    )
    inner = text.replace('"${PARALLEL[@]}"', "${PARALLEL[@]}").replace(
        '"$CHECKPOINT_PATH"', "$CHECKPOINT_PATH"
    )
    inner = inner.replace('ARGS="\n    --micro', 'ARGS="--micro').replace('loss-fusion\n"', 'loss-fusion"')
    whole = read(tmp_path, "pretrain.sh", SCRIPT).options
    for start in ('srun bash -c "$CMD"', "srun bash -c '$CMD'", "sbatch <<END\n$CMD\nEND"):
        assert read(tmp_path, "a.sh", f"{inner}{start}\n").options == whole


def test_megatron_deepspeed_is_read_by_its_flags(tmp_path: Path) -> None:
    flags = "--deepspeed --deepspeed_config ./ds_config.$ID.json --zero-stage 2"
    found = read(tmp_path, "a.sh", SCRIPT.replace("--made-up-flag 3", flags))
    assert (found.runtime, found.options["zero"], found.unknown) == ("megatron-lm", "2", ())
    assert any("Megatron-DeepSpeed" in note for note in found.notes)


def test_an_unset_variable_is_a_fault_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a\.sh: --micro-batch-size: found '\$\{MBS\}'"):
        read(tmp_path, "a.sh", SCRIPT.replace("--micro-batch-size 1", "--micro-batch-size $MBS")).checked()


@every(
    ("text", "words"),
    [
        ("run 'a b' \"c $X\" d\\ e", ("run", "a b", "c 1 2", "d e")),
        ('run $X "$X"', ("run", "1", "2", "1 2")),
        ("run ${Y:-3} ${X:+yes} ${Y} ${X/1/2}", ("run", "3", "yes", "${Y}", "${X/1/2}")),
        ('A=(1 "2 3"); A+=(4); run "${A[@]}" ${A[0]}', ("run", "1", "2 3", "4", "1")),
        ("run $((3*(N+1))) $(date) `id`", ("run", "15", "$(date)", "`id`")),
        ("run a#b # c", ("run", "a#b")),
        ("run > log 2>&1 a", ("run", "a")),
        ("N=7 run $N", ("run", "7")),
        ("run <(sort x) a", ("run",)),
    ],
)
def test_words_are_those_that_bash_makes(text: str, words: tuple[str, ...]) -> None:
    found = read_script(f"X='1 2'\nN=4\n{text}\n", "s")
    assert found.commands[0] == words


@every("text", ["run 'a", 'run "a', "run $(a", "A=(1 2", "run ${a"])
def test_what_is_not_closed_is_told_with_its_line(text: str) -> None:
    with pytest.raises(InputError, match=r"^s:2: "):
        read_script(f"\n{text}", "s")


def test_variables_that_double_without_end_are_refused() -> None:
    text = "A=xxxxxxxxxx\n" + "A=$A$A\n" * 40
    with pytest.raises(InputError, match="without end"):
        read_script(text, "s")


def test_nothing_of_a_script_is_run(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    text = SCRIPT + f"\ntouch {mark}\nX=$(touch {mark})\necho `touch {mark}`\n"
    read(tmp_path, "a.sh", text)
    assert not mark.exists()


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet="ab$(){}[]\"'\\`<>|&;#\n =+:-@1!/*", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(InputError):
        assert training_of(f"{text}\ntorchrun pretrain_gpt.py {text}\n", "s").kind == "megatron-lm"


@every(
    ("text", "layers"),
    [("Et*2|(t|)*2tL", [2, 1, 1, 1]), ("E,t|t,t|L", [1, 2, 0]), ("Et|(tt|)*3tmL", [1, 2, 2, 2, 1])],
)
def test_layouts_unfold(text: str, layers: list[int]) -> None:
    assert layout_layers(text) == layers


def test_patterns_that_are_no_lists_are_refused_unrun() -> None:
    assert layer_pattern("__import__('os').getcwd()", 4) is None
    assert layer_pattern("[1]*1000000000", 4) is None
    assert layer_pattern("[0,1]*2", 4) == [False, True, False, True]


def test_the_last_of_a_repeated_flag_counts() -> None:
    assert flag_values(["--tp", "2", "--x", "--tp", "4"]) == {"--x": "", "--tp": "4"}


ZERO = {
    "bf16": {"enabled": True},
    "zero_optimization": {
        "stage": 3, "overlap_comm": True, "reduce_bucket_size": 5e8, "offload_optimizer": {"device": "cpu"},
        "offload_param": {"device": "cpu"}, "madeup": 1,
    },
    "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4, "train_batch_size": 128,
    "gradient_clipping": 1.0, "optimizer": {"type": "Adam", "params": {"lr": 1e-4}},
}  # fmt: skip


def test_a_deepspeed_json_alone(tmp_path: Path) -> None:
    found = read(tmp_path, "zero3.json", json.dumps(ZERO))
    assert found.runtime == "deepspeed"
    wanted = {
        "zero": "3",
        "offload": "weights",
        "micro_batch": "2",
        "accumulation": "4",
        "global_batch": "128",
    }
    assert {name: found.options[name] for name in wanted} == wanted
    assert found.unknown == ("zero_optimization.madeup",)


def test_what_the_trainer_fills_in_is_left_to_options(tmp_path: Path) -> None:
    auto = ZERO | {"train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": "auto"}}
    found = read(tmp_path, "ds.json", json.dumps(auto))
    assert not {"micro_batch", "precision"} & set(found.options)
    assert any("train_micro_batch_size_per_gpu" in note for note in found.notes)


TITAN = """\
[job]
dump_folder = "./outputs"
[model]
name = "llama3"
flavor = "70B"
converters = ["float8"]
[training]
local_batch_size = 8
seq_len = 8192
[parallelism]
data_parallel_replicate_degree = 1
data_parallel_shard_degree = -1
tensor_parallel_degree = 8
pipeline_parallel_degree = 2
pipeline_parallel_schedule = "Interleaved1F1B"
unheard_of = 1
[activation_checkpoint]
mode = "full"
"""


def test_a_torchtitan_toml_of_a_named_model(tmp_path: Path) -> None:
    found = read(tmp_path, "llama3_70b.toml", TITAN)
    assert (found.runtime, found.model_name) == ("torchtitan@0.2.2", "llama3-70b")
    wanted = {
        "tp": "8", "pp": "2", "vpp": "2", "schedule": "interleaved-1f1b", "recompute": "full",
        "precision": "fp8", "accumulation": "8", "micro_batch": "1", "zero": "2",
    }  # fmt: skip
    assert {name: found.options[name] for name in wanted} == wanted
    assert found.unknown == ("parallelism.unheard_of",)


FSDP1 = """\
# accelerate launch --config_file fsdp.yaml train.py --per_device_train_batch_size 2 \
--gradient_accumulation_steps 8 --gradient_checkpointing true
distributed_type: FSDP
fsdp_config:
  fsdp_sharding_strategy: SHARD_GRAD_OP
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
  fsdp_offload_params: true
mixed_precision: bf16
num_machines: 2
num_processes: 16
"""


def test_an_accelerate_yaml_of_the_first_fsdp(tmp_path: Path) -> None:
    found = read(tmp_path, "fsdp.yaml", FSDP1)
    assert found.runtime == "fsdp"
    wanted = {"gpus": "16", "zero": "2", "micro_batch": "2", "accumulation": "8", "recompute": "full"}
    assert {name: found.options[name] for name in wanted} == wanted
    assert found.options["offload"] == "weights"
    assert found.unknown == ()


@every(
    ("flags", "changes"),
    [
        ("--no-rope-fusion", ("fused_rope=false",)),
        ("--no-rope-fusion --multi-latent-attention", ()),
        ("--no-bias-swiglu-fusion", ("fused_activation=false",)),
        ("--no-gradient-accumulation-fusion", ("fused_weight_gradient=false",)),
        ("--no-gradient-accumulation-fusion --use-megatron-fsdp", ()),
        ("--attention-dropout 0.0 --hidden-dropout 0", ()),
        ("--attention-dropout 0.0 --hidden-dropout 0.1", ("dropout=true",)),
        ("--attention-backend unfused", ("attention=unfused",)),
        ("--moe-token-dispatcher-type flex --moe-flex-dispatcher-backend deepep", ("dispatcher=fused",)),
        ("--moe-token-dispatcher-type alltoall", ()),
    ],
)
def test_kernels_that_a_megatron_script_switches_are_priced(
    flags: str, changes: tuple[str, ...], tmp_path: Path
) -> None:
    plain = "torchrun --nproc_per_node 8 pretrain_gpt.py --overlap-grad-reduce --bf16 --num-layers 2"
    plain += " --cross-entropy-loss-fusion"
    plain += " --attention-dropout 0 --hidden-dropout 0.0"
    assert read(tmp_path, "a.sh", f"{plain} {flags}\n").changes == changes


@every("flags", ["", "--attention-dropout 0", "--hidden-dropout 0", "--attention-dropout 0.1"])
def test_a_command_that_does_not_say_drops_a_tenth(flags: str, tmp_path: Path) -> None:
    """megatron/training/arguments.py: both rates are 0.1 unless they are said."""
    plain = "torchrun --nproc_per_node 8 pretrain_gpt.py --overlap-grad-reduce --cross-entropy-loss-fusion"
    assert read(tmp_path, "a.sh", f"{plain} --num-layers 2 {flags}\n").changes == ("dropout=true",)


@every(
    ("stage", "sizes", "changes"),
    [
        (3, '"stage3_max_live_parameters": 1e8, "reduce_bucket_size": 500000000', ("live_elements=1e+08",)),
        (2, '"stage3_max_live_parameters": 1e8, "reduce_bucket_size": 2e8', ("bucket_elements=2e+08",)),
        (2, '"reduce_bucket_size": 12345678', ("bucket_elements=12345678.0",)),
        (3, '"stage3_prefetch_bucket_size": "auto", "reduce_bucket_size": 5e8', ()),
    ],
)
def test_sizes_of_buffers_are_priced(
    stage: int, sizes: str, changes: tuple[str, ...], tmp_path: Path
) -> None:
    section = f'"stage": {stage}, "overlap_comm": true, {sizes}'
    text = f'{{"zero_optimization": {{{section}}}, "bf16": {{"enabled": true}}}}'
    assert read(tmp_path, "a.json", text).changes == changes


INNER = """{
  "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": 4,
  "zero_optimization": {"stage": 3, "overlap_comm": false, "offload_optimizer": {"device": "cpu"}},
  "bf16": {"enabled": "auto"}, "our_key": 1
}"""
OUTER = """\
# accelerate launch --config_file a.yaml train.py --per_device_train_batch_size 2
distributed_type: DEEPSPEED
deepspeed_config:
  deepspeed_config_file: configs/zero3.json
mixed_precision: bf16
num_processes: 16
our_own: 2
"""


def test_an_accelerate_yaml_leads_to_its_deepspeed_json(tmp_path: Path) -> None:
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "zero3.json").write_text(INNER)
    found = read(tmp_path, "a.yaml", OUTER)
    assert found.runtime == "deepspeed"
    assert dict(found.options) == {
        "gpus": "16", "precision": "bf16", "micro_batch": "2", "accumulation": "4", "zero": "3",
        "offload": "optimizer",
    }  # fmt: skip
    assert found.changes == ("overlap_comm=false",)
    assert found.unknown == ("our_own", "our_key")
    assert any("zero3.json" in note for note in found.notes)


def test_a_deepspeed_json_goes_before_the_yaml_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "zero.json").write_text('{"zero_optimization": {"stage": 1}, "fp16": {"enabled": true}}')
    text = OUTER.replace("configs/zero3.json", "zero.json\n  zero_stage: 3")
    found = read(tmp_path, "a.yaml", text)
    assert (found.options["zero"], found.options["precision"]) == ("1", "fp16")
    assert "zero.json goes before deepspeed_config.zero_stage" in found.notes


def test_a_deepspeed_json_that_is_not_there_is_a_fault_at_its_key(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"deepspeed_config_file: found configs/zero3.json; expected a Deep"):
        read(tmp_path, "a.yaml", OUTER)


@every(
    ("kind", "section", "runtime", "options"),
    [
        ("DEEPSPEED", "deepspeed_config: {zero_stage: 1}", "deepspeed", {"zero": "1"}),
        (
            "MEGATRON_LM",
            "megatron_lm_config: {megatron_lm_tp_degree: 4, megatron_lm_pp_degree: 2}",
            "megatron-lm",
            {"tp": "4", "pp": "2", "zero": "0"},
        ),
        ("MULTI_GPU", "debug: false", "fsdp", {"zero": "0"}),
    ],
)
def test_accelerate_starts_other_runtimes(
    kind: str, section: str, runtime: str, options: dict[str, str], tmp_path: Path
) -> None:
    text = f"distributed_type: {kind}\n{section}\nnum_processes: 8\nmixed_precision: bf16\n"
    found = read(tmp_path, "a.yaml", text)
    assert found.runtime == runtime
    assert {name: found.options[name] for name in options} == options


@every(
    ("name", "text"),
    [
        ("a.sh", "echo hello\n"),
        ("a.json", '{"hidden_size": 1}'),
        ("a.json", "{"),
        ("a.toml", "[a\n"),
        ("a.yaml", "format: planner/plan/1\n"),
        ("a.yaml", "a: 1\n"),
        ("a.py", "x = 1\n"),
        ("a.sh", "torchrun pretrain_bert.py --num-layers 2\n"),
        ("a.sh", "deepspeed train.py --deepspeed\n"),
        ("a.sh", "torchrun -m torchtitan.train --job.config_file missing.toml\n"),
        ("a.json", '{"train_batch_size": "many"}'),
        ("a.json", '{"train_batch_size": true}'),
    ],
)
def test_other_files_are_refused_in_words(name: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected"):
        read(tmp_path, name, text).checked()


@every("end", ['"$@"', "$@", "${@:1}", '"${@}"', "$*", '${1+"$@"}'])
def test_the_arguments_of_a_script_are_none(tmp_path: Path, end: str) -> None:
    text = f"torchrun --nproc_per_node 8 pretrain_gpt.py {' '.join(LLAMA.split())} --micro-batch-size 1 {end}"
    found = read(tmp_path, "a.sh", text).checked()
    assert found.options["micro_batch"] == "1"
    assert found.unknown == ()


def test_a_fault_is_none_where_the_user_gives_its_option(tmp_path: Path) -> None:
    shape = " ".join(LLAMA.split())
    text = f"torchrun pretrain_gpt.py {shape} --micro-batch-size 1 --global-batch-size $GB --lr $LR"
    found = read(tmp_path, "a.sh", text.replace("--num-attention-heads 32", "--num-attention-heads $H"))
    with pytest.raises(InputError, match="--global-batch-size") as refused:
        found.checked({"seq_len"})
    assert len(refused.value.problems) == 2
    found.checked({"global_batch", "model"})


def test_one_expert_is_a_dense_model(tmp_path: Path) -> None:
    text = f"torchrun pretrain_gpt.py {' '.join(LLAMA.split())} --num-experts 1 --moe-router-topk 2"
    assert read(tmp_path, "a.sh", text).model_name == "llama3-8b"


def test_what_is_to_be_filled_in_is_no_redirection() -> None:
    script = read_script(
        "run --vocab <PATH TO gpt-vocab.json> --fp16 --dir <A DIRECTORY> --last <in >out", "f"
    )
    assert script.commands == (("run", "--vocab", "PLACEHOLDER", "--fp16", "--dir", "PLACEHOLDER", "--last"),)


@every(
    ("tokenizer", "vocab", "told"),
    [
        ("--tokenizer-type GPT2BPETokenizer", None, 50_257),
        ("--tokenizer-type HuggingFaceTokenizer --tokenizer-model /data/Llama-3-8B/", None, 128_256),
        ("--tokenizer-type HuggingFaceTokenizer --tokenizer-model /data/mine", None, 50_257),
        ("--tokenizer-type HuggingFaceTokenizer --tokenizer-model /data/mine", 999, 999),
    ],
)
def test_the_vocabulary_of_a_known_tokenizer_is_taken(
    tmp_path: Path, tokenizer: str, vocab: int | None, told: int | None
) -> None:
    path = tmp_path / "a.sh"
    shape = " ".join(LLAMA.split()).replace("14336", "14400")
    path.write_text(f"torchrun pretrain_gpt.py {shape} --micro-batch-size 1 {tokenizer}")
    found = read_runner_file(path, vocab).checked()
    assert (found.model.vocab if found.model else None) == told


def test_a_configuration_is_found_from_the_folder_that_the_script_is_run_in(tmp_path: Path) -> None:
    (tmp_path / "train_configs").mkdir()
    (tmp_path / "scripts").mkdir()
    (tmp_path / "train_configs" / "a.toml").write_text('[model]\nname = "llama3"\nflavor = "8B"\n')
    text = "torchrun --nproc_per_node 8 -m torchtitan.train --job.config_file ./train_configs/a.toml"
    assert read(tmp_path / "scripts", "a.sh", text).model_name == "llama3-8b"


def test_a_shape_of_several_vocabularies_is_told(tmp_path: Path) -> None:
    """32 layers of 4,096 and 14,336 with eight key heads: three families, three vocabularies."""
    notes = read(tmp_path, "a.sh", SCRIPT).notes
    note = next(note for note in notes if "vocabulary" in note)
    assert "taken as llama3-8b (128,256 tokens)" in note
    assert "internlm2-7b (92,544 tokens)" in note
    told = read(tmp_path, "b.sh", SCRIPT.replace("--num-layers", "--vocab-size 92544 --num-layers"))
    assert told.model_name == "internlm2-7b"
    assert not any("vocabulary" in note for note in told.notes)


@every(
    ("launcher", "nodes"),
    [
        ("torchrun --nproc_per_node 8", 1),
        ("torchrun --nnodes 2 --nproc_per_node 8", 2),
        ("torchrun --nnodes $NODES --nproc_per_node 8", None),
        ("srun torchrun --nproc_per_node 8", None),
    ],
)
def test_torchrun_starts_one_node_where_nothing_says_another_number(launcher: str, nodes: int | None) -> None:
    assert training_of(f"{launcher} pretrain_gpt.py --num-layers 2\n", "train.sh").nodes == nodes


@every(
    ("said", "vocab"),
    [
        ("--vocab-size 50257 --padded-vocab-size 50304", 50257),
        ("--vocab-size 50257 --padded-vocab-size 51200 --make-vocab-size-divisible-by 1024", 50257),
        ("--vocab-size 50257 --padded-vocab-size 129024", 129024),
        ("--padded-vocab-size 129024", 129024),
    ],
)
def test_a_table_of_more_rows_than_tokens_is_read(said: str, vocab: int, tmp_path: Path) -> None:
    script = tmp_path / "train.sh"
    script.write_text(f"torchrun --nproc_per_node 8 pretrain_gpt.py {BARE} {said}\n", encoding="utf-8")
    found = read_runner_file(script)
    assert found.model is not None
    assert found.model.vocab == vocab


BARE = (
    "--num-layers 2 --hidden-size 320 --num-attention-heads 5 --seq-length 128 --max-position-embeddings 128 "
    "--micro-batch-size 1 --global-batch-size 8 --bf16"
)
