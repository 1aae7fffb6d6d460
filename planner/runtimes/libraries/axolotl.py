"""Axolotl: ``axolotl.cli.train`` with its YAML."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from planner.errors import UnsupportedPlan
from planner.runtimes.libraries.family import Library, Tuning, trainer_fields

FILE: Final = "axolotl.yaml"

RENAMED: Final = {
    "per_device_train_batch_size": "micro_batch_size",
    "optim": "optimizer",
    "lr_scheduler_type": "lr_scheduler",
}
"""The Trainer's arguments to Axolotl's keys."""

OF_FSDP: Final = {"cpu_offload": "offload_params"}
"""The Trainer's keys of FSDP's section to Axolotl's (``src/axolotl/utils/schemas/fsdp.py``)."""

UNSAID: Final = ("report_to", "fsdp")
"""Arguments of the Trainer that Axolotl has no key for, or sets by itself."""


def tree(tuning: Tuning) -> Mapping[str, Any]:
    """Return the YAML: documents packed to whole sequences.

    Raises `UnsupportedPlan` if nothing keeps the weights in float32, as the plan's price has them.
    """
    work, targets = tuning.job.workload, tuning.adapted
    whole = tuning.method == "full" and tuning.host == "fsdp" and tuning.plan.zero == 0
    if whole and not tuning.in_bfloat16:
        raise UnsupportedPlan(
            "Axolotl trains whole weights that nobody shards in bfloat16 alone, and the plan is priced with "
            "a float32 copy; nearest: --zero 2, or all dtypes bf16"
        )
    if tuning.in_bfloat16 and not whole:
        raise UnsupportedPlan(
            "Axolotl computes in bfloat16 beside the weights that FSDP2 shards, which Accelerate keeps in "
            "float32 then; nearest: --zero 0, or no dtypes"
        )
    said = trainer_fields(tuning).items()
    fields = {RENAMED.get(key, key): value for key, value in said if key not in UNSAID}
    fields["bf16"] = work.precision == "bf16"
    found: dict[str, Any] = {
        "base_model": ".",
        "datasets": [{"path": "DATA_PATH", "type": "chat_template"}],
        "output_dir": "OUTPUT_DIR",
        "sequence_len": work.seq_len,
        "sample_packing": True,
        "pad_to_sequence_len": True,
        "attn_implementation": tuning.attention,
        "auto_resume_from_checkpoints": True,
        **fields,
    }
    if tuning.sharded:
        section = found["fsdp_config"]
        found["fsdp_version"] = section.pop("version")
        found["fsdp_config"] = {OF_FSDP.get(key, key): value for key, value in section.items()}
    if tuning.method != "full":
        found |= {"adapter": tuning.method, "lora_r": work.lora_rank, "lora_alpha": 2 * work.lora_rank}
        found["lora_dropout"] = tuning.dropout
        found |= {"lora_target_linear": True} if targets == "all-linear" else {"lora_target_modules": targets}
        found |= dict.fromkeys(("lora_mlp_kernel", "lora_qkv_kernel", "lora_o_kernel"), False)
    if tuning.method == "qlora":
        found["load_in_4bit"] = True
    return found


ENTRY = Library(
    name="axolotl",
    title="Axolotl",
    version="0.19.0",
    cite="Axolotl 0.19.0, src/axolotl/utils/schemas and src/axolotl/cli/config.py",
    file=FILE,
    tree=tree,
    program=("axolotl.cli.train", FILE),
    arguments={
        "CHECKPOINT": ("--base_model=${CHECKPOINT}",),
        "DATA_PATH": ("--datasets=[{'path': '${DATA_PATH}', 'type': 'chat_template'}]",),
        "OUTPUT_DIR": ("--output_dir=${OUTPUT_DIR}",),
        "TRAIN_STEPS": ("--max_steps=${TRAIN_STEPS}",),
        "LEARNING_RATE": ("--learning_rate=${LEARNING_RATE}",),
        "WARMUP_STEPS": ("--warmup_steps=${WARMUP_STEPS}",),
        "SEED": ("--seed=${SEED}",),
        "LOG_INTERVAL": ("--logging_steps=${LOG_INTERVAL}",),
        "SAVE_INTERVAL": ("--save_steps=${SAVE_INTERVAL}",),
    },
    notes=(
        "DATA_PATH is a data set of the Hub or a folder with a column messages; CHECKPOINT a model of the "
        "Hub or a folder, with its tokenizer.",
    ),
)
