"""An llm-foundry YAML (``composer train.py FILE``) as the options of a plan: Composer's FSDP.

References
----------
.. [1] llm-foundry 0.21, llmfoundry/command_utils/train.py (keys), models/mpt/configuration_mpt.py and
   models/utils/config_defaults.py (an MPT's shape), models/layers/ffn.py (widths).
.. [2] Composer 0.31, composer/utils/parallelism.py and distributed/mosaic_parallelism.py: ``PURE`` reduces
   gradients in 16 bits, ``DEFAULT`` in 32, ``FULL`` computes in 32.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from planner.dataclasses import replace
from planner.runtimes.fsdp.reading.accelerate import STRATEGIES
from planner.runtimes.imports.hub import model_named
from planner.runtimes.imports.interpolation import interpolated
from planner.runtimes.imports.literals import flat
from planner.runtimes.imports.model import with_record
from planner.runtimes.imports.sheet import Imported, Sheet
from planner.runtimes.imports.unread import is_olmo
from planner.runtimes.libraries.reading import trainer
from planner.runtimes.libraries.reading.adapters import PEFT_DEFAULT, say_adapter
from planner.runtimes.libraries.reading.trainer_layout import OF_OUR_FILES, TrainerLaunch
from planner.units import is_whole

BATCH: Final = "global_train_batch_size"
PASS: Final = "device_train_microbatch_size"
PRECISIONS: Final = {"amp_bf16": "bf16", "amp_fp16": "fp16", "amp_fp8": "fp8", "fp32": "fp32"}
F: Final = "fsdp_config."
MPT: Final = (*("engine=fsdp1", "fused_norm=true", "fused_activation=true", "loss=flash-attn"),)
"""How its own models run: FSDP 1, norms in low precision, FlashAttention's loss
(``hardware_profiles/eras/llm-foundry.yaml``).
"""

WITHOUT_EFFECT: Final = re.compile(
    r"(?:variables|tokenizer|train_loader|train_dataset|eval_.*|icl_.*|scheduler|algorithms|callbacks|loggers|save_.*"
    r"|load_.*|log_.*|console_.*|progress_bar|python_log_level|dataset|dist_timeout|max_duration|autoresume"
    r"|profiler|data_.*|tokenizer_name|global_seed|max_split_size_mb|expandable_segments|run_name|seed|metadata"
    r"|only_.*|model_name|code_paths|reset_time|device_eval_batch_size|eval_first)(?:\..*)?"
    r"|optimizer\.(?!name).*"
    r"|fsdp_config\.(?:activation_checkpointing_reentrant|limit_all_gathers|state_dict_type|sync_module_states|verbose"
    r"|use_orig_params|forward_prefetch|backward_prefetch|load_.*|process_group|flatten_parameters|auto_wrap"
    r"|data_parallel_.*)"
    r"|model\.(?:init_device|pretrained|use_auth_token|use_flash_attention_2|allow_embedding_resizing|loss_fn|max_seq_len|init_config\..*"
    r"|trust_remote_code|tie_word_embeddings|peft_config\.(?:peft_type|task_type|lora_.*|use_rslora|bias|inference_mode)"
    r"|config_overrides\.(?:max_seq_len|max_position_embeddings|n_positions|attn_config\..*|router_aux_.*)"
    r"|attn_config\..*|emb_pdrop|resid_pdrop|norm_.*|embedding_fraction|logit_scale|use_train_metrics|z_loss"
    r"|additional_train_metrics|use_cache|vocab_size|fc_type)"
)
"""Keys that decide neither layout nor what is kept in memory, and an MPT's, which are read below."""

UNPRICED: Final = {
    "tp_config": "none: Composer's tensor parallelism is not priced; or --tp N",
    f"{F}activation_cpu_offload": "false: activations in host memory are not priced; or --offload none",
    "model.peft_config.use_dora": "plain adapters: what is trained beside them is not priced",
    "model.peft_config.modules_to_save": "plain adapters: what is trained beside them is not priced",
    "model.block_overrides": "layers that are alike; or MODEL",
}
INSTEAD: Final = {
    "tp_config": "tp",
    f"{F}activation_cpu_offload": "offload",
    "model.block_overrides": "model",
}


def is_one(tree: Mapping[str, Any]) -> bool:
    """Return whether a file, or what a platform's file has under ``parameters``, has llm-foundry's keys."""
    inner = _parameters(tree)
    return (
        isinstance(inner.get("model"), Mapping)
        and BATCH in inner
        and ("max_seq_len" in inner or PASS in inner)
        and not is_olmo(inner)
    )


def _parameters(tree: Mapping[str, Any]) -> Mapping[str, Any]:
    inner = tree.get("parameters")
    return inner if isinstance(inner, Mapping) else tree


def from_tree(tree: Mapping[str, Any], path: Path, launch: TrainerLaunch) -> Imported:
    """Return what the file says, with the defaults of llm-foundry."""
    inner = _parameters(tree)
    rest = {key: value for key, value in tree.items() if key not in inner}
    sheet = Sheet(str(path), flat(interpolated(inner)))
    compute = rest.get("compute")
    gpus = compute.get("gpus") if isinstance(compute, Mapping) else None
    sheet.say("gpus", launch.gpus if launch.gpus is not None else gpus if type(gpus) is int else None)
    _batch(sheet)
    _numbers(sheet)
    _sharding(sheet)
    trainer.refuse(sheet, UNPRICED, INSTEAD)
    record, name = _model(sheet, path)
    _method(sheet)
    sheet.ignore(WITHOUT_EFFECT)
    if record is not None:
        sheet.changes += MPT
    found = replace(sheet.imported("fsdp", model_name=name), lifted=OF_OUR_FILES)
    return with_record(found, record, path, "MODEL")


def _batch(sheet: Sheet) -> None:
    """Say batch, sequences of a pass and length; ``auto`` is what fits, found by trial as it starts."""
    sheet.say("global_batch", sheet.whole(BATCH), BATCH)
    micro = sheet.take(PASS)
    sheet.instead[PASS] = "micro_batch"
    if micro == "auto":
        sheet.fault(PASS, "auto: the most that fits, found as it starts", "a number: --micro-batch N")
    else:
        sheet.say("micro_batch", sheet.whole(PASS), PASS)
    trainer.length(sheet, "max_seq_len", None, packed=True)
    loader = str(sheet.values.get("train_loader.name") or sheet.values.get("train_loader.dataset.hf_name"))
    if loader == "finetuning" and sheet.values.get("train_loader.dataset.packing_ratio") is None:
        sheet.notes.append(
            "no packing: every sequence priced at its full length, which the data may not reach"
        )


OPTIMIZERS: Final = {
    "decoupled_adamw": "adamw", "adamw": "adamw", "adam": "adamw", "decoupled_lionw": "lion",
    "decoupled_lionw_8b": "lion",
}  # fmt: skip
"""Names of ``optimizer.name`` (llm-foundry, llmfoundry/optim); the last has its moment in 8 bits."""


def _numbers(sheet: Sheet) -> None:
    text = str(sheet.take("precision") or "amp_bf16")
    mixed = str(sheet.take(f"{F}mixed_precision") or "DEFAULT").upper()
    sheet.instead |= {"precision": "precision", f"{F}mixed_precision": "precision"}
    if text not in PRECISIONS or mixed not in ("PURE", "DEFAULT", "FULL"):
        key, found = ("precision", text) if text not in PRECISIONS else (f"{F}mixed_precision", mixed)
        sheet.fault(key, found, f"one of {', '.join(PRECISIONS)}; PURE, DEFAULT or FULL")
    sheet.say("precision", PRECISIONS.get(text, "bf16"), "precision")
    if mixed == "PURE" and text == "amp_bf16":
        sheet.changes.append("reduce_dtype=bf16")
    name = str(sheet.take("optimizer.name") or "decoupled_adamw")
    sheet.instead["optimizer.name"] = "optimizer"
    if name not in OPTIMIZERS:
        known = ", ".join(OPTIMIZERS)
        sheet.fault("optimizer.name", name, f"one of {known}; or --optimizer NAME for a like one")
    sheet.say("optimizer", OPTIMIZERS.get(name), "optimizer.name")
    if name.endswith("_8b"):
        sheet.say("state_dtype", "fp8", "optimizer.name")


def _sharding(sheet: Sheet) -> None:
    """Say the stage of FSDP; without its section each process has the whole model."""
    if not any(key.startswith(F) for key in sheet.values):
        sheet.say("zero", 0)
        sheet.notes.append("no fsdp_config: each process has the whole model (DDP)")
        return
    key = f"{F}sharding_strategy"
    name = str(sheet.take(key) or "FULL_SHARD").upper()
    if name not in STRATEGIES:
        sheet.fault(key, name, f"one of {', '.join(word for word in STRATEGIES if not is_whole(word))}")
    sheet.say("zero", STRATEGIES.get(name, name), key)
    if name.startswith("HYBRID"):
        sheet.notes.append(f"{name}: shards over a node; say how many with --zero-shards")
    if name == "NO_SHARD":
        sheet.seen.update(key for key in sheet.values if key.startswith(F))
    again = sheet.has(f"{F}activation_checkpointing")
    sheet.say("recompute", "full" if again else "none", f"{F}activation_checkpointing")
    if sheet.has(f"{F}cpu_offload"):
        sheet.say("offload", "weights", f"{F}cpu_offload")
    every = sheet.values.get("activation_checkpointing_target")
    if every is not None:
        sheet.fault("activation_checkpointing_target", str(every)[:60], "whole layers")


def _model(sheet: Sheet, path: Path) -> tuple[dict[str, Any] | None, str | None]:
    """Return the record of an MPT, or the name of a model of Hugging Face's."""
    kind = str(sheet.take("model.name") or "")
    if kind == "mpt_causal_lm":
        return _mpt(sheet), None
    if kind != "hf_causal_lm":
        sheet.fault("model.name", kind[:60], "mpt_causal_lm or hf_causal_lm; or MODEL for what it is like")
        sheet.instead["model.name"] = "model"
        return None, None
    changed = [key for key in sheet.values if key.startswith("model.config_overrides.")]
    changed = [key for key in changed if not WITHOUT_EFFECT.fullmatch(key)]
    if changed:
        expected = "the shape of the model that is named; or MODEL"
        sheet.fault(changed[0], str(sheet.values[changed[0]])[:40], expected)
        sheet.instead[changed[0]] = "model"
    sheet.seen.update(changed)
    return None, model_named(sheet, path, "model.pretrained_model_name_or_path")


def _mpt(sheet: Sheet) -> dict[str, Any] | None:
    """Return an MPT's record: layer norms, biases unless ``no_bias``, positions learned unless told."""
    sizes = _sizes(sheet)
    ffn = str(sheet.take("model.ffn_config.ffn_type") or "mptmlp")
    if ffn not in ("mptmlp", "mptglu"):
        sheet.fault("model.ffn_config.ffn_type", ffn, "mptmlp or mptglu: others are not read; or MODEL")
        sheet.instead["model.ffn_config.ffn_type"] = "model"
    sheet.seen.update(key for key in sheet.values if key.startswith("model.ffn_config."))
    if any(problem.startswith("model.") for problem in sheet.problems):
        return None
    hidden, heads, layers, kv_heads, inner = sizes
    attention = "model.attn_config."
    bias = not sheet.has("model.no_bias")
    alibi, rotary = sheet.has(f"{attention}alibi"), sheet.has(f"{attention}rope")
    learned = not (alibi or rotary) and str(sheet.take("model.learned_pos_emb")).lower() != "false"
    rms = "rms" in str(sheet.values.get("model.norm_type"))
    mixer = {"kind": "attention", "heads": heads, "kv_heads": kv_heads, "head_dim": hidden // heads,
             "qkv_bias": bias, "output_bias": bias, "rotary": rotary}  # fmt: skip
    block = {"mixer": mixer, "ffn": {"kind": "dense", "inner": inner, "gated": ffn == "mptglu", "bias": bias}}
    return {
        "source": "an llm-foundry YAML",
        "hidden": hidden,
        "vocab": sheet.whole("model.vocab_size") or 50_368,
        "tied_embeddings": str(sheet.values.get("model.tie_word_embeddings")).lower() != "false",
        "max_positions": sheet.whole("model.max_seq_len", "max_seq_len") or 2048,
        "learned_positions": learned,
        "norm": "rmsnorm" if rms else "layernorm",
        "norm_bias": bias and not rms,
        "variants": ["alibi"] if alibi else [],
        "blocks": {"dense": block},
        "layers": f"{layers} dense",
    }


def _sizes(sheet: Sheet) -> tuple[int, int, int, int, int]:
    """Return width, heads, layers, heads of keys, and the feed-forward's width; a wrong one is a fault."""
    sizes = {name: sheet.whole(f"model.{name}") for name in ("d_model", "n_heads", "n_layers")}
    for name, size in sizes.items():
        sheet.instead[f"model.{name}"] = "model"
        if size is None or not 0 < size < 1 << 20:
            sheet.fault(f"model.{name}", str(size), "a count, 1 or more")
    hidden, heads, layers = (sizes[name] or 0 for name in ("d_model", "n_heads", "n_layers"))
    ratio, own = sheet.take("model.expansion_ratio"), sheet.whole("model.ffn_config.ffn_hidden_size")
    inner = own or (int(hidden * ratio) if type(ratio) in (int, float) and ratio < 1000 else 4 * hidden)
    place = "model.attn_config."
    groups = {"multiquery_attention": 1, "grouped_query_attention": sheet.whole(f"{place}kv_n_heads") or 0}
    kv_heads = groups.get(str(sheet.values.get(f"{place}attn_type")), heads)
    if min(heads, kv_heads) < 1 or hidden % heads or heads % kv_heads:
        found = f"{heads}, {kv_heads} of keys"
        sheet.fault("model.n_heads", found, "heads that divide d_model, and kv_n_heads that divide them")
    if inner < 1 or layers > 10_000:
        sheet.fault("model.n_layers", f"{layers} of width {inner}", "10,000 layers at most, of a width")
    return hidden, heads, layers, kv_heads, inner


def _method(sheet: Sheet) -> None:
    """Say adapters."""
    place = "model.peft_config."
    if not any(key.startswith(place) for key in sheet.values):
        return
    kind = str(sheet.values.get(f"{place}peft_type") or "LORA").upper()
    if kind != "LORA":
        sheet.fault(f"{place}peft_type", kind, "LORA; or --method for the nearest")
        sheet.instead[f"{place}peft_type"] = "method"
    four = sheet.has("model.load_in_4bit", "model.quantization_config.load_in_4bit")
    targets, dropout = (f"{place}target_modules", PEFT_DEFAULT), (f"{place}lora_dropout", 0.0)
    say_adapter(sheet, 4 if four else 16, (f"{place}r", 8), targets, dropout)
