"""A YAML of NeMo 1.0 for a GPT-like model: ``trainer`` and ``model`` with Megatron-core's names.

References
----------
.. [1] NeMo 1.23, examples/nlp/language_modeling/conf/megatron_gpt_config.yaml and megatron_llama_config.yaml.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from planner.dataclasses import replace
from planner.errors import Problem
from planner.runtimes.imports.command_line import Training
from planner.runtimes.imports.file_format import FileFormat, Source
from planner.runtimes.imports.interpolation import interpolated
from planner.runtimes.imports.model import with_record
from planner.runtimes.imports.passed_over import above, among, off, on, passed_over, tell
from planner.runtimes.imports.sheet import Imported, Sheet
from planner.runtimes.imports.tokenizers import vocabulary
from planner.runtimes.megatron_bridge.reading.bridge import as_fields
from planner.runtimes.megatron_bridge.reading.core_fields import core_flags, set_traits, unknown_fields
from planner.runtimes.megatron_bridge.reading.nemo_tuning import say_tuning
from planner.runtimes.megatron_lm.reading.megatron import from_script

RENAMED: Final = {
    "encoder_seq_length": "seq_length",
    "activations_checkpoint_granularity": "recompute_granularity",
    "activations_checkpoint_method": "recompute_method",
    "activations_checkpoint_num_layers": "recompute_num_layers",
}
"""Keys of NeMo 1.0 that are fields of Megatron-core under another name."""

METHOD: Final = "activations_checkpoint_method"
UNIFORM: Final = ("recompute_method", "recompute_num_layers")
"""What NeMo's own layers take beside ``selective``: ``uniform`` is all of them
(nemo/collections/nlp/modules/common/megatron/transformer.py); Megatron-core refuses it.
"""

GATED: Final = ("swiglu", "fast-swiglu", "geglu", "fast-geglu", "reglu", "fast-reglu")
SHARDED: Final = ("distributed_fused_adam", "mcore_distributed_optim")
PRECISIONS: Final = {
    **dict.fromkeys(("bf16", "bf16-mixed", "bf16-true"), "bf16"),
    **dict.fromkeys(("16", "16-mixed", "16-true"), "fp16"),
}


DECODER: Final = "a decoder alone that learns the next token"
UNLIKE: Final = {
    **dict.fromkeys(("encoder", "decoder", "enc_num_layers"), f"{DECODER}: not beside an encoder"),
    **dict.fromkeys(
        ("mm_cfg", "vision", "unet_config", "first_stage_config", "patch_dim", "img_h", "local_loss"),
        f"{DECODER}: images are not read from NeMo 1.0",
    ),
    **dict.fromkeys(("bert_binary_head", "mcore_bert", "num_soft_negatives"), f"{DECODER}: not BERT"),
    **dict.fromkeys(("reward_model_type", "retro", "cls_hidden_dim"), DECODER),
}
"""Sections and keys of models that are no stack of decoder layers alone, and what is priced."""

IDLE: Final = re.compile(
    r"gradient_as_bucket_view|seed|grad_(?:allreduce|div)_.*|native_amp_.*|fp16_lm_cross_entropy|(?:pre|post)_process"
    r"|use_cpu_initialization|.*batch_comm|mcore_(?:gpt|t5)|apex_.*|transformer_engine|.*_layer_scaling|onnx_safe"
    r"|.*_fusion|persist_layer_norm|hysteresis|fp8|activation|bias|use_scaled_init_method|do_layer_norm_.*|openai_gelu"
    r"|overlap_p2p_comm|batch_p2p_comm|headscale|normalize_attention_scores|attention_type|use_flash_attention|use_emha"
    r"|ub_tp_comm_overlap.*|precision|save_.*|answer_only_loss|megatron_.*|async_grad_.*|fsdp.*|reduce_amax|gc_interval"
    r"|.*_split_rank|sharp|model_parallel_size|share_.*|layernorm_.*|qkv_bias|override_vocab_size|deterministic_mode"
    r"|virtual_prompt_style|existing_tasks|new_tasks|task_templates|transformer_block_type|.*dist_ckpt.*|resume_.*|name"
    r"|restore_from_.*|skip_train|version|dump_.*|wgrad_.*|embedding_init_.*|.*_dropout|optim|data|peft"
    r"|num_micro_batches_with_partial_.*|activations_checkpoint_.*|fp32_residual_connection|target|nsys_.*|tokenizer.*"
)
"""Keys of NeMo 1.0 that decide neither layout nor shape, or are read together with others."""

TOLD: Final = (
    passed_over("megatron_amp_O2", off, "weights and gradients are priced in 16 bits with a master copy"),
    passed_over("fp32_residual_connection", on, "priced with residuals in 16 bits"),
    passed_over("num_micro_batches_with_partial_activation_checkpoints", above(0), "priced without"),
    passed_over("activations_checkpoint_layers_per_pipeline", above(0), "priced without"),
    passed_over("transformer_block_type", among("post_ln", "normformer"), "priced with norms before blocks"),
)
"""What is not priced; nothing in it decides the layout."""


def fits(source: Source) -> bool:
    """Return whether a YAML has a trainer, and a model with degrees."""
    model, trainer = source.tree.get("model"), source.tree.get("trainer")
    return (
        isinstance(model, Mapping) and isinstance(trainer, Mapping) and "tensor_model_parallel_size" in model
    )


def read(source: Source) -> Imported:
    """Return what the YAML says, its references to its own keys followed."""
    tree = interpolated(source.tree)
    model, trainer = tree["model"], tree["trainer"]
    nodes, ranks = (_number(trainer.get(name)) for name in ("num_nodes", "devices"))
    fields = _fields(model, trainer)
    training = Training("megatron-lm", core_flags(fields), nodes, ranks, None, ())
    found, record = from_script(training, source.where)
    found = as_fields(found, ())
    low = model.get("fp8") is True and model.get("fp8_params") is True
    note = "a configuration of NeMo 1.0: priced as Megatron-Bridge"
    lifted = (*found.lifted, "positions-equal-sequence", "model-expressible")
    sheet = Sheet(source.where, model)
    say_tuning(sheet, model)
    tell(sheet, TOLD)
    sheet.changes += [change for change in set_traits(fields) if change not in found.changes]
    unfused = [model.get(key) for key in ("transformer_engine", "use_flash_attention", "mcore_gpt")]
    sheet.changes += ["attention=unfused"] * (unfused[0] is False and True not in unfused)
    own = sheet.imported("")
    mine = tuple((option, fault) for option, fault in found.faults if option not in own.options)
    found = replace(
        found,
        options={**found.options, **own.options},
        places={**found.places, **own.places},
        notes=(note, *found.notes, *own.notes),
        changes=(*found.changes, *own.changes, *(("low_bit_weights=alone",) if low else ())),
        lifted=lifted,
        unknown=tuple(f"model.{key}" for key in unknown_fields(fields) if not IDLE.fullmatch(key)),
        faults=(
            *(*mine, *own.faults),
            *_unlike(model, source.where),
            *_unpriced(model, trainer, source.where),
        ),
    )
    if record is not None and source.vocab is not None:
        record["vocab"] = source.vocab
    return with_record(found, record, source.path, "--vocab-size")


def _unlike(model: Mapping[str, Any], where: str) -> Iterator[tuple[str, Problem]]:
    """Yield a fault for a model that is no stack of decoder layers."""
    for key, expected in UNLIKE.items():
        if model.get(key) is not None:
            yield "", Problem(f"{where}: model.{key}", "a model of another kind", expected)
            return
    style = str(model.get("virtual_prompt_style", "no-prompts"))
    if style != "no-prompts":
        yield "method", Problem(f"{where}: model.virtual_prompt_style", style, "no-prompts; or --method NAME")
    if model.get("fsdp") is True:
        expected = "false: PyTorch's FSDP is not read from NeMo 1.0; or --zero N, priced as Megatron's"
        yield "zero", Problem(f"{where}: model.fsdp", "true", expected)


def _precision(model: Mapping[str, Any], trainer: Mapping[str, Any]) -> str:
    return str(trainer.get("precision", model.get("precision", "bf16")))


def _unpriced(
    model: Mapping[str, Any], trainer: Mapping[str, Any], where: str
) -> Iterator[tuple[str, Problem]]:
    """Yield a fault for numbers that have no price, such as float32."""
    name = _precision(model, trainer)
    if name not in PRECISIONS:
        expected = f"one of {', '.join(PRECISIONS)}: others are not priced; or --precision NAME"
        yield "precision", Problem(f"{where}: trainer.precision", name[:40], expected)


def _number(value: Any) -> int | None:
    return value if type(value) is int and value > 0 else None


def _fields(model: Mapping[str, Any], trainer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the model's keys as fields of Megatron-core."""
    fields = {RENAMED.get(key, key): value for key, value in model.items() if not isinstance(value, Mapping)}
    if fields.get("recompute_granularity") == "selective" and model.get("mcore_gpt") is not True:
        fields = {
            key: value for key, value in fields.items() if key not in UNIFORM or model.get(METHOD) == "block"
        }
    base = fields.get("rotary_base")
    fields |= {"rotary_base": int(base)} if isinstance(base, float) and base.is_integer() else {}
    optimizer, tokenizer = model.get("optim"), model.get("tokenizer")
    words = tokenizer if isinstance(tokenizer, Mapping) else {}
    vocab = vocabulary(str(words.get("type")), str(words["type"]) if words.get("type") else None)
    said = {"vocab_size": model.get("override_vocab_size") or vocab}
    name = str(optimizer.get("name")) if isinstance(optimizer, Mapping) else "adam"
    precision = _precision(model, trainer)
    activation = str(model.get("activation", "gelu"))
    bias = model.get("bias", True) is not False
    heads = model.get("num_attention_heads")
    return {**({} if said["vocab_size"] is None else said), **fields} | {
        "optimizer": "adam",
        "tp_comm_overlap": model.get("ub_tp_comm_overlap", False),
        "use_distributed_optimizer": name in SHARDED,
        "overlap_grad_reduce": not isinstance(optimizer, Mapping)
        or bool(optimizer.get("overlap_grad_sync", True)),
        "mixed_precision": _mixed(model, PRECISIONS.get(precision, precision)),
        "gated_linear_unit": activation in GATED,
        "add_bias_linear": bias,
        "normalization": "RMSNorm" if "rms" in str(model.get("normalization", "")) else "LayerNorm",
        "num_query_groups": None if model.get("num_query_groups") == heads else model.get("num_query_groups"),
        "share_embeddings_and_output_weights": model.get("share_embeddings_and_output_weights", True),
        "max_position_embeddings": model.get("max_position_embeddings", fields.get("seq_length")),
    }


def _mixed(model: Mapping[str, Any], name: str) -> str:
    """Return the recipe: FP8 is Transformer Engine's with delayed scales.

    Source: NeMo 1.23, ``nemo/collections/nlp/modules/common/megatron/transformer.py``, ``DelayedScaling``.
    """
    return "bf16_with_fp8_delayed_scaling_mixed" if model.get("fp8") is True else f"{name}_mixed"


ENTRY: Final = FileFormat("a NeMo 1.0 .yaml", (".yaml", ".yml"), fits, read)
