"""A value of another kind than its field's is a fault of a nanotron YAML, as dacite has it.

The values stand in what mutants of legal files had when nanotron 2411b022's own loader refused them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.cases import every
from tests.unit.test_from_file_kinds import refused_at

RATE = "optimizer.learning_rate_scheduler"
REFUSED = [
    (f"{RATE}.lr_decay_style", None), (f"{RATE}.lr_warmup_steps", "x"), (f"{RATE}.learning_rate", "x"),
    ("general.run", 3), ("general.ignore_sanity_checks", 3), ("tokenizer.tokenizer_name_or_path", 3),
    ("logging.iteration_step_info_interval", "x"), ("model.model_config.intermediate_size", None),
    ("model.make_vocab_size_divisible_by", None), ("model.model_config.is_llama_config", True),
    ("data_stages", None), ("profiler", 3), ("optimizer.clip_grad", "x"), ("optimizer.weight_decay", None),
]  # fmt: skip
TAKEN = [
    ("optimizer.clip_grad", None), ("general.run", None), (f"{RATE}.learning_rate", 1),
    ("logging.iteration_step_info_interval", None), ("parallelism.tp_linear_async_communication", None),
]  # fmt: skip


@every(("key", "value"), REFUSED)
def test_another_kind_of_value_is_a_fault_at_its_key(key: str, value: Any, tmp_path: Path) -> None:
    assert key in refused_at("nanotron", "nanotron.yaml", key, value, tmp_path)


@every(("key", "value"), TAKEN)
def test_what_dacite_takes_is_no_fault(key: str, value: Any, tmp_path: Path) -> None:
    assert not refused_at("nanotron", "nanotron.yaml", key, value, tmp_path)


@every("name", [None, 3])
def test_a_stage_of_data_has_a_name(name: object, tmp_path: Path) -> None:
    stages = [{"name": name, "start_training_step": 1, "data": {"dataset": None, "seed": 1}}]
    assert refused_at("nanotron", "nanotron.yaml", "data_stages", stages, tmp_path) == {"data_stages.name"}
