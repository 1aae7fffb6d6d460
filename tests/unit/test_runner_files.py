"""What is written for fsdp, torchtitan, DeepSpeed and nanotron says what the plan says."""

from __future__ import annotations

import ast
import json
import math
import tomllib
from typing import Any

import pytest
import yaml

from planner.errors import UnsupportedPlan
from planner.inputs.model import ModelSpec
from planner.runtimes.deepspeed import ENTRY as DEEPSPEED
from planner.runtimes.family import Command, Runtime
from planner.runtimes.fsdp import ENTRY as FSDP
from planner.runtimes.hub.config import hub_config
from planner.runtimes.nanotron import ENTRY as NANOTRON
from planner.runtimes.offered import train_steps
from planner.runtimes.torchtitan import ENTRY as TORCHTITAN
from tests.cases import every
from tests.unit import runner_jobs as jobs


def command(runtime: Runtime, model: ModelSpec = jobs.DENSE, version: str = "", **axes: Any) -> Command:
    """Return what is written for a plan on 64 accelerators."""
    task = jobs.job(model, 64, **axes.pop("work", {}))
    assert runtime.command is not None
    return runtime.command(jobs.plan(task, **axes), task, version or runtime.versions[0])


def files(*arguments: Any, **axes: Any) -> dict[str, str]:
    """Return the files of `command`."""
    return dict(command(*arguments, **axes).files or {})


def settings(script: str) -> dict[str, Any]:
    """Return the constants that a written script assigns at its top level."""
    found = {}
    for node in ast.parse(script).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            try:
                found[node.targets[0].id] = ast.literal_eval(node.value)
            except ValueError:
                continue
    return found


def flag(program: tuple[str, ...], name: str) -> str:
    """Return the value after a flag."""
    return program[program.index(name) + 1]


@every(
    ("method", "strategy"), [("all-gather", "allgather"), ("ring", "alltoall")], ids=["all-gather", "ring"]
)
def test_accelerate_calls_its_ring_alltoall(method: str, strategy: str) -> None:
    config = yaml.safe_load(files(FSDP, cp=4, cp_method=method)["accelerate.yaml"])["parallelism_config"]
    assert config["parallelism_config_cp_comm_strategy"] == strategy
    assert config["parallelism_config_dp_shard_size"] * config["parallelism_config_cp_size"] == 64


def test_accelerate_replicates_what_is_not_sharded() -> None:
    written = command(FSDP, tp=2, zero_shards=8)
    config = yaml.safe_load((written.files or {})["accelerate.yaml"])
    sizes = config["parallelism_config"]
    assert [sizes[f"parallelism_config_{axis}_size"] for axis in ("dp_replicate", "dp_shard", "tp")] == [
        4,
        8,
        2,
    ]
    assert config["num_processes"] == 64
    assert config["num_machines"] == 8
    assert written.environment["PARALLELISM_CONFIG_DP_REPLICATE_SIZE"] == "4"
    assert flag(written.program, "--gradient_accumulation_steps") == "16"


def test_zero_two_keeps_parameters_gathered() -> None:
    assert (
        yaml.safe_load(files(FSDP, zero=2)["accelerate.yaml"])["fsdp_config"]["fsdp_reshard_after_forward"]
        is False
    )
    program = command(TORCHTITAN, zero=2).program
    assert flag(program, "--parallelism.fsdp_reshard_after_forward") == "never"


def test_zero_three_keeps_no_more_than_the_head_gathered() -> None:
    """Torchtitan lets all else go by default, but in a pipeline nothing."""
    words = [
        flag(command(TORCHTITAN, zero=3, **fields).program, "--parallelism.fsdp_reshard_after_forward")
        for fields in ({}, {"pp": 2})
    ]
    assert words == ["default", "always"]


def test_zero_zero_is_plain_data_parallelism() -> None:
    config = yaml.safe_load(files(FSDP, jobs.TIED, zero=0)["accelerate.yaml"])
    assert config["distributed_type"] == "MULTI_GPU"
    assert not {"fsdp_config", "parallelism_config"} & set(config)
    program = command(TORCHTITAN, zero=0).program
    assert flag(program, "--parallelism.data_parallel_replicate_degree") == "64"
    assert flag(program, "--parallelism.data_parallel_shard_degree") == "1"


def test_qlora_starts_from_a_checkpoint_with_frozen_weights_in_4_bits() -> None:
    start = command(FSDP, zero=0, work={"method": "qlora", "lora_rank": 8})
    told = settings(start.files["train.py"])
    assert (told["QUANTISED"], told["LORA_RANK"]) == (True, 8)
    assert "CHECKPOINT" in start.needs
    plain = command(FSDP, zero=0)
    assert settings(plain.files["train.py"])["QUANTISED"] is False
    assert "CHECKPOINT" not in plain.needs


@every("runtime", [FSDP, DEEPSPEED])
def test_adapters_need_trained_weights_and_stand_where_they_are_asked_for(runtime: Runtime) -> None:
    start = command(runtime, work={"method": "lora", "lora_rank": 8})
    assert "CHECKPOINT" in start.production_needs
    assert "CHECKPOINT" not in {*start.needs, *command(runtime).needs, *command(runtime).production_needs}
    assert "Set the variable CHECKPOINT" in start.files["train.py"]
    assert settings(start.files["train.py"])["LORA_TARGETS"] == "all-linear"
    some = command(runtime, work={"method": "lora", "lora_targets": ("qkv", "proj")}).files["train.py"]
    assert settings(some)["LORA_TARGETS"] == ["q_proj", "k_proj", "v_proj", "o_proj"]


def test_sharded_4_bit_weights_are_stored_in_a_dtype_that_fsdp_shards() -> None:
    """bitsandbytes, docs/source/fsdp_qlora.md: quant_storage in a float dtype, that of the other weights."""
    start = command(FSDP, zero=3, work={"method": "qlora"})
    script = start.files["train.py"]
    assert "bnb_4bit_quant_storage=COMPUTE_DTYPE" in script
    assert "PRECISION = 'bfloat16'\nWEIGHT_DTYPE = 'bfloat16'\n" in script
    assert "prepare_model_for_kbit_training" not in start.files["train.py"], "it casts the rest to fp32"
    fsdp = yaml.safe_load(start.files["accelerate.yaml"])["fsdp_config"]
    assert not fsdp["fsdp_cpu_ram_efficient_loading"]
    assert any("bitsandbytes" in note for note in start.notes)
    assert start.needs == ("CHECKPOINT",), "4-bit weights are read from a checkpoint in a smoke run too"


def test_the_model_of_llama3_8b_is_its_published_config() -> None:
    config = hub_config(jobs.DENSE, 8192)
    published = {
        "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8,
        "num_hidden_layers": 32, "vocab_size": 128256, "tie_word_embeddings": False, "model_type": "llama",
    }  # fmt: skip
    assert published.items() <= config.items()


@every(
    ("runtime", "axes"),
    [
        (FSDP, {"recompute": "full", "zero": 0}),
        (DEEPSPEED, {"pp": 4, "zero": 1}),
        (DEEPSPEED, {"cp": 8, "cp_method": "all-to-all", "work": {"method": "lora", "lora_rank": 32}}),
        (TORCHTITAN, {"pp": 2}),
        (NANOTRON, {"zero": 1}),
    ],
)
def test_scripts_are_python_with_no_hole(runtime: Runtime, axes: dict[str, Any]) -> None:
    for name, text in files(runtime, **axes).items():
        if name.endswith(".py"):
            ast.parse(text)
            assert "SETTINGS" not in text


def test_deepspeed_says_the_whole_batch_only_where_it_counts_data_parallel_ranks() -> None:
    whole = json.loads(files(DEEPSPEED, zero=3)["ds_config.json"])
    split = json.loads(files(DEEPSPEED, zero=2, tp=8)["ds_config.json"])
    assert whole["train_batch_size"] == 512
    assert "train_batch_size" not in split
    assert split["tensor_parallel"] == {"autotp_size": 8}
    assert split["gradient_accumulation_steps"] == 64


def test_deepspeed_writes_the_dtypes_that_were_priced() -> None:
    plain = json.loads(files(DEEPSPEED, zero=2)["ds_config.json"])
    wide = json.loads(files(DEEPSPEED, zero=2, work={"gradient_dtype": "fp32"})["ds_config.json"])
    assert plain["data_types"] == {"grad_accum_dtype": DEEPSPEED.traits.optimizer.gradient_dtype}
    assert plain["communication_data_type"] == DEEPSPEED.traits.optimizer.reduce_dtype
    assert wide["data_types"] == {"grad_accum_dtype": "fp32"}


def test_deepspeed_stages_are_the_plans() -> None:
    script = files(DEEPSPEED, zero=1, pp=4, stage_layers=(7, 9, 9, 7))["train.py"]
    assert settings(script)["STAGE_LAYERS"] == (7, 9, 9, 7)
    assert settings(files(DEEPSPEED, zero=1, pp=3)["train.py"])["STAGE_LAYERS"] == (11, 11, 10)


def test_deepspeed_offloads_the_optimizer() -> None:
    zero = json.loads(files(DEEPSPEED, zero=2, offload="optimizer")["ds_config.json"])["zero_optimization"]
    assert zero["offload_optimizer"]["device"] == "cpu"


def test_torchtitan_says_every_degree_and_its_stages() -> None:
    written = command(TORCHTITAN, pp=4, tp=2, vpp=2, schedule="interleaved-1f1b", sequence_parallel=True)
    program = written.program
    degrees = {
        "pipeline_parallel": "4", "tensor_parallel": "2", "context_parallel": "1", "expert_parallel": "1",
        "data_parallel_replicate": "1", "data_parallel_shard": "8",
    }  # fmt: skip
    assert {name: flag(program, f"--parallelism.{name}_degree") for name in degrees} == degrees
    assert flag(program, "--parallelism.pipeline_parallel_schedule") == "Interleaved1F1B"
    assert flag(program, "--parallelism.num_pp_microbatches") == "64"
    assert flag(program, "--training.num_tokens_per_train_step") == str(512 * 8192)
    parts = settings((written.files or {})["titan_plan.py"])["PARTS"]
    assert [sum(name.startswith("layers.") for name in part) for part in parts] == [4] * 8
    assert parts[0][0] == "tok_embeddings"
    assert parts[-1][-2:] == ["norm", "lm_head"]
    assert written.closing == ("activation-checkpoint:none",), "tyro's subcommand comes last"


def test_torchtitan_compiles_unless_the_schedule_splits_the_backward() -> None:
    assert "--compile.enable" in command(TORCHTITAN, pp=2).program
    assert "--compile.no-enable" in command(TORCHTITAN, pp=2, vpp=2, schedule="zb-v").program


def test_older_torchtitan_reads_toml() -> None:
    written = files(TORCHTITAN, jobs.DENSE, "0.2.2", pp=4, micro_batch=2, recompute="selective")
    config = tomllib.loads(written["titan_plan.toml"])
    assert config["training"]["local_batch_size"] == 32
    assert config["parallelism"]["pipeline_parallel_microbatch_size"] == 2
    assert config["training"]["global_batch_size"] == 512
    assert config["parallelism"]["module_fqns_per_model_part"][-1][-1] == "output"
    assert config["activation_checkpoint"] == {"mode": "selective", "selective_ac_option": "op"}


def test_older_torchtitan_refuses_what_it_cannot_run() -> None:
    with pytest.raises(UnsupportedPlan, match="sequence parallelism"):
        command(TORCHTITAN, jobs.DENSE, "0.2.0", tp=2)
    with pytest.raises(UnsupportedPlan, match="tied"):
        command(TORCHTITAN, jobs.TIED, "0.2.0")
    with pytest.raises(UnsupportedPlan, match="experts over fewer ranks"):
        command(TORCHTITAN, jobs.MOE, "0.2.0", ep=2, cp=4, cp_method="all-gather")


def test_nanotron_yaml_says_the_plan() -> None:
    config = yaml.safe_load(files(NANOTRON, zero=1, tp=8, sequence_parallel=True)["nanotron.yaml"])
    assert config["parallelism"]["tp_mode"] == "REDUCE_SCATTER"
    assert config["parallelism"]["dp"] * config["parallelism"]["tp"] == 64
    assert config["tokens"]["batch_accumulation_per_replica"] * config["parallelism"]["dp"] == 512
    assert config["optimizer"]["zero_stage"] == 1


def test_steps_follow_from_tokens() -> None:
    task = jobs.job(jobs.DENSE, 64, tokens=1e12)
    assert train_steps(task.workload) == math.ceil(1e12 / (512 * 8192))
