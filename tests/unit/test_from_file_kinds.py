"""Values and pairs that a runner's own code refuses, found by mutating files that it takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from planner.cli.from_file import completed
from planner.runtimes.imports.dispatch import read_runner_file
from tests.cases import every
from tests.unit.test_from_file_sums import MEGATRON, faults
from tests.unit.test_trait_settings import written


def changed(tree: dict[str, Any], key: str, value: object) -> None:
    """Set a dotted key."""
    *place, last = key.split(".")
    for name in place:
        tree = tree.setdefault(name, {})
    tree[last] = value


def refused_at(name: str, file: str, key: str, value: object, folder: Path) -> set[str]:
    """Return the keys that are faults once a written file has one value changed."""
    for other, text in written(name).items():
        (folder / other).write_text(text, encoding="utf-8")
    path = folder / file
    tree = yaml.safe_load(path.read_text(encoding="utf-8"))
    changed(tree, key, value)
    path.write_text(json.dumps(tree) if file.endswith("json") else yaml.safe_dump(tree), encoding="utf-8")
    return {problem.where.rpartition(": ")[2] for _, problem in read_runner_file(path).faults}


@every(("value", "fault"), [(None, True), ("a-run", False)])
def test_a_project_of_nanotron_has_a_name(value: object, fault: bool, tmp_path: Path) -> None:
    found = refused_at("nanotron", "nanotron.yaml", "general.project", value, tmp_path)
    assert found == ({"general.project"} if fault else set())


@every(
    ("key", "value", "fault"),
    [
        ("fp16.loss_scale", -1, "fp16.loss_scale"),
        ("fp16.loss_scale", 0, None),
        ("fp16.loss_scale", True, "fp16.loss_scale"),
        ("fp16.hysteresis", "x", "fp16.hysteresis"),
        ("elasticity", {"enabled": True}, "elasticity.enabled"),
        ("elasticity", {"enabled": False}, None),
        ("scheduler", {"type": "Foo"}, "scheduler.type"),
        ("scheduler", {"type": "WarmupLR"}, None),
        ("wall_clock_breakdown", "x", "wall_clock_breakdown"),
        ("wall_clock_breakdown", None, "wall_clock_breakdown"),
        ("zero_optimization.allgather_bucket_size", 500_000_007, "zero_optimization.allgather_bucket_size"),
        ("zero_optimization.allgather_bucket_size", "x", "zero_optimization.allgather_bucket_size"),
        ("zero_optimization.allgather_bucket_size", 500_000_000, None),
        ("zero_optimization.contiguous_gradients", None, "zero_optimization.contiguous_gradients"),
        ("zero_optimization.overlap_comm", None, None),
        ("zero_optimization.offload_param", None, None),
        ("zero_optimization.offload_param", {"device": "nvme"}, "zero_optimization.offload_param.nvme_path"),
        ("bf16.enabled", None, "bf16.enabled"),
        ("checkpoint", {"tag_validation": "x"}, "checkpoint.tag_validation"),
        ("checkpoint", {"tag_validation": "Warn", "load_universal": True}, None),
    ],
)
def test_deepspeed(key: str, value: object, fault: str | None, tmp_path: Path) -> None:
    assert refused_at("deepspeed", "ds_config.json", key, value, tmp_path) == ({fault} if fault else set())


@every(
    ("key", "value", "fault"),
    [
        ("compute_environment", "MARS", True),
        ("fsdp_config.fsdp_version", 1, True),
        ("fsdp_config.fsdp_version", 2, False),
        ("dynamo_config.dynamo_backend", "FOO", True),
        ("dynamo_config.dynamo_backend", "INDUCTOR", False),
        ("dynamo_config.dynamo_backend", "no", False),
        ("fsdp_config.fsdp_backward_prefetch", "FOO", True),
        ("fsdp_config.fsdp_backward_prefetch", "BACKWARD_PRE", False),
        ("main_process_port", "x", True),
        ("main_process_port", 29500, False),
        ("fsdp_config.fsdp_cpu_ram_efficient_loading", None, True),
        ("fsdp_config.fsdp_cpu_ram_efficient_loading", True, False),
        ("fsdp_config.fsdp_sync_module_states", None, True),
        (
            "fsdp_config",
            {"fsdp_version": 2, "fsdp_sync_module_states": False},
            "fsdp_config.fsdp_sync_module_states",
        ),
        ("fsdp_config.fsdp_state_dict_type", True, True),
        ("num_machines", None, True),
        ("num_processes", None, True),
        ("machine_rank", None, True),
        ("dynamo_config", {"dynamo_backend": "INDUCTOR", "dynamo_mode": None}, "dynamo_config.dynamo_mode"),
        ("fsdp_config.fsdp_version", None, True),
        ("fsdp_config.fsdp_reshard_after_forward", None, True),
        ("fsdp_config.fsdp_activation_checkpointing_offload", None, True),
        ("fsdp_config.fsdp_min_num_params", None, False),
        *(
            (f"parallelism_config.parallelism_config_{name}", None, True)
            for name in (
                "dp_replicate_size",
                "dp_shard_size",
                "tp_size",
                "cp_size",
                "sp_size",
                "cp_backend",
                "sp_backend",
            )
        ),
        ("parallelism_config.parallelism_config_cp_comm_strategy", None, True),
    ],
)
def test_accelerate(key: str, value: object, fault: bool | str, tmp_path: Path) -> None:
    wanted = {key if fault is True else str(fault)} if fault else set()
    assert refused_at("fsdp", "accelerate.yaml", key, value, tmp_path) == wanted


@every(
    ("key", "value", "fault"),
    [
        ("general.seed", "x", True),
        ("checkpoints.checkpoint_interval", "x", True),
        ("logging.log_level", "foo", True),
        ("logging.log_level", "info", False),
        ("optimizer.learning_rate_scheduler.lr_warmup_style", "foo", True),
        ("optimizer.learning_rate_scheduler.lr_decay_style", "1-sqrt", False),
        ("data_stages", [], True),
        ("model.init_method", {"std": 0.1, "path": "x"}, True),
        ("model.init_method", {"path": "x"}, False),
        ("model.model_config.hidden_act", None, True),
        ("model.model_config.attention_bias", "x", True),
        ("optimizer.learning_rate_scheduler.lr_decay_stepss", 10, True),
        ("checkpoints.checkpoints_path", None, True),
        ("checkpoints.checkpoint_interval", None, True),
        ("checkpoints", None, False),
        ("model.init_method", None, True),
        ("optimizer.clip_grad", None, False),
    ],
)
def test_nanotron(key: str, value: object, fault: bool, tmp_path: Path) -> None:
    assert refused_at("nanotron", "nanotron.yaml", key, value, tmp_path) == ({key} if fault else set())


def test_nanotron_sends_asynchronously_where_it_scatters_alone(tmp_path: Path) -> None:
    key = "parallelism.tp_linear_async_communication"
    for mode, fault in (("ALL_REDUCE", {key}), ("REDUCE_SCATTER", set())):
        for other, text in written("nanotron").items():
            (tmp_path / other).write_text(text, encoding="utf-8")
        path = tmp_path / "nanotron.yaml"
        tree = yaml.safe_load(path.read_text(encoding="utf-8"))
        tree["parallelism"] |= {"tp_mode": mode, "tp_linear_async_communication": True}
        path.write_text(yaml.safe_dump(tree), encoding="utf-8")
        assert {problem.where.rpartition(": ")[2] for _, problem in read_runner_file(path).faults} == fault


@every(
    ("more", "fault"),
    [
        ("--moe-enable-deepep", "--moe-enable-deepep"),
        ("--manual-gc other", "--manual-gc"),
        ("--manual-gc $OTHER", None),
        ("--seed 1 2", "--seed"),
        ("--recompute-modules ''", "--recompute-modules"),
        ("--main-grads-dtype --manual-gc", "--main-grads-dtype"),
        ("--num-experts -1", "--num-experts"),
        ("--lr-warmup-fraction 0.1 --lr-warmup-iters 10", "--lr-warmup-fraction"),
        ("--lr-warmup-fraction 0.1", None),
        ("--moe-router-dtype fp16", "--moe-router-dtype"),
        ("--tensor-model-parallel-size 2 --padded-vocab-size 152071", "--padded-vocab-size"),
        ("--tensor-model-parallel-size 2 --padded-vocab-size 152072", None),
    ],
)
def test_megatron(more: str, fault: str | None, tmp_path: Path) -> None:
    assert faults(tmp_path / "run.sh", f"{MEGATRON} {more}\n") == ({fault} if fault else set())


def test_an_argument_that_no_parser_has_is_told(tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    path.write_text(f"{MEGATRON} --world-size 5\n", encoding="utf-8")
    assert "--world-size" in read_runner_file(path).unknown


@every(
    ("more", "fault"),
    [
        ("--training.max_norm x", "training.max_norm"),
        ("--training.seq_len 128", "training.seq_len"),
        ("--optimizer.lr x", "optimizer.lr"),
        ("--metrics.log_freq x", "metrics.log_freq"),
        ("--comm.mode foo", "comm.mode"),
        ("--comm.mode fake_backend", None),
        ("--parallelism.enable_async_tensor_parallel", "parallelism.enable_async_tensor_parallel"),
        ("--parallelism.disable_loss_parallel", "parallelism.disable_loss_parallel"),
        ("--lr_scheduler.decay_type foo", "lr_scheduler.decay_type"),
        ("--lr_scheduler.decay_type sqrt", None),
        ("--checkpoint.async_mode foo", "checkpoint.async_mode"),
        ("--parallelism.expert_tensor_parallel_degree 2", "parallelism.expert_tensor_parallel_degree"),
    ],
)
def test_torchtitan(more: str, fault: str | None, tmp_path: Path) -> None:
    for other, text in written("torchtitan").items():
        (tmp_path / other).write_text(text, encoding="utf-8")
    path = tmp_path / "train.sh"
    text = path.read_text(encoding="utf-8")
    assert "--parallelism.tensor_parallel_degree" in text
    changed_text = text.replace(
        "--parallelism.tensor_parallel_degree", f"{more} --parallelism.tensor_parallel_degree"
    )
    path.write_text(changed_text, encoding="utf-8")
    assert {problem.where.rpartition(": ")[2] for _, problem in read_runner_file(path).faults} == (
        {fault} if fault else set()
    )


def test_a_dispatcher_of_old_releases_is_told(tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    path.write_text(f"{MEGATRON} --moe-token-dispatcher-type alltoall_seq\n", encoding="utf-8")
    assert any("alltoall_seq: of old releases" in note for note in read_runner_file(path).notes)


def test_torchtitan_names_a_function_of_its_module(tmp_path: Path) -> None:
    for other, text in written("torchtitan").items():
        (tmp_path / other).write_text(text, encoding="utf-8")
    path = tmp_path / "train.sh"
    assert read_runner_file(path).faults == ()
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("--config train", "--config foo"), encoding="utf-8")
    assert "--config foo" in path.read_text(encoding="utf-8")
    assert [problem.found for _, problem in read_runner_file(path).faults] == ["foo"]


@every(
    ("flags", "key"),
    [
        ("--clip-grad x", "--clip-grad"),
        ("--clip-grad 1e-1", None),
        ("--seed 1.5", "--seed"),
        ("--seed 1.5 --seed 3", "--seed"),
        ("--seed ${SEED}", None),
        ("--swiglu --activation-func-clamp-value 7.0", "--activation-func-clamp-value"),
    ],
)
def test_what_megatrons_parser_cannot_turn_into_a_number_is_a_fault(
    flags: str, key: str | None, tmp_path: Path
) -> None:
    assert faults(tmp_path / "train.sh", f"{MEGATRON}{flags} --bf16\n") == ({key} if key else set())


@every(
    ("words", "key"),
    [
        ("--module llama3 --config llama3_8b activation-checkpoint:full", None),
        ("--module llama3 --config llama3_8b activation-checkpoint:memory-budget", None),
        ("--module llama3 --config llama3_8b activation-checkpoint:most", "activation-checkpoint"),
        (
            "--module llama3 --config llama3_8b activation-checkpoint:full activation-checkpoint:none",
            "activation-checkpoint",
        ),
        ("--config llama3_8b", "--module"),
    ],
)
def test_torchtitan_takes_one_known_way_of_checkpointing_and_a_module(
    words: str, key: str | None, tmp_path: Path
) -> None:
    text = f"torchrun --nproc_per_node 8 -m torchtitan.train {words}\n"
    found = faults(tmp_path / "train.sh", text)
    assert (key in found) if key else not {"activation-checkpoint", "--module"} & found


def test_an_argument_that_torchtitan_has_no_longer_is_told(tmp_path: Path) -> None:
    start = "torchrun --nproc_per_node 8 -m torchtitan.train --module llama3 --config llama3_8b"
    path = tmp_path / "train.sh"
    path.write_text(f"{start} --optimizer.lr 1e-4 --fault_tolerance.group_size 3\n")
    (note,) = [note for note in read_runner_file(path).notes if "other releases" in note]
    assert note.startswith("--fault_tolerance.group_size, --optimizer.lr: of other releases")


def test_a_word_that_the_newest_megatron_takes_no_longer_is_told(tmp_path: Path) -> None:
    path = tmp_path / "train.sh"
    path.write_text(f"{MEGATRON}--bf16 --megatron-fsdp-grad-comm-dtype fp31 --ckpt-format torch_dist\n")
    (note,) = [note for note in read_runner_file(path).notes if "the newest release takes" in note]
    assert note.startswith("--megatron-fsdp-grad-comm-dtype fp31: the newest release takes fp32, fp16")


@every(("count", "wrong"), [("0.5", True), ("0", True), ("-1", True), ("2", False), ("1:4", False)])
def test_a_launcher_starts_whole_nodes(count: str, wrong: bool, tmp_path: Path) -> None:
    text = MEGATRON.replace("--nnodes 1", f"--nnodes {count}")
    assert ("--nnodes" in faults(tmp_path / "train.sh", f"{text}--bf16\n")) == wrong


def test_a_name_that_is_nearly_one_of_the_parser_is_told(tmp_path: Path) -> None:
    path = tmp_path / "train.sh"
    path.write_text(f"{MEGATRON}--manual-gc-intervals 5\n", encoding="utf-8")
    notes = read_runner_file(path).notes
    assert any("nearest --manual-gc-interval" in note for note in notes)


def test_deepspeed_shares_a_whole_batch_out(tmp_path: Path) -> None:
    path = tmp_path / "ds.json"
    path.write_text('{"train_batch_size": 64, "zero_optimization": {"stage": 1}}', encoding="utf-8")
    assert read_runner_file(path).options["accumulation"] == "1"
    whole = completed({"gpus": "8", "tp": "2", "global_batch": "64", "accumulation": "4"})
    assert whole["micro_batch"] == "4"
