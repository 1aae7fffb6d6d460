"""Keys and values of the sections of a DeepSpeed JSON that take no further ones."""

from __future__ import annotations

from pathlib import Path

from planner.runtimes.imports.dispatch import read_runner_file
from tests.cases import every
from tests.unit.test_from_file_kinds import refused_at

ZERO = "zero_optimization"


@every(
    ("key", "value", "fault"),
    [
        (f"{ZERO}.offload_param", {"device": "cpu", "pin_memory": True}, None),
        (
            f"{ZERO}.offload_param",
            {"device": "cpu", "pin_memories": True},
            f"{ZERO}.offload_param.pin_memories",
        ),
        (f"{ZERO}.offload_optimizer", {"device": "cpu", "fast": True}, f"{ZERO}.offload_optimizer.fast"),
        (f"{ZERO}.offload_optimizer", {"device": "cpu", "ratio": "half"}, f"{ZERO}.offload_optimizer.ratio"),
        (f"{ZERO}.zenflow", {"topk_ratio": 0.1, "overlap": True}, f"{ZERO}.zenflow.overlap"),
        (f"{ZERO}.offload_param", 3, f"{ZERO}.offload_param"),
        (f"{ZERO}.stages", 3, f"{ZERO}.stages"),
        ("tensor_parallel", {"autotp_sizes": 2}, "tensor_parallel.autotp_sizes"),
        ("tensor_parallel", {"tp": {"tp_size": 1, "grain": 64}}, "tensor_parallel.tp.grain"),
        ("tensorboard", {"enabled": True, "output": "x"}, "tensorboard.output"),
        ("wandb", {"enabled": False, "group": None, "project": "x"}, None),
        ("wandb", {"enabled": False, "project": None}, "wandb.project"),
        ("comms_logger", {"enabled": True, "verbose": "loud"}, "comms_logger.verbose"),
        ("csv_monitor", {"enabled": True, "job_name": 3}, "csv_monitor.job_name"),
        ("compile", {"deepcompile": True, "passs": []}, "compile.passs"),
        ("bfloat16", {"enabled": "perhaps"}, "bfloat16.enabled"),
    ],
)
def test_a_key_or_a_value_that_a_section_refuses(
    key: str, value: object, fault: str | None, tmp_path: Path
) -> None:
    assert refused_at("deepspeed", "ds_config.json", key, value, tmp_path) == ({fault} if fault else set())


@every(("key", "value"), [("bf16.loss_scale", 0), (f"{ZERO}.mics_shard_size", 8)])
def test_what_older_releases_take_alone_is_told(key: str, value: object, tmp_path: Path) -> None:
    assert refused_at("deepspeed", "ds_config.json", key, value, tmp_path) == set()
    assert [note for note in read_runner_file(tmp_path / "ds_config.json").notes if key in note]


def test_a_micro_batch_alone_is_one_pass(tmp_path: Path) -> None:
    """DeepSpeed 0.19.8, runtime/config.py, ``_set_batch_related_parameters``."""
    path = tmp_path / "ds.json"
    path.write_text('{"train_micro_batch_size_per_gpu": 4}')
    assert read_runner_file(path).options["accumulation"] == "1"
    path.write_text('{"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": "auto"}')
    assert "accumulation" not in read_runner_file(path).options
