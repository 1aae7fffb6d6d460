"""What launch files of other repositories say in ways that were read wrong once, each by its kind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planner.errors import InputError
from planner.runtimes.imports.dispatch import read_runner_file
from planner.runtimes.imports.sheet import Imported
from planner.runtimes.megatron_bridge.reading.bridge_adapters import adapted, adapter_fault
from planner.runtimes.megatron_bridge.reading.bridge_sums import bridge_sums
from tests.cases import every

GPT = (
    "--num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 "
    "--max-position-embeddings 1024 --micro-batch-size 8 --global-batch-size 64 --train-iters 10 --fp16"
)


def read(tmp_path: Path, text: str) -> Imported:
    path = tmp_path / "train.sh"
    path.write_text(text, encoding="utf-8")
    return read_runner_file(path)


@every(
    ("flags", "wanted"),
    [
        ("--activations-checkpoint-method uniform", "full"),
        ("--activations-checkpoint-method block --activations-checkpoint-num-layers 3", "full:3"),
        ("--checkpoint-activations", "full"),
        ("", None),
    ],
)
def test_layers_that_old_megatron_recomputes_are_recomputed(
    flags: str, wanted: str | None, tmp_path: Path
) -> None:
    """Megatron-LM 2.4 to 2.6, megatron/arguments.py, ``--activations-checkpoint-method``."""
    found = read(tmp_path, f"torchrun --nproc_per_node 8 pretrain_gpt.py {GPT} {flags}\n")
    assert found.options.get("recompute") == wanted
    assert found.unknown == ()


@every("program", ["pretrain_t5.py", "examples/pretrain_vlm.py", "pretrain_bert.py"])
def test_a_program_for_other_models_is_refused_by_its_name(program: str, tmp_path: Path) -> None:
    arrays = (
        f'GPT_ARGS=({GPT})\nAPP="torchrun --nproc_per_node 8 {program} ${{GPT_ARGS[@]}}"\n${{RUN}} ${{APP}}\n'
    )
    for text in (arrays, f"torchrun --nproc_per_node 8 {program} {GPT}\n"):
        with pytest.raises(InputError, match=program.rpartition("/")[2]):
            read(tmp_path, text)


def test_a_command_that_a_blank_behind_a_backslash_ends_is_refused(tmp_path: Path) -> None:
    text = f"torchrun --nproc_per_node 8 pretrain_gpt.py \\\n  {GPT} \\ \n  --tensor-model-parallel-size 8\n"
    with pytest.raises(InputError, match=r"train\.sh:2: found a blank behind the backslash"):
        read(tmp_path, text)
    told = f"# ends so: \\ \n#  --bf16\ntorchrun --nproc_per_node 8 pretrain_gpt.py {GPT}\n"
    assert read(tmp_path, told).options["gpus"] == "8"


def test_adapters_are_beside_layers_that_the_model_has() -> None:
    """Megatron-Bridge, peft/module_matcher.py: what no name matches carries no adapter."""
    kv = ["linear_kv_down_proj", "linear_kv_up_proj"]
    assert adapted(["linear_q_down_proj", *kv, "linear_proj"], False) == ["proj"]
    assert adapted(["linear_q_proj", *kv, "linear_fc2"], True) == ["qkv", "fc2"]
    assert adapter_fault(["linear_q_proj", *kv], True) is None
    assert adapter_fault(["linear_q_down_proj", *kv], True) is not None
    assert adapter_fault(kv, False) is not None


def test_several_pipelines_in_a_step_of_torchtitan_are_told(tmp_path: Path) -> None:
    """torchtitan, trainer.py: what ``num_pp_microbatches`` leaves of a step runs as gradient accumulation."""
    words = "--module llama3 --config llama3_8b --training.disable_cuda_graphs"
    words += " --parallelism.pipeline_parallel_degree 2 --training.max_context_length 8192"
    words += (
        " --training.num_tokens_per_microbatch_per_dp_rank 8192 --training.num_tokens_per_train_step 524288"
    )
    text = f"torchrun --nproc_per_node 8 -m torchtitan.train {words}"
    ((option, problem),) = read(tmp_path, text).faults
    assert (option, problem.found) == (
        "global_batch",
        "1, so 16 pipelines in each step, each filled and emptied",
    )
    assert read(tmp_path, f"{text} --parallelism.num_pp_microbatches 16").faults == ()


@every("size", [0, -2])
def test_a_degree_of_sequences_below_one_is_a_fault(size: int, tmp_path: Path) -> None:
    """DeepSpeed, runtime/config.py, divides the world by it."""
    path = tmp_path / "ds_config.json"
    said = {"train_micro_batch_size_per_gpu": 1, "train_batch_size": 8, "bf16": {"enabled": True}}
    path.write_text(json.dumps({**said, "sequence_parallel_size": size}), encoding="utf-8")
    problems = [problem for _, problem in read_runner_file(path).faults]
    assert [problem.found for problem in problems if "sequence_parallel_size" in problem.where] == [str(size)]


PLAIN = {"activation_func": "gelu", "gated_linear_unit": False}
STORED = "activation_func_fp8_input_store"


@every(
    ("fields", "key"),
    [
        ({"glu_linear_offset": 1.0, "activation_func": "torch.nn.functional.silu"}, "glu_linear_offset"),
        ({"activation_func": "quick_gelu", "gated_linear_unit": False}, "gated_linear_unit"),
        (
            {"activation_func": "gelu", "gated_linear_unit": False, "add_bias_linear": False},
            "add_bias_linear",
        ),
        ({"activation_func": "relu2"}, "activation_func"),
        ({"activation_func": "silu", "use_te_activation_func": True}, "use_te_activation_func"),
        (
            {"activation_func": "gelu", "activation_func_fp8_input_store": True},
            "activation_func_fp8_input_store",
        ),
        ({"activation_func": "quick_gelu", "glu_linear_offset": 1.0}, None),
        ({"activation_func": "silu", "bias_activation_fusion": False, "glu_linear_offset": 1.0}, None),
    ],
)
def test_an_activation_that_megatron_core_refuses_is_a_fault(
    fields: dict[str, object], key: str | None
) -> None:
    """transformer/transformer_config.py, ``TransformerConfig.__post_init__``."""
    said = {"bias_activation_fusion": True, "gated_linear_unit": True, **fields}
    whole = {f"model.{name}": value for name, value in said.items()}
    found = bridge_sums(whole, "", Imported("megatron-bridge", {}, {}), "train.py")
    keys = [problem.where.rpartition(" ")[2] for _, problem in found.faults]
    assert keys == ([key] if key else [])


def test_positions_of_yarn_need_numbers_where_the_provider_has_none() -> None:
    """Megatron-Bridge, models/gpt_provider.py: its YaRN fields are None."""
    for model, count in (("GPTModelProvider", 3), ("OwnProvider", 0)):
        said = {"model": model, "model.position_embedding_type": "yarn"}
        found = bridge_sums(said, "", Imported("megatron-bridge", {}, {}), "train.py")
        assert sum("yarn_" in problem.where for _, problem in found.faults) == count


DELTA = "--experimental-attention-variant"


@every(
    ("flags", "key"),
    [
        ("--window-size 128,0 --window-attn-skip-freq {}", "--window-attn-skip-freq"),
        ("--no-rope-freq {}", "--no-rope-freq"),
        ("--num-experts 8 --moe-layer-freq {}", "--moe-layer-freq"),
        (
            "--experimental-attention-variant gated_delta_net --linear-attention-freq {}",
            "--linear-attention-freq",
        ),
    ],
)
@every("number", ["0", "-1"])
def test_each_zeroth_layer_is_a_fault(flags: str, key: str, number: str, tmp_path: Path) -> None:
    """Megatron-core divides by it (transformer/utils.py, ``is_layer_window_attention`` and others)."""
    found = read(tmp_path, f"torchrun --nproc_per_node 8 pretrain_gpt.py {GPT} {flags.format(number)}\n")
    assert any(problem.where.endswith(key) for _, problem in found.faults)


def test_both_half_precisions_are_lifted_by_one_of_precision(tmp_path: Path) -> None:
    found = read(tmp_path, f"torchrun --nproc_per_node 8 pretrain_gpt.py {GPT} --bf16\n")
    assert [option for option, problem in found.faults if "--fp16" in problem.where] == ["precision"]


@every("flag", ["--rdzv-backend", "--master_port"])
def test_an_option_of_the_launcher_without_its_value_is_a_fault(flag: str, tmp_path: Path) -> None:
    """torch/distributed/run.py takes the program for the value."""
    found = read(tmp_path, f"torchrun --nproc_per_node 8 {flag} pretrain_gpt.py {GPT}\n")
    assert [problem.found for _, problem in found.faults if problem.where.endswith(flag)] == ["nothing"]
    whole = read(tmp_path, f"torchrun --nproc_per_node 8 {flag} 29500 --standalone pretrain_gpt.py {GPT}\n")
    assert not whole.faults
