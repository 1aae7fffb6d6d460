"""The command of OpenRLHF's supervised fine-tuning (``deepspeed --module openrlhf.cli.train_sft``).

References
----------
.. [1] OpenRLHF (https://github.com/OpenRLHF/OpenRLHF), openrlhf/cli/train_sft.py, and
   openrlhf/utils/deepspeed/deepspeed_utils.py, ``get_train_ds_config``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from planner.dataclasses import replace
from planner.runtimes.imports.hub import model_named
from planner.runtimes.imports.passed_over import on, passed_over, tell
from planner.runtimes.imports.sheet import Imported, Sheet
from planner.runtimes.libraries.reading import trainer
from planner.runtimes.libraries.reading.adapters import say_adapter
from planner.runtimes.libraries.reading.trainer_layout import OF_OUR_FILES, PROCESSES, TrainerLaunch

NAMES: Final = {
    "data.max_len": "max_len", "train.batch_size": "train_batch_size", "ds.zero_stage": "zero_stage",
    "train.micro_batch_size": "micro_train_batch_size", "model.model_name_or_path": "pretrain",
    "model.gradient_checkpointing_enable": "gradient_checkpointing", "ds.adam_offload": "adam_offload",
    "ds.zpg": "zpg", "ds.ring_attn_size": "ring_attn_size",
    "ds.tensor_parallel_size": "ds_tensor_parallel_size",
    "ds.use_liger_kernel": "use_liger_kernel", "ds.overlap_comm": "overlap_comm", "optim": "optim",
    "ds.load_in_4bit": "load_in_4bit", "ds.lora.rank": "lora_rank", "ds.lora.dropout": "lora_dropout",
    "ds.lora.target_modules": "target_modules", "ds.packing_samples": "packing_samples",
    "ds.param_dtype": "param_dtype", "ds.grad_accum_dtype": "grad_accum_dtype",
    "ds.attn_implementation": "attn_implementation",
}  # fmt: skip
"""Arguments of today to those of releases up to 0.9, by which they are read."""

WITHOUT_EFFECT: Final = re.compile(
    r"(?:data|ckpt|logger|eval|train|adam|muon|model)\..*|ds\.(?:use_universal_ckpt|deepcompile|lora\.alpha)|max_(?:samples|epochs|norm|ckpt.*)|dataset.*"
    r"|(?:input|output)_(?:key|template)|apply_chat_template|save_.*|logging_steps|eval_.*|ckpt_path|load_checkpoint"
    r"|learning_rate|lr_.*|min_lr_ratio|adam_betas|l2|seed|use_wandb|wandb_.*|use_tensorboard|lora_alpha|flash_attn"
    r"|pretrain_mode|multiturn|disable_fast_tokenizer|train_split|tokenizer_chat_template|use_ms|local_rank|aux_loss_coef"
    r"|gradient_checkpointing_use_reentrant|ring_head_stride|disable_ds_ckpt|deepcompile"
)
"""Arguments that decide neither layout nor what is kept in memory."""


TOLD: Final = (
    passed_over(r"(?:ds\.)?deepcompile", on, "priced without, a little slower"),
    passed_over(r"(?:train\.)?(?:dynamic_batch_enable|use_dynamic_batch)", on, "priced with passes as said"),
)
"""What is not priced; nothing in it decides the layout."""


def from_tree(tree: Mapping[str, Any], path: Path, launch: TrainerLaunch) -> Imported:
    """Return what the arguments say, with OpenRLHF's defaults [1]_."""
    sheet = Sheet(str(path), {NAMES.get(key, key): value for key, value in tree.items()})
    if launch.gpus is None:
        sheet.fault(PROCESSES, "nothing", "how many accelerators start it: --gpus N")
        sheet.instead[PROCESSES] = "gpus"
    sheet.say("gpus", launch.gpus)
    sheet.say("global_batch", sheet.whole("train_batch_size") or 128, "train_batch_size")
    sheet.say("micro_batch", sheet.whole("micro_train_batch_size") or 8, "micro_train_batch_size")
    trainer.length(sheet, "max_len", 2048, sheet.has("packing_samples"))
    current = any(key in NAMES and "." in key for key in tree)
    _numbers(sheet, current)
    _kernels(sheet, current)
    name = str(sheet.take("optim") or "adam")
    sheet.say("optimizer", {"adam": "adamw"}.get(name, name), "optim")
    trainer.recompute(sheet, "gradient_checkpointing", False)
    if sheet.whole("lora_rank"):
        bits = 4 if sheet.has("load_in_4bit") else 16
        dropout = ("lora_dropout", 0.0)
        say_adapter(sheet, bits, ("lora_rank", 8), ("target_modules", ("all",)), dropout)
    sheet.seen.update(("load_in_4bit", "lora_rank", "lora_dropout", "target_modules"))
    _layout(sheet)
    model = model_named(sheet, path, "pretrain")
    tell(sheet, TOLD)
    sheet.ignore(WITHOUT_EFFECT)
    return replace(sheet.imported("deepspeed", model_name=model), lifted=OF_OUR_FILES)


def _kernels(sheet: Sheet, current: bool) -> None:
    """Say attention whose scores are kept: eager, which releases before today's have unless told."""
    name = sheet.take("attn_implementation")
    flash = current or sheet.has("flash_attn")
    if str(name) == "eager" or (name is None and not flash):
        sheet.changes.append("attention=unfused")
    if sheet.has("use_liger_kernel"):  # the loss is taken of whole logits
        sheet.notes.append("Liger's kernels: priced without, a little slower")


def _numbers(sheet: Sheet, current: bool) -> None:
    """Say the numbers: today's release has bf16 where nothing is said, those before a switch."""
    said = str(sheet.take("param_dtype") or ("bf16" if current or sheet.has("bf16") else ""))
    if not said:
        sheet.fault("bf16", "nothing", "--bf16 or --param_dtype: float32 is not priced; or --precision NAME")
        sheet.instead["bf16"] = "precision"
    sheet.say("precision", said or None, "param_dtype", "bf16")
    sheet.seen.update(("bf16", "grad_accum_dtype"))
    dtype = str(sheet.values.get("grad_accum_dtype"))
    if dtype in ("bf16", "fp32"):
        sheet.say("gradient_dtype", dtype, "grad_accum_dtype")


def _layout(sheet: Sheet) -> None:
    """Say the sharding, what lies on the host, and the degrees."""
    stage = sheet.whole("zero_stage")
    sheet.say("zero", 2 if stage is None else stage, "zero_stage")
    if sheet.has("adam_offload"):
        sheet.say("offload", "optimizer", "adam_offload")
    if not sheet.has("overlap_comm"):
        sheet.changes.append("overlap_comm=false")
        sheet.notes.append("no overlap_comm: priced without overlap of data parallelism")
    sheet.say("tp", sheet.whole("ds_tensor_parallel_size"), "ds_tensor_parallel_size")
    ring = sheet.degree("ring_attn_size")
    if ring and ring > 1:
        sheet.say("cp", ring, "ring_attn_size")
        sheet.say("cp_method", "ring", "ring_attn_size")
    trainer.refuse(sheet, {"zpg": "1: a second copy of weights in each node is not read from here"})
