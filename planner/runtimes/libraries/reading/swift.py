"""ms-swift's ``swift sft`` and ``megatron sft``, from a command line or a YAML, as the options of a plan."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from pathlib import Path
from typing import Any, Final

from planner.dataclasses import replace
from planner.inputs.model import ModelSpec
from planner.inputs.prediction import PredictionLayers
from planner.runtimes.imports import script_arguments
from planner.runtimes.imports.command_line import Training
from planner.runtimes.imports.hub import model_named
from planner.runtimes.imports.literals import flat
from planner.runtimes.imports.sheet import Imported, Sheet
from planner.runtimes.libraries.reading import trainer
from planner.runtimes.libraries.reading.adapters import say_adapter
from planner.runtimes.libraries.reading.trainer_layout import TrainerLaunch, laid_out, with_own_dtypes
from planner.runtimes.megatron_lm.reading.megatron import from_script
from planner.runtimes.megatron_lm.reading.megatron_names import flags_of, known_model

KEYS: Final = frozenset({
    "tuner_type", "train_type", "sft_type", "target_modules", "torch_dtype", "max_length", "dataset",
    "micro_batch_size",
})  # fmt: skip
"""Keys of which a YAML of ms-swift has two, beside ``model``."""

TUNERS: Final = ("tuner_type", "train_type", "sft_type")
"""The method, by the names that ms-swift 4, 3 and 2 have for it."""

MEGATRON: Final[dict[str, Any]] = {
    "micro_batch_size": 1,
    "global_batch_size": 16,
    "recompute_granularity": "selective",
    "use_distributed_optimizer": True,
    "moe_grouped_gemm": True,
    "expert_tensor_parallel_size": 1,
    "apply_rope_fusion": False,
    "moe_token_dispatcher_type": "alltoall",
}
"""Defaults of swift/megatron/arguments/megatron_args.py that are not Megatron-LM's own."""

SWIFT: Final = frozenset(
    {"attn_impl", "load_from_cache_file", "use_hf", "agent_template", "loss_scale", "truncation_strategy",
     "split_dataset_ratio",
     "padding_free", "padding_side",
     "use_chat_template",
     "max_new_tokens", "temperature", "stream", "custom_register_path", "external_plugins",
     "save_safetensors",
     "add_version", "create_checkpoint_symlink", "lazy_tokenize", "cached_dataset",
     "packing_num_proc",
     "merge_lora", "load_safetensors", "mcore_model", "mcore_adapter", "mcore_adapters", "no_save_optim",
     "no_save_rng",
     "no_load_optim", "no_load_rng", "finetune", "quant_method", "config", "add_non_thinking_prefix",
     "enable_thinking", "calculate_per_token_loss", "train_iters",
     "max_epochs",
     "group_by_length", "dataset_shuffle", "train_dataloader_shuffle", "ddp_timeout", "use_flash_ckpt",
     "enable_npu_fusion", "early_stop_interval", "model_author", "model_name"}
)  # fmt: skip
"""Arguments of ms-swift beside the Trainer's that decide neither layout nor memory."""

ENDED: Final = "next-token training of all weights or adapters"


def is_one(tree: Mapping[str, Any]) -> bool:
    """Return whether a file has ms-swift's keys."""
    return "model" in tree and not isinstance(tree["model"], Mapping) and len(KEYS & set(tree)) >= 2


def is_megatron(tree: Mapping[str, Any]) -> bool:
    """Return whether the arguments are those of ``megatron sft``."""
    mine = {
        "micro_batch_size",
        "tensor_model_parallel_size",
        "pipeline_model_parallel_size",
        "recompute_granularity",
    }
    return bool(mine & set(tree)) and "per_device_train_batch_size" not in tree


def from_tree(tree: Mapping[str, Any], path: Path, launch: TrainerLaunch) -> Imported:
    """Return what the arguments of a training say, with ms-swift's defaults."""
    if is_megatron(tree):
        return _megatron(tree, path, launch)
    sheet = Sheet(str(path), flat(tree))
    _batch(sheet, launch.gpus)
    packed = sheet.has("packing")
    trainer.length(sheet, _packed(sheet) or "max_length", None, packed)
    _numbers(sheet)
    trainer.optimizer(sheet, "optim", "optimizer")
    trainer.recompute(sheet, "gradient_checkpointing", True)
    _method(sheet, "lora")
    ranks = sheet.degree("sequence_parallel_size")
    if ranks and ranks > 1:
        sheet.say("cp", ranks, "sequence_parallel_size")
        sheet.say("cp_method", "all-to-all", "sequence_parallel_size")
    sheet.say("tp", sheet.whole("deepspeed_autotp_size"), "deepspeed_autotp_size")
    trainer.refuse(
        sheet,
        {"rlhf_type": ENDED, "use_galore": ENDED, "lisa_activated_layers": ENDED, "use_dora": "plain LoRA"},
    )
    _kind(sheet, launch)
    trainer.told_kernels(sheet)
    model = model_named(sheet, path, "model", "model_id_or_path", "model_type")
    _frozen(sheet, known_model(model))
    sheet.ignore(script_arguments.WITHOUT_EFFECT, *SWIFT)
    return with_own_dtypes(laid_out(sheet, tree, path, launch, model))


def _packed(sheet: Sheet) -> str:
    """Return the key of the length of packs, where sequences are packed to another than their own."""
    sheet.seen.update(("packing_length", "max_length"))
    said = sheet.has("packing") and sheet.values.get("packing_length") is not None
    return "packing_length" if said else ""


def _kind(sheet: Sheet, launch: TrainerLaunch) -> None:
    """Check that it trains on the next token, with one device for each process."""
    task = sheet.take("task_type")
    if str(task or "causal_lm") != "causal_lm":
        sheet.fault("task_type", repr(str(task)), ENDED)
    if launch.spread:
        expected = "NPROC_PER_NODE as many as the devices: layers spread over devices are not priced"
        sheet.fault("CUDA_VISIBLE_DEVICES", "several devices for each process", expected)
    sheet.seen.update(key for key in sheet.values if key.startswith("ENV."))


FROZEN: Final = ("freeze_vit", "freeze_aligner")
"""What is left as it is unless told (swift/arguments/tuner_args.py, swift/megatron/arguments)."""


def _frozen(sheet: Sheet, model: ModelSpec | None) -> None:
    """Say what of an encoder learns; an encoder alone is not priced."""
    trainer.frozen_encoder(sheet, model, *FROZEN, "method" not in sheet.options)
    sheet.seen.update(FROZEN)
    if sheet.has("freeze_llm"):
        sheet.fault("freeze_llm", "true", "false: training of an encoder alone is not priced")


def _predicting(sheet: Sheet, model: ModelSpec | None) -> ModelSpec | None:
    """Return a model with the prediction layers that are asked for: none unless told, whatever it has."""
    layers = sheet.whole("mtp_num_layers") or 0
    if model is None or (model.prediction.layers if model.prediction else 0) == layers:
        return model
    told = "as mtp_num_layers says" if layers else "no mtp_num_layers, so the model's own are not trained"
    sheet.notes.append(f"{layers or 'no'} prediction layer{'s' * (layers != 1)}: {told}")
    block = model.prediction.block if model.prediction else model.layers[-1]
    extra = PredictionLayers(layers=layers, block=block) if layers else None
    return model.model_copy(update={"prediction": extra, "aliases": ()})


def _batch(sheet: Sheet, gpus: int | None) -> None:
    """Say the batch: sixteen sequences of a step, unless the passes are said."""
    size = sheet.whole("per_device_train_batch_size", "batch_size")
    micro = 1 if size is None else size
    sheet.say("micro_batch", micro, "per_device_train_batch_size")
    steps = sheet.whole("gradient_accumulation_steps")
    key = "gradient_accumulation_steps"
    if steps is None and gpus and micro > 0:
        steps = max(1, ceil(16 / micro / gpus))
    if steps is not None:
        sheet.say("accumulation", steps, key)
    else:
        sheet.fault(
            key,
            "nothing",
            "it follows from the processes, so that a step has 16 sequences: --global-batch 16",
        )
        sheet.instead[key] = "global_batch"


def _numbers(sheet: Sheet) -> None:
    kind = str(sheet.take("torch_dtype", "dtype") or "").lower()
    names = {
        "bfloat16": "bf16",
        "bf16": "bf16",
        "float16": "fp16",
        "fp16": "fp16",
        "float32": "fp32",
        "fp32": "fp32",
    }
    said = any(sheet.values.get(key) is not None for key in ("bf16", "fp16"))
    if not said and not kind:
        sheet.notes.append("no torch_dtype: the weights' own, taken as bf16")
    if said:
        trainer.precision(sheet)
    else:
        sheet.say("precision", names.get(kind, kind) or "bf16", "torch_dtype")


def _method(sheet: Sheet, default: str) -> None:
    key = next((key for key in TUNERS if key in sheet.values), TUNERS[0])
    kind = str(sheet.take(*TUNERS) or default)
    bits = sheet.whole("quant_bits", "quantization_bit")
    if kind not in ("full", "lora"):
        sheet.fault(key, repr(kind), "full or lora; or --method for the nearest of them")
        sheet.instead[key] = "method"
        return
    if bits not in (None, 4):
        sheet.fault("quant_bits", str(bits), "4, which is QLoRA; or --method lora with a base of 16 bits")
        sheet.instead["quant_bits"] = "method"
    if kind != "full":
        say_adapter(sheet, bits or 16, ("lora_rank", 8), ("target_modules", ("all",)), ("lora_dropout", 0.05))
        trainer.adapters_alone(sheet)


def _megatron(tree: Mapping[str, Any], path: Path, launch: TrainerLaunch) -> Imported:
    """Return what ``megatron sft`` says: Megatron's names with underscores, and the model by its name."""
    sheet = Sheet(str(path), flat(tree))
    values = {key: value for key, value in sheet.values.items() if key not in SWIFT}
    name = model_named(sheet, path, "model", "load")
    _method(sheet, "full")
    named = known_model(name) if name else None
    _frozen(sheet, named)
    model = _predicting(sheet, named)
    length = "max_length" if "max_length" in tree else "seq_length"
    trainer.length(sheet, _packed(sheet) or length, 2048, sheet.has("packing"))
    trainer.told_kernels(sheet)
    trainer.refuse(sheet, {"rlhf_type": ENDED})
    _kind(sheet, launch)
    if not {"bf16", "fp16"} & set(values):
        values["bf16"] = True
    values = {**MEGATRON, **values}
    if "recompute_granularity" in values and str(values["recompute_granularity"]) == "none":
        del values["recompute_granularity"]
    values = {key: value for key, value in values.items() if not key.startswith("ENV.")}
    own = (
        {key for key in values if script_arguments.WITHOUT_EFFECT.fullmatch(key)}
        | sheet.seen
        | set(sheet.options)
    )
    flags = flags_of({key: value for key, value in values.items() if key not in own})
    flags.setdefault("--seq-length", sheet.options.get("seq_len", ""))
    training = Training("megatron-lm", flags, 1 if launch.gpus else None, launch.gpus, None, ())
    found, _ = from_script(training, str(path), model)
    options = {**found.options, **sheet.options}
    adapted = "method" in sheet.options
    faults = [*found.faults, *sheet.imported("").faults]
    return replace(
        found,
        runtime="megatron-bridge" if adapted else "megatron-lm",
        options=options,
        places={**found.places, **sheet.places},
        model=None if model is named else model,
        model_name=name if model is named else None,
        changes=(*found.changes, *sheet.changes),
        notes=(*sheet.notes, *found.notes),
        faults=tuple(faults),
        lifted=(*found.lifted, *(("vision-trains-whole",) if adapted else ())),
    )
