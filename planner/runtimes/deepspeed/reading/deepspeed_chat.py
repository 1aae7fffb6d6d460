"""Arguments of DeepSpeed-Chat's fine-tuning scripts, which write their DeepSpeed file themselves."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from planner.dataclasses import replace
from planner.runtimes.imports import script_arguments
from planner.runtimes.imports.hub import model_named
from planner.runtimes.imports.literals import flat
from planner.runtimes.imports.sheet import Imported, Sheet
from planner.runtimes.libraries.reading import trainer
from planner.runtimes.libraries.reading.trainer_layout import TrainerLaunch, laid_out

OWN: Final = frozenset(
    {"lora_module_name", "lora_learning_rate", "print_loss", "enable_tensorboard", "tensorboard_path",
     "sft_only_data_path",
     "add_eot_token", "data_output_path", "dropout", "compute_fp32_loss", "zero_stage", "offload",
     "num_padding_at_beginning",
     "eval_interval", "eval_iters"}
)  # fmt: skip
EVERY: Final = "adapters alone (--only_optimize_lora) or none: both together are not priced"


def is_one(values: Mapping[str, Any]) -> bool:
    """Return whether arguments are those of DeepSpeed-Chat: a ZeRO stage, and no file for DeepSpeed."""
    return "zero_stage" in values and str(values.get("deepspeed", "true")).lower() == "true"


def from_tree(values: Mapping[str, Any], path: Path, launch: TrainerLaunch) -> Imported:
    """Return what the arguments say (applications/DeepSpeed-Chat/training/step1_supervised_finetuning)."""
    sheet = Sheet(str(path), flat(values))
    trainer.batch(sheet, "per_device_train_batch_size", 16)
    trainer.length(sheet, "max_seq_len", 512, packed=False)
    kind = str(sheet.take("dtype") or "fp16")
    sheet.say("precision", kind, "dtype")
    sheet.say("optimizer", "adamw")
    trainer.recompute(sheet, "gradient_checkpointing", False)
    rank = sheet.whole("lora_dim")
    if rank:
        sheet.say("method", "lora", "lora_dim")
        sheet.say("lora_rank", rank, "lora_dim")
        if not sheet.has("only_optimize_lora"):
            sheet.instead["lora_dim"] = "method"
            sheet.fault("lora_dim", str(rank), EVERY)
    sheet.seen.add("only_optimize_lora")
    section = _section(sheet)
    name = model_named(sheet, path, "model_name_or_path")
    sheet.ignore(script_arguments.WITHOUT_EFFECT, *OWN, "deepspeed")
    found = laid_out(sheet, {"deepspeed": section}, path, launch, name)
    return replace(found, runtime="deepspeed")


def _section(sheet: Sheet) -> dict[str, Any]:
    """Return the DeepSpeed file that the scripts write (dschat/utils/ds_utils.py)."""
    stage = sheet.whole("zero_stage") or 0
    section: dict[str, Any] = {"stage": stage}
    if sheet.has("offload"):
        section["offload_optimizer"] = {"device": "cpu"}
        if stage == 3:
            section["offload_param"] = {"device": "cpu"}
    return {"zero_optimization": section}
