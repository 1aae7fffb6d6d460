"""TRL: ``trl.scripts.sft`` with a YAML of the Trainer's, the model's and the adapters' arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from planner.runtimes.libraries.family import Library, Tuning, trainer_fields

FILE: Final = "trl.yaml"


def tree(tuning: Tuning) -> Mapping[str, Any]:
    """Return the YAML: sequences filled up, the loss on whole logits, both as priced."""
    work = tuning.job.workload
    found: dict[str, Any] = {
        "model_name_or_path": ".",
        "dtype": tuning.loaded_dtype,
        "attn_implementation": tuning.attention,
        "max_length": work.seq_len,
        "packing": True,
        "packing_strategy": "wrapped",
        "loss_type": "nll",
        **trainer_fields(tuning),
    }
    if tuning.method != "full":
        found |= {
            "use_peft": True,
            "lora_r": work.lora_rank,
            "lora_alpha": 2 * work.lora_rank,
            "lora_dropout": tuning.dropout,
            "lora_target_modules": tuning.adapted,
        }
    if tuning.sharded:
        found["fsdp"] = True
    if tuning.method == "qlora":
        found |= {
            "load_in_4bit": True,
            "bnb_4bit_quant_type": "nf4",
            "use_bnb_nested_quant": True,
            "bnb_4bit_quant_storage": tuning.loaded_dtype,
        }
    return found


ENTRY = Library(
    name="trl",
    title="TRL",
    version="1.16.0",
    cite="TRL 1.16.0, trl/scripts/sft.py, trl/trainer/sft_config.py and model_config.py",
    file=FILE,
    tree=tree,
    program=("trl.scripts.sft", "--config", FILE),
    arguments={
        "CHECKPOINT": ("--model_name_or_path", "${CHECKPOINT}"),
        "DATA_PATH": ("--dataset_name", "${DATA_PATH}"),
        "OUTPUT_DIR": ("--output_dir", "${OUTPUT_DIR}"),
        "TRAIN_STEPS": ("--max_steps", "${TRAIN_STEPS}"),
        "LEARNING_RATE": ("--learning_rate", "${LEARNING_RATE}"),
        "WARMUP_STEPS": ("--warmup_steps", "${WARMUP_STEPS}"),
        "SEED": ("--seed", "${SEED}"),
        "LOG_INTERVAL": ("--logging_steps", "${LOG_INTERVAL}"),
        "SAVE_INTERVAL": ("--save_steps", "${SAVE_INTERVAL}"),
    },
    notes=(
        "DATA_PATH is a data set of the Hub or a folder, with a column messages, text, or prompt and "
        "completion; CHECKPOINT a model of the Hub or a folder, with its tokenizer.",
    ),
)
