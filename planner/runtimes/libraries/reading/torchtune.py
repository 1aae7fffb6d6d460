"""A torchtune YAML (``tune run RECIPE --config FILE``) as the options of a plan: FSDP 2, or one device.

References
----------
.. [1] torchtune 0.7, recipes/full_finetune_distributed.py and lora_finetune_distributed.py: keys and
   defaults; the model is made in ``dtype``, which weights, gradients and states rest in.
.. [2] torchtune 0.7, torchtune/__init__.py: segments of the allocator grow unless the environment forbids.
.. [3] torchtune 0.7, torchtune/models/FAMILY/_model_builders.py: the models and their adapters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from planner.dataclasses import replace
from planner.runtimes.imports.hub import model_named
from planner.runtimes.imports.interpolation import interpolated
from planner.runtimes.imports.literals import flat
from planner.runtimes.imports.passed_over import among, on, passed_over, tell
from planner.runtimes.imports.sheet import Imported, Sheet
from planner.runtimes.libraries.reading import trainer
from planner.runtimes.libraries.reading.adapters import say_adapter
from planner.runtimes.libraries.reading.trainer_layout import OF_OUR_FILES, TrainerLaunch

MODEL: Final = "model._component_"
MODELS: Final = "torchtune.models."
COMPONENT: Final = "optimizer._component_"

ZOO: Final = {
    "llama3_2_vision_11b": "Llama-3.2-11B-Vision", "llama3_2_vision_90b": "Llama-3.2-90B-Vision",
    "llama4_scout_17b_16e": "llama4-scout", "llama4_maverick_17b_128e": "llama4-maverick",
    "mistral_7b": "mistral-7b-v0.1", "phi3_mini": "phi3-mini-4k", "phi4_14b": "phi4",
    "code_llama2_7b": "codellama-7b", "code_llama2_13b": "codellama-13b", "code_llama2_70b": "codellama-70b",
    "qwen2_7b": "qwen/qwen2-7b", "qwen2_1_5b": "qwen/qwen2-1.5b", "qwen2_0_5b": "qwen/qwen2-0.5b",
}  # fmt: skip
"""Models whose name is not the zoo's with other signs; of others ``llama3_1_8b`` is ``llama3.1-8b``."""

OPTIMIZERS: Final = {
    "torch.optim.AdamW": "adamw_torch", "torch.optim.Adam": "adamw_torch", "torch.optim.SGD": "sgd",
    "bitsandbytes.optim.AdamW8bit": "adamw_8bit", "bitsandbytes.optim.PagedAdamW8bit": "paged_adamw_8bit",
    "bitsandbytes.optim.AdamW": "adamw", "bitsandbytes.optim.PagedAdamW": "paged_adamw",
    "torchao.optim.AdamW8bit": "adamw_torch_8bit",
    "torchao.prototype.low_bit_optim.AdamW8bit": "adamw_torch_8bit",
}  # fmt: skip
"""Optimizers by the names that transformers has for them; torch's are fused where ``fused`` says so."""

DTYPES: Final = {"bf16": "bf16", "fp32": "fp32", "fp16": "fp16"}
EVERY: Final = ("q_proj", "v_proj", "k_proj", "output_proj")
LAYERS: Final = {"output_proj": "o_proj"}

TRAINED: Final = "weights or adapters that learn the next token"
UNPRICED: Final = {
    "quantizer": "no quantisation-aware training, which is not priced",
    "teacher_model": f"{TRAINED}: distillation is not priced",
    "policy_model": TRAINED,
    "ref_policy_model": TRAINED,
    "reward_and_value_model": TRAINED,
    "ref_checkpointer": TRAINED,
    "num_generations": TRAINED,
    "enable_activation_offloading": "false: activations in host memory are not priced; or --offload none",
    "optimizer_in_bwd": "false: gradients that are dropped as they are used are not priced",
    "model.use_dora": "plain adapters: what is trained beside them is not priced",
}

WITHOUT_EFFECT: Final = re.compile(
    r"(?:tokenizer|checkpointer|dataset|dataset_val|lr_scheduler|metric_logger|profiler|collate_fn|loss"
    r"|tensor_parallel_plan|kd_loss|custom_sharded_layers)(?:\..*)?"
    r"|optimizer\.(?!_component_).*|model\.(?:lora_alpha|decoder_trainable|image_size)"
    r"|output_dir|seed|shuffle|epochs|max_steps_per_epoch|clip_grad_norm|log_.*|resume_from_checkpoint|device"
    r"|save_.*|run_val_.*|batch_size_val|cudnn_.*|enable_async_checkpointing|num_workers|resize_token_embeddings"
    r"|keep_last_n_checkpoints|load_weights_only|low_cpu_ram|enable_kv_cache"
    r"|nnodes|nproc_per_node|rdzv_.*|\w+_(?:distributed|single_device)"
)
"""Keys that decide neither layout nor what is kept in memory."""


TOLD: Final = (
    passed_over(r"model\.decoder_trainable", among("frozen"), "priced as if it learned"),
    passed_over(r"custom_sharded_layers", on, "embedding and head are priced in the unit around them"),
)
"""What is not priced; nothing in it decides the layout."""


def is_one(tree: Mapping[str, Any]) -> bool:
    """Return whether a file names its model as torchtune's component, and trains it."""
    model = tree.get("model")
    named = str(model.get("_component_", "")) if isinstance(model, Mapping) else ""
    return named.startswith("torchtune.") and "optimizer" in tree


def from_tree(tree: Mapping[str, Any], path: Path, launch: TrainerLaunch) -> Imported:
    """Return what the file says, with the defaults of torchtune's recipes."""
    sheet = Sheet(str(path), flat(interpolated(tree)))
    alone = "single_device" in f"{path.stem} {' '.join(launch.flags)}"
    sheet.say("gpus", 1 if alone else launch.gpus)
    sheet.changes.append("allocator=growing")  # [2]_
    sheet.say("micro_batch", sheet.whole("batch_size"), "batch_size")
    sheet.say("accumulation", sheet.whole("gradient_accumulation_steps") or 1, "gradient_accumulation_steps")
    trainer.length(sheet, "tokenizer.max_seq_len", None, sheet.has("dataset.packed"))
    say_optimizer(sheet, sheet.values, COMPONENT)
    trainer.recompute(sheet, "enable_activation_checkpointing", False)
    _method(sheet)
    _numbers(sheet)
    _layout(sheet, alone)
    _told(sheet)
    trainer.refuse(sheet, UNPRICED, {"enable_activation_offloading": "offload"})
    model = _model(sheet, path)
    sheet.ignore(WITHOUT_EFFECT)
    return replace(sheet.imported("fsdp", model_name=model), lifted=OF_OUR_FILES)


def say_optimizer(sheet: Sheet, values: Mapping[str, Any], place: str) -> None:
    """Say the optimizer of a class that ``values`` name; one that is not priced is a fault at ``place``."""
    name = str(values.get(COMPONENT) or "torch.optim.AdamW")
    word = OPTIMIZERS.get(name, name)
    if word == "adamw_torch" and str(values.get("optimizer.fused")).lower() == "true":
        word = "adamw_torch_fused"
    sheet.seen.add(COMPONENT)
    inner = Sheet(sheet.where, {place: word})
    inner.problems, inner.instead, inner.notes = sheet.problems, sheet.instead, sheet.notes
    inner.options, inner.places, inner.changes = sheet.options, sheet.places, sheet.changes
    trainer.optimizer(inner, place)


def _method(sheet: Sheet) -> None:
    """Say adapters, which the builder's name tells, and the layers that have them."""
    builder = str(sheet.values.get(MODEL)).rpartition(".")[2]
    four = builder.startswith("qlora_") or sheet.has("model.quantize_base")
    if not builder.startswith(("lora_", "qlora_")):
        return
    said = sheet.take("model.lora_attn_modules")
    words = [LAYERS.get(str(word), str(word)) for word in (said if isinstance(said, list) else EVERY[:2])]
    if sheet.has("model.apply_lora_to_mlp"):
        words += ["gate_proj", "up_proj", "down_proj"]
    if sheet.has("model.apply_lora_to_output"):
        sheet.notes.append("adapters of the head are left out of the price")
    keys = (("model.lora_rank", 8), ("model.lora_targets", words[::-1]), ("model.lora_dropout", 0.0))
    say_adapter(sheet, 4 if four else 16, *keys)


def _numbers(sheet: Sheet) -> None:
    """Say the numbers: of whole weights in bfloat16 there is no copy in float32 [1]_."""
    trainer.numbers(sheet, "dtype", "fp32", DTYPES, "bf16", "dtype bf16")
    if sheet.has("enable_fp8_training"):
        sheet.say("precision", "fp8", "enable_fp8_training")
    sheet.seen.add("fp8_recipe_name")


def _layout(sheet: Sheet, alone: bool) -> None:
    """Say the mesh: what tensor and context parallelism leave is sharded."""
    again = str(sheet.take("fsdp_reshard_after_forward")).lower() != "false"
    sheet.say("zero", 0 if alone else 3 if again else 2, "fsdp_reshard_after_forward")
    for option, key in (("tp", "tensor_parallel_dim"), ("cp", "context_parallel_dim")):
        sheet.say(option, sheet.whole(key), key)
    if (sheet.whole("context_parallel_dim") or 1) > 1:
        ring = sheet.take("context_parallel_rotate_method") == "alltoall"
        sheet.say("cp_method", "ring" if ring else "all-gather", "context_parallel_rotate_method")
    shards = sheet.whole("data_parallel_shard_dim")
    copies = sheet.whole("data_parallel_replicate_dim") or 1
    if shards is not None and shards > 0 and copies > 1:
        sheet.say("zero_shards", shards, "data_parallel_shard_dim")
    elif copies > 1:
        sheet.say("instances", copies, "data_parallel_replicate_dim")
    sheet.seen.update(("data_parallel_replicate_dim", "context_parallel_rotate_method"))
    if sheet.has("fsdp_cpu_offload") or sheet.has("fsdp.cpu_offload"):
        sheet.say("offload", "weights", "fsdp_cpu_offload")
    if alone:
        sheet.notes.append("a recipe of a single device by its name: priced on one accelerator")


def _told(sheet: Sheet) -> None:
    """Tell what runs otherwise than it is priced."""
    seeing = [key for key in ("encoder", "fusion") if sheet.take(f"model.{key}_trainable") is not None]
    if seeing:
        sheet.notes.append("its encoder of images is left out of the price")
    loss = str(sheet.values.get("loss._component_")).rpartition(".")[2]
    if loss not in ("None", "CrossEntropyLoss", "LinearCrossEntropyLoss", "CEWithChunkedOutputLoss"):
        sheet.fault("loss._component_", loss[:60], TRAINED)
    elif loss not in ("None", "CrossEntropyLoss"):
        sheet.notes.append(f"{loss}: priced with whole logits, where it has a part of them at a time")
    tell(sheet, TOLD)
    if sheet.has("compile"):
        sheet.notes.append("compile: priced without, a little slower")
    sheet.seen.add("compile")
    mode = sheet.take("ac_mode")
    if mode is not None and str(mode) != "full":
        sheet.fault("ac_mode", str(mode)[:40], "full, or none: whole layers; or --recompute")
        sheet.instead["ac_mode"] = "recompute"
    sheet.seen.add("ac_option")


def _model(sheet: Sheet, path: Path) -> str | None:
    """Return the model that a builder makes [3]_; sizes that a file gives itself are not read."""
    value = str(sheet.take(MODEL) or "")
    family, _, builder = value.removeprefix(MODELS).rpartition(".")
    name = re.sub(r"^q?lora_|_(?:base|instruct)$", "", builder)
    size = name.removeprefix(f"{family}_").replace("_", ".")
    sheet.instead[MODEL] = "model"
    sized = sheet.values.get("model.num_layers") is not None or name == family
    if sized or not value.startswith(MODELS):
        sheet.seen.update(key for key in sheet.values if key.startswith("model."))
        sheet.fault(MODEL, repr(value[:80]), f"a model of a size: planner estimate MODEL --from {path.name}")
        return None
    dotted = f"{family.replace('_', '.')}-{size}"
    inner = Sheet(sheet.where, {MODEL: ZOO.get(name, dotted)})
    found = model_named(inner, path, MODEL)
    sheet.problems |= inner.problems
    return found
