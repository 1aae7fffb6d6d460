"""What Hugging Face's Trainer is told: batch, length, precision, optimizer, recompute."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from planner.inputs.model import ModelSpec
from planner.runtimes.imports.passed_over import off as switched_off
from planner.runtimes.imports.passed_over import on as switched_on
from planner.runtimes.imports.passed_over import passed_over, tell
from planner.runtimes.imports.sheet import Sheet
from planner.techniques.optimizers import OPTIMIZERS as PRICED

OPTIMIZERS: Final = {
    "adamw": "adamw", "adamw_hf": "adamw", "adamw_torch": "adamw", "adamw_torch_fused": "adamw",
    "adamw_apex_fused": "adamw", "adamw_bnb_8bit": "adam8bit-bnb", "adamw_8bit": "adam8bit-bnb",
    "paged_adamw_8bit": "adam8bit-bnb", "adamw_torch_8bit": "adam8bit", "paged_adamw": "adamw",
    "paged_adamw_32bit": "adamw", "sgd": "sgd", "muon": "muon", "lion": "lion", "lion_pytorch": "lion",
    "lion_32bit": "lion", "paged_lion_32bit": "lion", "lion_8bit": "lion", "paged_lion_8bit": "lion",
}  # fmt: skip
"""transformers' ``OptimizerNames`` (transformers/training_args.py) that the planner prices."""

ADAPTED: Final = (
    "use_dora",
    "peft_use_dora",
    "lora_target_parameters",
)
"""What adapters may train beside themselves."""

SAVED: Final = ("lora_modules_to_save", "additional_target", "modules_to_save")
"""Modules of which a copy is trained whole."""

FOREACH: Final = ("optimizer_traffic=2.86", "optimizer_step=foreach")
"""PyTorch's AdamW, a kernel for each of its operations, and the roots of all second moments at once: where
nothing else takes the optimizer's place (torch/optim/adam.py, ``_multi_tensor_adam``)."""

CAST: Final = "additional_target"
"""LLaMA-Factory's, which casts what learns to fp32 (ff6d4d12, ``model/adapter.py``, ``init_adapter``)."""

SAVED_ENDS: Final = (
    *("embed_tokens", "embed", "embedding", "word_embeddings", "wte"),
    *("lm_head", "embed_out", "output_layer"),
)
"""What embedding and head are called."""


_OFF: Final = ("false", "none", "no", "null", "0", "1", "1.0", "0.0")


def plain(flags: Mapping[str, str]) -> dict[str, Any]:
    """Return flags as Hugging Face's parser names their fields: no dashes before, underscores within.

    Examples
    --------
    >>> plain({"--per-device-train-batch-size": "2", "--bf16": "", "--packing": "True"})
    {'per_device_train_batch_size': '2', 'bf16': 'true', 'packing': 'True'}
    """
    return {
        key.lstrip("-").replace("-", "_"): value if value else "true"
        for key, value in flags.items()
        if key.startswith("-")
    }


def batch(
    sheet: Sheet, key: str, default: int | None, accumulation: str = "gradient_accumulation_steps"
) -> None:
    """Say the sequences of a pass and the passes of a step; a default is told."""
    size = sheet.whole(key)
    if size is None and default is not None:
        size = default
        sheet.notes.append(f"no {key}: {default}, as its library has it")
    sheet.say("micro_batch", size, key)
    steps = sheet.whole(accumulation)
    sheet.say("accumulation", 1 if steps is None else steps, accumulation)


def length(sheet: Sheet, key: str, default: int | None, packed: bool) -> None:
    """Say the tokens of a sequence: what it is cut to, which is its length where sequences are packed."""
    tokens = sheet.whole(key)
    if tokens is None and default is not None:
        tokens = default
        sheet.notes.append(f"no {key}: {default} tokens, as its library has it")
    if tokens is None and not sheet.faulty(key):
        sheet.fault(key, "nothing", "the tokens of a sequence: --seq-len N")
    sheet.say("seq_len", tokens, key)
    if not packed:
        sheet.notes.append(
            "no packing: every sequence priced at its full length, which the data may not reach"
        )


UNSAID: Final = "no bf16, fp16 or fp8"
"""The place of a precision that the launcher may still decide."""


def precision(sheet: Sheet, default: str = "fp32", said: bool = False) -> None:
    """Say in which numbers it computes, from ``bf16``, ``fp16`` and ``fp8``.

    Unless its default is ``said``, as TRL's, the launcher decides where none of them is on.
    """
    eight = sheet.has("fp8")
    brain = sheet.has("bf16", "pure_bf16", "bfloat16")
    half = sheet.has("fp16", "float16")
    if brain and half and str(sheet.values.get("bf16")).lower() != "auto":
        sheet.fault("fp16", "fp16 and bf16 both on", "one of them")
    name = "fp8" if eight else "bf16" if brain else "fp16" if half else default
    sheet.say("precision", name, "bf16", "fp16", "fp8")
    if not said and not eight | brain | half:
        sheet.places["precision"] = UNSAID


def optimizer(sheet: Sheet, *keys: str) -> None:
    """Say the optimizer; one that is not priced is a fault."""
    value = sheet.take(*keys)
    if value is None:
        sheet.say("optimizer", "adamw")
        return
    key = next(key for key in keys if sheet.values.get(key) is not None)
    name = str(value).lower()
    sheet.instead[key] = "optimizer"
    if name not in OPTIMIZERS:
        sheet.fault(key, repr(name), f"one of {', '.join(OPTIMIZERS)}; or --optimizer NAME for a like one")
        return
    if name.startswith("paged_"):
        sheet.notes.append(f"{name}: priced with all states on the device")
    sheet.say("optimizer", OPTIMIZERS[name], key)
    sheet.changes += FOREACH if name in ("adamw_torch", "adamw_hf") else ()
    if OPTIMIZERS[name] == "lion" and name.endswith("8bit"):
        sheet.say("state_dtype", "fp8", key)
        sheet.notes.append(f"{name}: its moment priced at one byte, without the scales of its blocks")


def own_dtypes(options: Mapping[str, str]) -> tuple[str, ...]:
    """Return what rests in the dtype of the weights: the master copy, gradients, states that have none."""
    known = PRICED.get(options.get("optimizer", ""))
    quantised = known is not None and known.quantised
    return ("master", "gradient") if quantised else ("master", "gradient", "state")


def own_bfloat16(sheet: Sheet, *places: str) -> None:
    """Say that weights, gradients and states rest in bfloat16 alone; states of 8 bits stay what they are."""
    for kind in own_dtypes(sheet.options):
        sheet.say(f"{kind}_dtype", "bf16", *places)


def numbers(sheet: Sheet, key: str, usual: str, known: Mapping[str, str], alone: str, told: str) -> None:
    """Say the precision that a word names; ``alone`` keeps whole weights in bfloat16, which a note begins.

    ``usual``: the word where the file has none; ``known``: the precision of each; ``told``: how the note
    calls it.
    """
    text = str(sheet.take(key) or usual)
    sheet.instead[key] = "precision"
    if text not in known:
        sheet.fault(key, repr(text[:40]), f"one of {', '.join(known)}")
    sheet.say("precision", known.get(text, text), key)
    if text == alone and "method" not in sheet.options:
        own_bfloat16(sheet, key)
        sheet.notes.append(f"{told}: weights, gradients and states in bfloat16 alone")


def recompute(sheet: Sheet, key: str, default: bool) -> None:
    """Say whether every layer is recomputed."""
    value = sheet.take(key)
    text = str(value).lower()
    if value is None:
        on = default
    elif text in ("true", "false", "0", "1", "yes", "no", "unsloth"):
        on = sheet.has(key)
        sheet.notes += [f"{key} {UNSLOTH}"] * (text == "unsloth")
    else:
        sheet.instead[key] = "recompute"
        sheet.fault(
            key, repr(text), "true or false: checkpoints in host memory are not priced; or --recompute full"
        )
        return
    sheet.say("recompute", "full" if on else "none", key)


UNSLOTH: Final = "unsloth: checkpoints go to host memory; priced on the device, where they need more"

TOLD: Final = (
    passed_over("use_unsloth_gc", switched_on, UNSLOTH.partition(": ")[2]),
    passed_over("auto_find_batch_size", switched_on, "priced with the batch that is said"),
    passed_over("s2_attention|shift_attn", switched_on, "priced with attention over whole sequences"),
    passed_over("(?:peft_)?layers_to_transform", switched_on, "priced with adapters on all"),
    passed_over("target_regex", switched_on, "priced with adapters on the layers named beside it, or all"),
    passed_over("vit_gradient_checkpointing", switched_off, "an encoder is priced as the model is"),
)
"""Arguments of the libraries that are not priced; none decides the layout."""


def refuse(sheet: Sheet, reasons: Mapping[str, str], options: Mapping[str, str] | None = None) -> None:
    """Make keys faults that are switched on, hold a list, or hold a number above 1.

    ``reasons``: key to what is accepted in its place; ``options``: key to the option that says it in its
    place.
    """
    for key, expected in reasons.items():
        value = sheet.take(key)
        inner = [name for name in sheet.values if name.startswith(f"{key}.")]
        sheet.seen.update(inner)
        if not inner and (value in (None, "", []) or str(value).lower() in _OFF):
            continue
        sheet.fault(key, repr(str("a section" if inner else value)[:60]), expected)
        if options and key in options:
            sheet.instead[key] = options[key]


LIGER: Final = re.compile(r"(?:enable|use)_liger(?:_kernel|_loss)?|liger_.*")
FUSED: Final = re.compile(r"(?:enable|use)_liger(?:_kernel)?|liger_fused_linear_cross_entropy")
"""Liger's kernels, and the switches that take its loss too: those of transformers and LLaMA-Factory take all
(transformers, trainer.py, ``apply_liger_kernel``), Axolotl has one for each."""
NOT_FUSED: Final = "liger_kernel_config.fused_linear_cross_entropy"
FUSED_LOSS: Final = "loss=fused-linear"


def told_kernels(sheet: Sheet) -> None:
    """Tell what is passed over; say Liger's loss where it is on, and tell what its other kernels cost."""
    tell(sheet, TOLD)
    keys = [key for key in sheet.values if LIGER.fullmatch(key)]
    on = [key for key in keys if sheet.has(key)]
    if any(FUSED.fullmatch(key) for key in on) and str(sheet.values.get(NOT_FUSED)).lower() != "false":
        fused_loss(sheet, "Liger's kernels: its loss, head and loss in one")
    elif on:
        sheet.notes.append("Liger's kernels: priced without, a little slower")
    sheet.seen.update(keys)


def fused_loss(sheet: Sheet, told: str) -> None:
    """Say that the logits come in parts, and tell how to price whole ones."""
    sheet.changes += [FUSED_LOSS] * (FUSED_LOSS not in sheet.changes)
    sheet.notes.append(f"{told} ({FUSED_LOSS}); --set loss=transformers prices whole logits")


EAGER: Final = {
    "attn_implementation": ("eager",), "attn_impl": ("eager",), "flash_attn": ("disabled",),
    "eager_attention": ("true",), "model_kwargs.attn_implementation": ("eager",),
}  # fmt: skip
"""Keys with the values that keep all scores, by transformers' eager attention: those of TRL and of scripts of
the Trainer, ms-swift, LLaMA-Factory (extras/constants.py, ``AttentionFunction``) and Axolotl."""
CUT: Final = re.compile(r"cut_cross_entropy")


def kernels(sheet: Sheet) -> None:
    """Say attention whose scores are kept, and a loss without whole logits."""
    if any(str(sheet.values.get(key)).lower() in values for key, values in EAGER.items()):
        sheet.changes.append("attention=unfused")
    if CUT.search(str(sheet.values.get("plugins"))) or sheet.has("cut_cross_entropy"):
        fused_loss(sheet, "cut_cross_entropy: priced as Liger's loss, which keeps a part of the logits")


def frozen_encoder(sheet: Sheet, model: ModelSpec | None, encoder: str, projector: str, full: bool) -> None:
    """Say what of an encoder is left as it is, all of it where neither key is said.

    ``encoder``, ``projector``: keys that freeze them; ``full``: whether the language model's weights learn.
    """
    if model is None or model.encoder is None or str(sheet.values.get(encoder)).lower() == "false":
        return
    sheet.say("freeze_encoder", "true", encoder)
    if full and str(sheet.values.get(projector)).lower() == "false":
        sheet.say("train_projector", "true", projector)


def adapters_alone(sheet: Sheet) -> None:
    """Make faults of what adapters train beside themselves."""
    expected = "plain adapters: what is trained beside them is not priced; leave it out of a copy of the file"
    refuse(sheet, dict.fromkeys(ADAPTED, expected))
    for key in SAVED:
        _saved(sheet, key)


def _saved(sheet: Sheet, key: str) -> None:
    """Say that embedding and head are trained beside adapters; norms, which are small, are passed over."""
    value = sheet.take(key)
    words = value if isinstance(value, list) else re.split(r"[,\s\[\]'\"]+", str(value or ""))
    names = [str(word).rpartition(".")[2] for word in words if str(word).strip()]
    ends = [name for name in names if name in SAVED_ENDS]
    others = [name for name in names if name not in SAVED_ENDS and "norm" not in name]
    sheet.instead[key] = "lora_targets"
    if others:
        sheet.fault(key, ", ".join(others)[:80], f"some of {', '.join(SAVED_ENDS)}")
    elif ends:
        told = " and ".join(ends)
        sheet.notes.append(
            f"{key}: a copy of {told} is trained: priced as embedding and head, beside the frozen ones"
        )
        sheet.changes += ["adapters=llama-factory"] * (key == CAST and not sheet.has("pure_bf16"))
        sheet.options["lora_targets"] = f"{sheet.options.get('lora_targets', 'all')}+ends"
        sheet.places.setdefault("lora_targets", key)
