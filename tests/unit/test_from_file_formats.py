"""Files of nanotron, Megatron-Bridge and torchtitan's registry: what is read, and what is a fault."""

from __future__ import annotations

import ast
import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from planner.errors import InputError
from planner.runtimes.imports.dispatch import read_runner_file
from planner.runtimes.imports.python_fields import python_fields
from planner.runtimes.imports.sheet import Imported
from planner.runtimes.megatron_bridge.reading.core_fields import core_flags
from planner.runtimes.torchtitan.registry import REGISTRY
from tests.cases import every
from tests.cli.command import planner

NANOTRON: dict[str, Any] = {
    "general": {"project": "debug"},
    "parallelism": {"dp": 4, "pp": 2, "tp": 2, "pp_engine": "1f1b", "tp_mode": "REDUCE_SCATTER"},
    "model": {
        "dtype": "bfloat16",
        "init_method": {"std": 0.02},
        "model_config": {
            "is_llama_config": True, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
            "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
            "max_position_embeddings": 8192, "rope_theta": 500000.0, "rms_norm_eps": 1e-5,
        },
    },
    "optimizer": {
        "zero_stage": 1, "accumulate_grad_in_fp32": True, "clip_grad": 1.0, "weight_decay": 0.1,
        "learning_rate_scheduler": {"learning_rate": 3e-4, "lr_warmup_style": "linear"},
        "optimizer_factory": {
            "name": "adamW", "adam_eps": 1e-8, "adam_beta1": 0.9, "adam_beta2": 0.95,
            "torch_adam_is_fused": True,
        },
    },
    "tokens": {
        "sequence_length": 8192, "train_steps": 10, "micro_batch_size": 1,
        "batch_accumulation_per_replica": 8,
    },
}  # fmt: skip


def changed(place: str, value: object) -> dict[str, Any]:
    """Return nanotron's tree with one value changed, or without the key where it is None."""
    tree = yaml.safe_load(yaml.safe_dump(NANOTRON))
    *folders, name = place.split(".")
    section = tree
    for folder in folders:
        section = section[folder]
    section[name] = value
    if value is None:
        del section[name]
    return tree


def nanotron(folder: Path, tree: dict[str, Any]) -> Imported:
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(tree))
    return read_runner_file(path)


def test_nanotron_is_read(tmp_path: Path) -> None:
    found = nanotron(tmp_path, NANOTRON)
    wanted = {
        "gpus": "16", "tp": "2", "pp": "2", "dp": "4", "schedule": "1f1b", "sequence_parallel": "true",
        "zero": "1", "micro_batch": "1", "accumulation": "8", "seq_len": "8192", "recompute": "none",
    }  # fmt: skip
    assert {name: found.options.get(name) for name in wanted} == wanted
    assert (found.model_name, found.unknown, found.faults) == ("llama3-8b", (), ())


def test_keys_of_smollm3_s_nanotron_are_read_or_told(tmp_path: Path) -> None:
    tree = copy.deepcopy(NANOTRON)
    tree["parallelism"]["moe_layer_recompute"] = False
    tree["model"]["model_config"] |= {"no_rope_layer": 4, "ring_attn_heads_k_stride": None}
    found = nanotron(tmp_path, tree)
    assert (found.unknown, found.faults) == ((), ())
    assert found.model is not None
    assert [found.model.blocks[name].mixer.rotary for name in found.model.layers[:8]] == [
        True,
        True,
        True,
        False,
    ] * 2


def test_a_period_without_positions_divides_the_layers(tmp_path: Path) -> None:
    """nanotron, config/models_config.py, ``Qwen2Config.__post_init__``."""
    tree = copy.deepcopy(NANOTRON)
    tree["model"]["model_config"]["no_rope_layer"] = 5
    ((_, problem),) = nanotron(tmp_path, tree).faults
    assert "divisor of the 32 layers" in problem.expected


def test_a_resumed_nanotron_run_may_split_sequences(tmp_path: Path) -> None:
    """nanotron, trainer.py: context parallelism is for weights that are loaded."""
    tree = copy.deepcopy(NANOTRON)
    assert "no-context-parallel" not in nanotron(tmp_path, tree).lifted
    tree["checkpoints"] = {**tree.get("checkpoints", {}), "resume_checkpoint_path": "s3://somewhere/10000"}
    assert "no-context-parallel" in nanotron(tmp_path, tree).lifted


@every(
    ("place", "value", "key"),
    [
        ("parallelism.tp", 3, "model.model_config.num_attention_heads"),
        ("parallelism.tp", 16, "model.model_config.num_key_value_heads"),
        ("parallelism.dp", None, "parallelism.dp"),
        ("parallelism.dp", 0, "parallelism.dp"),
        ("parallelism.pp", "2", "parallelism.pp"),
        ("parallelism.pp_engine", "zb", "parallelism.pp_engine"),
        ("parallelism.tp_mode", "SPLIT", "parallelism.tp_mode"),
        ("parallelism.degree", 2, "parallelism.degree"),
        ("tokens.micro_batch_size", 1.5, "tokens.micro_batch_size"),
        ("optimizer.zero_stage", None, "optimizer.zero_stage"),
        ("general.project", None, "general.project"),
        ("optimizer.weight_decay", None, "optimizer.weight_decay"),
        (
            "optimizer.learning_rate_scheduler.learning_rate",
            None,
            "optimizer.learning_rate_scheduler.learning_rate",
        ),
        ("optimizer.optimizer_factory.name", "lion", "optimizer.optimizer_factory.name"),
        ("optimizer.optimizer_factory.adam_beta1", "x", "optimizer.optimizer_factory.adam_beta1"),
        ("model.dtype", "bf16", "model.dtype"),
        ("model.model_config.num_key_value_heads", 5, "model.model_config.num_key_value_heads"),
        ("model.model_config.rms_norm_eps", "small", "model.model_config.rms_norm_eps"),
    ],
)
def test_what_nanotron_refuses_is_a_fault_at_its_key(
    tmp_path: Path, place: str, value: object, key: str
) -> None:
    faults = [problem.where for _, problem in nanotron(tmp_path, changed(place, value)).faults]
    assert f"{tmp_path / 'config.yaml'}: {key}" in faults


def test_nanotron_without_float32_gradients_trains_its_bf16_weights(tmp_path: Path) -> None:
    found = nanotron(tmp_path, changed("optimizer.accumulate_grad_in_fp32", False))
    kinds = {name: found.options[f"{name}_dtype"] for name in ("gradient", "master", "state")}
    assert (set(kinds.values()), found.faults) == ({"bf16"}, ())
    told = planner(
        "estimate", "--from", str(tmp_path / "config.yaml"), "--hardware", "dgx-h100", "--format", "json"
    )
    assert told.code == 0, told.err


def test_nanotron_started_on_other_ranks_than_its_degrees_is_a_fault(tmp_path: Path) -> None:
    """Two stages of tp 2 on four replicas are 16 ranks, and the script starts 8."""
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(NANOTRON))
    script = tmp_path / "train.sh"
    script.write_text("torchrun --nnodes 1 --nproc_per_node 8 run_train.py --config-file config.yaml\n")
    assert [problem.found for _, problem in read_runner_file(script).faults] == [
        "tp 2 x cp 1 x dp 4 x pp 2 = 16"
    ]


def titan(folder: Path, command: str) -> Imported:
    path = folder / "start.sh"
    path.write_text(command + "\n")
    return read_runner_file(path)


TORCHRUN = "torchrun --nnodes 8 --nproc_per_node 8 -m torchtitan.train"


def test_a_registry_name_stands_for_its_degrees(tmp_path: Path) -> None:
    """In config_registry.py llama3_70b has tp 8, full recompute and eight sequences a rank."""
    found = titan(tmp_path, f"{TORCHRUN} --module llama3 --config llama3_70b")
    wanted = {"tp": "8", "recompute": "full", "micro_batch": "8", "seq_len": "8192", "dp": "8", "zero": "3"}
    assert {name: found.options[name] for name in wanted} == wanted
    assert (found.model_name, found.faults) == ("llama3-70b", ())


def test_flags_go_before_the_registry(tmp_path: Path) -> None:
    found = titan(
        tmp_path,
        f"{TORCHRUN} --module llama3 --config llama3_70b --parallelism.tensor-parallel-degree 4",
    )
    assert (found.options["tp"], found.options["dp"]) == ("4", "16")


def test_run_train_with_variables_is_the_same_command(tmp_path: Path) -> None:
    found = titan(tmp_path, 'NGPU=8 MODULE=llama3 CONFIG="llama3_8b" ./run_train.sh --training.steps 5 "$@"')
    assert (found.model_name, found.options["gpus"], found.options["recompute"]) == (
        "llama3-8b", "8", "selective",
    )  # fmt: skip


def test_an_unknown_registry_name_is_a_fault_for_each_degree_not_said(tmp_path: Path) -> None:
    found = titan(
        tmp_path, f"{TORCHRUN} --module mine --config mine_9b --parallelism.tensor_parallel_degree 2"
    )
    assert [option for option, _ in found.faults] == ["cp", "pp", "ep", "seq_len", "micro_batch"]


def test_a_prediction_layer_that_torchtitan_lacks_is_left_out(tmp_path: Path) -> None:
    found = titan(tmp_path, f"{TORCHRUN} --module deepseek_v3 --config deepseek_v3_671b")
    assert found.model is not None
    assert found.model.prediction is None


@every(
    ("flag", "key"),
    [
        ("--parallelism.pipeline_parallel_degree 2", "training.disable_cuda_graphs"),
        ("--training.dtype float16", "training.dtype"),
        ("--parallelism.tensor_parallel_degree 0", "parallelism.tensor_parallel_degree"),
        ("--compile.enable_async_tensor_parallel", "compile.enable_async_tensor_parallel"),
        (
            "--parallelism.context_parallel_degree 3 --training.max_context_length 8192",
            "training.num_tokens_per_microbatch_per_dp_rank",
        ),
    ],
)
def test_what_torchtitan_refuses_is_a_fault(tmp_path: Path, flag: str, key: str) -> None:
    found = titan(tmp_path, f"{TORCHRUN} --module llama3 --config llama3_8b {flag}")
    assert key in {problem.where.rpartition(": ")[2] for _, problem in found.faults}


def test_every_entry_of_the_registry_names_a_model_of_the_zoo(tmp_path: Path) -> None:
    for module, entries in REGISTRY.items():
        for config in entries:
            found = titan(tmp_path, f"{TORCHRUN} --module {module} --config {config}")
            assert found.model_name or found.model
            assert found.faults == ()


def test_python_is_read_by_its_syntax_alone(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    text = f"open({str(mark)!r}, 'w')\nmix = get('bf16')\nmix.full = True\n"
    text += "c = Box(m=Model(tp=2), p=mix)\nc.m.pp = 4\n"
    assert ast.parse(text)
    fields = python_fields(text)
    assert {name: fields[name] for name in ("Box.m.tp", "Box.m.pp", "Box.p.", "Box.p.full")} == {
        "Box.m.tp": 2, "Box.m.pp": 4, "Box.p.": "bf16", "Box.p.full": True,
    }  # fmt: skip
    assert not mark.exists()


def test_what_is_set_under_a_condition_is_no_plain_value() -> None:
    text = "c = Box(tp=2, pp=1)\nif args.large:\n    c.tp = 8\n    c.pp = 1\n"
    text += "if __name__ == '__main__':\n    c.cp = 2\n"
    fields = python_fields(text)
    assert (fields["Box.tp"], fields["Box.pp"], fields["Box.cp"]) == ("8 if args.large", 1, 2)


@every("text", ["", "def (", "x = " + "(" * 200, "\0"])
def test_what_is_no_python_says_nothing(text: str) -> None:
    assert python_fields(text) == {}


def test_fields_of_the_core_are_flags() -> None:
    said = {
        "num_query_groups": 8, "add_bias_linear": False, "recompute_modules": ["mlp", "core_attn"],
        "mixed_precision": "bf16_with_mxfp8_mixed", "exp_avg_dtype": "torch.bfloat16",
        "sequence_parallel": True,
    }  # fmt: skip
    flags = core_flags(said)
    wanted = {
        "--num-query-groups": "8", "--disable-bias-linear": "", "--recompute-modules": "mlp core_attn",
        "--fp8-recipe": "mxfp8", "--exp-avg-dtype": "bf16", "--sequence-parallel": "", "--bf16": "",
    }  # fmt: skip
    assert {name: flags[name] for name in wanted} == wanted


def test_a_python_file_that_is_no_configuration_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("print('hello')\n")
    with pytest.raises(InputError, match=r"train\.py: found a program whose settings stand in its own code"):
        read_runner_file(path)


NEMO = """
trainer: {devices: 8, num_nodes: 4, precision: bf16}
model:
  micro_batch_size: 1
  global_batch_size: 128
  tensor_model_parallel_size: 4
  pipeline_model_parallel_size: 2
  encoder_seq_length: 4096
  max_position_embeddings: 4096
  num_layers: 32
  hidden_size: 4096
  ffn_hidden_size: 11008
  num_attention_heads: 32
  num_query_groups: 32
  sequence_parallel: true
  normalization: rmsnorm
  activation: fast-swiglu
  bias: false
  position_embedding_type: rope
  share_embeddings_and_output_weights: false
  activations_checkpoint_granularity: full
  activations_checkpoint_method: uniform
  activations_checkpoint_num_layers: 1
  optim: {name: distributed_fused_adam}
"""


def test_nemo_is_read_as_bridge(tmp_path: Path) -> None:
    """8 x 4 accelerators, tp 4 and pp 2: of the two Llama 7B the one with 4,096 positions."""
    path = tmp_path / "nemo.yaml"
    path.write_text(NEMO)
    found = read_runner_file(path)
    wanted = {
        "gpus": "32",
        "tp": "4",
        "pp": "2",
        "zero": "1",
        "recompute": "full",
        "sequence_parallel": "true",
    }
    assert {name: found.options.get(name) for name in wanted} == wanted
    assert (found.runtime, found.model_name, found.faults) == ("megatron-bridge", "llama2-7b", ())


def test_nemo_without_a_recompute_method_is_a_fault_at_its_field(tmp_path: Path) -> None:
    path = tmp_path / "nemo.yaml"
    path.write_text(NEMO.replace("activations_checkpoint_method: uniform", "seed: 1"))
    assert [problem.where for _, problem in read_runner_file(path).faults] == [
        f"{path}: recompute_granularity"
    ]


def test_a_recipe_whose_settings_are_elsewhere_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    path.write_text("torchrun --nproc_per_node 8 run_recipe.py --recipe llama3_8b model.tp=4\n")
    with pytest.raises(InputError, match=r"one of the \d+ recipes"):
        read_runner_file(path)
