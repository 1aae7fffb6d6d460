"""An Axolotl YAML (``axolotl train FILE``) as the options of a plan."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from planner.runtimes.imports import script_arguments
from planner.runtimes.imports.hub import model_named
from planner.runtimes.imports.literals import flat
from planner.runtimes.imports.sheet import Imported, Sheet
from planner.runtimes.libraries.reading import trainer
from planner.runtimes.libraries.reading.adapters import PEFT_DEFAULT, say_adapter
from planner.runtimes.libraries.reading.trainer_layout import TrainerLaunch, laid_out, with_own_dtypes

KEYS: Final = frozenset({
    "adapter", "datasets", "pretraining_dataset", "micro_batch_size", "sequence_len", "lora_r",
    "sample_packing",
})  # fmt: skip
"""Keys of which a file of Axolotl has two, beside ``base_model``."""

METHODS: Final = {
    "varlen_llama3": "all-gather",
    "batch_ring": "ring",
    "batch_zigzag": "ring",
    "batch_stripe": "ring",
}
"""Axolotl's ``ring_attn_func`` (src/axolotl/monkeypatch/ring_attn): the first gathers keys head by head."""

LEARNT: Final = "next-token training: rewards, preferences and other losses are not priced"
UNPRICED: Final = (
    dict.fromkeys(("rl", "reward_model", "process_reward_model", "kd_trainer", "diffusion", "ebft"), LEARNT)
    | dict.fromkeys(
        ("relora", "relora_steps", "lisa_n_layers", "qat", "unfrozen_parameters", "gptq",
         "activation_offloading",
         "layer_offloading", "tiled_mlp", "lora_model_dir", "expert_parallel_size", "ep_size",
         "quantize_moe_experts", "lora_target_parameters"),
        "off in a copy of the file: it changes what is kept in memory, and is not priced",
    )
)  # fmt: skip
FINE: Final = frozenset(
    {"base_model_config", "base_model_ignore_patterns", "gptq_disable_exllama", "plugins", "unsloth_lora_mlp",
     "flash_attn_fuse_mlp", "eval_sample_packing", "pad_to_sequence_len",
     "loss_watchdog_threshold",
     "loss_watchdog_patience", "peft_autocast_adapter_dtype", "saves_per_epoch", "evals_per_epoch",
     "default_system_message",
     "excess_length_strategy", "sample_packing_sequentially", "sample_packing_bin_size",
     "sample_packing_group_size",
     "curriculum_sampling", "deduplicate", "gc_steps", "load_in_16bit", "bfloat16", "sample_packing_eff_est",
     "total_num_tokens", "roundup_power2_divisions", "is_preprocess", "fix_untrained_tokens", "torch_dtype",
     "heads_k_stride", "dataset_exact_deduplication", "peft.loftq_config.loftq_bits",
     "use_ray", "ray_num_workers", "resources_per_worker.GPU", "processor_type", "roles_to_train",
     "resize_token_embeddings_to_32x", "revision_of_model", "eot_tokens", "use_otel_metrics",
     "otel_metrics_host", "otel_metrics_port", "message_field_training", "model_config.output_router_logits"}
)  # fmt: skip
"""Keys beside those of the Trainer that decide neither layout nor memory."""


def is_one(tree: Mapping[str, Any]) -> bool:
    """Return whether a file has Axolotl's keys."""
    return "base_model" in tree and len(KEYS & set(tree)) >= 2


def from_tree(tree: Mapping[str, Any], path: Path, launch: TrainerLaunch) -> Imported:
    """Return what the file says (src/axolotl/utils/schemas), with Axolotl's defaults."""
    sheet = Sheet(str(path), flat(tree))
    trainer.batch(sheet, "micro_batch_size", 1)
    packed = sheet.has("sample_packing") or "pretraining_dataset" in tree
    trainer.length(sheet, "sequence_len", 512, packed)
    said = any(sheet.values.get(key) is not None for key in ("bf16", "fp16", "float16", "bfloat16"))
    trainer.precision(sheet, "fp32" if said else "bf16")
    sheet.seen.add("fp8_enable_fsdp_float8_all_gather")
    trainer.optimizer(sheet, "optimizer")
    trainer.recompute(sheet, "gradient_checkpointing", False)
    _method(sheet)
    if str(sheet.values.get("bf16")).lower() == "full" and "method" not in sheet.options:
        trainer.own_bfloat16(sheet, "bf16")
    _degrees(sheet, packed)
    trainer.refuse(sheet, UNPRICED)
    trainer.told_kernels(sheet)
    model = model_named(sheet, path, "base_model")
    sheet.ignore(script_arguments.WITHOUT_EFFECT, *FINE)
    return with_own_dtypes(laid_out(sheet, tree, path, launch, model))


def _method(sheet: Sheet) -> None:
    kind = str(sheet.take("adapter") or "").lower()
    four, eight = sheet.has("load_in_4bit"), sheet.has("load_in_8bit")
    if kind not in ("", "none", "lora", "qlora"):
        sheet.fault("adapter", repr(kind), "lora, qlora or nothing; or --method for the nearest of them")
        sheet.instead["adapter"] = "method"
        return
    if kind in ("", "none"):
        sheet.seen.update(key for key in sheet.values if key.startswith("lora_"))
        return
    if eight and not four:
        sheet.fault(
            "load_in_8bit", "true", "a base of 4 or 16 bits; or --method lora or qlora for one of them"
        )
        sheet.instead["load_in_8bit"] = "method"
    every = sheet.has("lora_target_linear")
    bits = 4 if four or kind == "qlora" else 16
    if every and sheet.take("lora_target_modules") is not None:
        sheet.seen.add("lora_target_modules")
        say_adapter(sheet, bits, ("lora_r", 8), ("lora_target_linear", ("all",)))
    else:
        targets = "lora_target_linear" if every else "lora_target_modules"
        say_adapter(sheet, bits, ("lora_r", 8), (targets, PEFT_DEFAULT))
    trainer.adapters_alone(sheet)


def _degrees(sheet: Sheet, packed: bool) -> None:
    """Say the mesh: replicas x shards x context x tensor."""
    sizes = {
        "tp": sheet.whole("tensor_parallel_size"),
        "cp": sheet.whole("context_parallel_size", "sequence_parallel_degree"),
    }
    shard, copies = sheet.whole("dp_shard_size"), sheet.whole("dp_replicate_size")
    sheet.say("tp", sizes["tp"], "tensor_parallel_size")
    sheet.say("cp", sizes["cp"], "context_parallel_size", "sequence_parallel_degree")
    tp, cp = sizes["tp"] or 1, sizes["cp"] or 1
    if cp > 1:
        ring = str(sheet.take("ring_attn_func") or ("varlen_llama3" if packed else "batch_ring"))
        sheet.say("cp_method", METHODS.get(ring, ring), "ring_attn_func", "context_parallel_size")
    if shard and shard > 0:
        sheet.say("gpus", (copies or 1) * shard * cp * tp, "dp_shard_size")
        sheet.say("dp", (copies or 1) * shard, "dp_shard_size")
        sheet.say("zero_shards", shard * cp, "dp_shard_size")
    elif copies and copies > 1:
        sheet.say("instances", copies, "dp_replicate_size")
