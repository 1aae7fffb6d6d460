"""LLaMA-Factory: ``llamafactory.launcher`` with the YAML that ``llamafactory-cli train`` reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from planner.runtimes.libraries.family import Library, Tuning, trainer_fields

FILE: Final = "llama_factory.yaml"

ATTENTION: Final = {
    "sdpa": "sdpa", "flash_attention_2": "fa2", "flash_attention_3": "fa3", "eager": "disabled",
}  # fmt: skip
"""transformers' name of an implementation to LLaMA-Factory's ``flash_attn`` (hparams/model_args.py)."""


def tree(tuning: Tuning) -> Mapping[str, Any]:
    """Return the YAML: sequences filled up, layers recomputed only where the plan says so."""
    work, targets = tuning.job.workload, tuning.adapted
    found: dict[str, Any] = {
        "model_name_or_path": ".",
        "stage": "sft",
        "do_train": True,
        "finetuning_type": "full" if tuning.method == "full" else "lora",
        "dataset": "train",
        "template": "default",
        "cutoff_len": work.seq_len,
        "packing": True,
        "flash_attn": ATTENTION[tuning.attention],
        "disable_gradient_checkpointing": not tuning.recomputed,
        **trainer_fields(tuning),
    }
    if tuning.method != "full":
        found |= {
            "lora_rank": work.lora_rank,
            "lora_alpha": 2 * work.lora_rank,
            "lora_dropout": tuning.dropout,
            "lora_target": "all" if targets == "all-linear" else ",".join(targets),
        }
    if tuning.in_bfloat16:
        found["pure_bf16"] = True
    if tuning.method == "qlora":
        found |= {"quantization_bit": 4, "quantization_method": "bnb", "double_quantization": True}
    return found


ENTRY = Library(
    name="llama-factory",
    aliases=("llamafactory", "llama_factory", "lmf"),
    title="LLaMA-Factory",
    version="0.9.5",
    cite="LLaMA-Factory 0.9.5, src/llamafactory/hparams",
    file=FILE,
    tree=tree,
    program=("llamafactory.launcher", FILE),
    arguments={
        "CHECKPOINT": ("model_name_or_path=${CHECKPOINT}",),
        "DATA_PATH": ("dataset_dir=${DATA_PATH}",),
        "OUTPUT_DIR": ("output_dir=${OUTPUT_DIR}",),
        "TRAIN_STEPS": ("max_steps=${TRAIN_STEPS}",),
        "LEARNING_RATE": ("learning_rate=${LEARNING_RATE}",),
        "WARMUP_STEPS": ("warmup_steps=${WARMUP_STEPS}",),
        "SEED": ("seed=${SEED}",),
        "LOG_INTERVAL": ("logging_steps=${LOG_INTERVAL}",),
        "SAVE_INTERVAL": ("save_steps=${SAVE_INTERVAL}",),
    },
    notes=(
        "DATA_PATH is a folder whose dataset_info.json has an entry train, or change dataset in "
        f"{FILE}; CHECKPOINT a model of the Hub or a folder, with its tokenizer.",
        f"The template in {FILE} is default: name the model's own, such as llama3 or qwen3, in its place.",
    ),
)
