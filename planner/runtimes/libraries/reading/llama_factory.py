"""A LLaMA-Factory YAML or JSON (``llamafactory-cli train FILE``) as the options of a plan."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from planner.runtimes.imports import script_arguments
from planner.runtimes.imports.hub import model_named
from planner.runtimes.imports.literals import flat
from planner.runtimes.imports.sheet import Imported, Sheet
from planner.runtimes.libraries.reading import trainer
from planner.runtimes.libraries.reading.adapters import say_adapter
from planner.runtimes.libraries.reading.trainer_layout import TrainerLaunch, laid_out
from planner.runtimes.megatron_lm.reading.megatron_names import known_model

KEYS: Final = frozenset({"finetuning_type", "cutoff_len", "template", "stage"})
"""Keys of which a file of LLaMA-Factory has two, beside ``model_name_or_path``."""

UNPRICED: Final = dict.fromkeys(
    (
        "use_galore",
        "use_badam",
        "use_apollo",
        "use_adam_mini",
        "use_llama_pro",
        "mixture_of_depths",
        "use_kt",
        "use_asft_loss",
        "train_from_scratch",
        "sequence_parallel_size",
    ),
    "off in a copy of the file: it changes what is kept in memory, and is not priced",
)
MEGATRON: Final = (
    "tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size",
    "expert_model_parallel_size", "virtual_pipeline_model_parallel_size", "use_distributed_optimizer",
)  # fmt: skip
"""Keys that only LLaMA-Factory's Megatron back ends have."""


def is_one(tree: Mapping[str, Any]) -> bool:
    """Return whether a file has LLaMA-Factory's keys."""
    return "model_name_or_path" in tree and len(KEYS & set(tree)) >= 2


def from_tree(tree: Mapping[str, Any], path: Path, launch: TrainerLaunch) -> Imported:
    """Return what the arguments of a training say (src/llamafactory/hparams), with their defaults."""
    sheet = Sheet(str(path), flat(tree))
    _kind(sheet)
    trainer.batch(sheet, "per_device_train_batch_size", 8)
    packed = sheet.has("packing", "neat_packing") or tree.get("stage") == "pt"
    trainer.length(sheet, "cutoff_len", 2048, packed)
    _precision(sheet)
    sheet.instead["optim"] = "optimizer"
    if sheet.has("use_muon"):
        sheet.say("optimizer", "muon", "use_muon")
        sheet.seen.add("optim")
    else:
        trainer.optimizer(sheet, "optim")
    if sheet.has("pure_bf16") and str(sheet.take("finetuning_type") or "lora") == "full":
        trainer.own_bfloat16(sheet, "pure_bf16")
    off = sheet.has("disable_gradient_checkpointing")
    sheet.say("recompute", "none" if off else "full", "disable_gradient_checkpointing")
    sheet.seen.update(
        (
            "use_unsloth_gc",
            "use_reentrant_gc",
            "upcast_layernorm",
            "upcast_lmhead_output",
            "gradient_checkpointing",
        )
    )
    _method(sheet)
    _megatron(sheet)
    trainer.refuse(sheet, UNPRICED)
    trainer.told_kernels(sheet)
    model = model_named(sheet, path, "model_name_or_path")
    _images(sheet, model)
    sheet.ignore(script_arguments.WITHOUT_EFFECT)
    return laid_out(sheet, tree, path, launch, model)


IMAGES: Final = re.compile(
    r"(?:image|video|audio)_.*|media_dir|freeze_(?:vision_tower|multi_modal_projector)"
)


def _images(sheet: Sheet, model: str | None) -> None:
    """Say whether an encoder of images is left as it is; of a language model the keys mean nothing."""
    full = sheet.values.get("finetuning_type") == "full"
    keys = ("freeze_vision_tower", "freeze_multi_modal_projector")
    trainer.frozen_encoder(sheet, known_model(model), *keys, full)
    sheet.seen.update(key for key in sheet.values if IMAGES.fullmatch(key))
    if sheet.has("freeze_language_model"):
        sheet.fault("freeze_language_model", "true", "false: training of an encoder alone is not priced")


def _megatron(sheet: Sheet) -> None:
    """Refuse what its Megatron back ends run: their degrees may be 1, but the runtime is another."""
    keys = [key for key in MEGATRON if key in sheet.values]
    if keys:
        expected = "a file for the Trainer; price this one by options, with --runtime megatron-bridge"
        sheet.fault(keys[0], f"{len(keys)} keys of a Megatron back end", expected)
    sheet.seen.update(keys)


def _kind(sheet: Sheet) -> None:
    """Check that it trains a language model on the next token."""
    stage = str(sheet.take("stage") or "sft")
    if stage not in ("sft", "pt"):
        sheet.fault(
            "stage", repr(stage), "sft or pt: training with rewards or a reference model is not priced"
        )
    train = sheet.take("do_train")
    if train is None or str(train).lower() != "true":
        sheet.fault("do_train", str(train), "true: only training is priced")


def _precision(sheet: Sheet) -> None:
    said = any(sheet.has(key) for key in ("bf16", "fp16", "pure_bf16", "fp8"))
    trainer.precision(sheet, "bf16")
    if not said:
        sheet.notes.append("neither bf16 nor fp16: the weights' own dtype, taken as bf16")
    sheet.seen.update(("fp8_backend", "fp8_enable_fsdp_float8_all_gather"))


def _method(sheet: Sheet) -> None:
    kind = str(sheet.take("finetuning_type") or "lora")
    bits = sheet.whole("quantization_bit")
    if kind not in ("full", "lora"):
        sheet.fault("finetuning_type", repr(kind), "full or lora; or --method for the nearest of them")
        sheet.instead["finetuning_type"] = "method"
        return
    if bits not in (None, 4):
        sheet.fault(
            "quantization_bit", str(bits), "4, which is QLoRA; or --method lora with a base of 16 bits"
        )
        sheet.instead["quantization_bit"] = "method"
    if kind == "lora":
        say_adapter(sheet, bits or 16, ("lora_rank", 8), ("lora_target", ("all",)))
        trainer.adapters_alone(sheet)
