"""Settings of DeepSpeed's and Accelerate's runs: kernels, compilation, and what gradients are reduced in.

The configuration says some of them, the constants of the training script beside it the others, as
``planner emit`` writes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from planner.runtimes.hub.config import ATTENTION
from planner.runtimes.imports.sheet import Sheet

DEFAULT_KERNEL: Final = "flash-2"
"""What both runtimes run unless told otherwise."""

KERNELS: Final = {theirs: ours for ours, theirs in ATTENTION.items()} | {"flash_attention_2": "flash-2"}
NOT_COMPILED: Final = ("no", "eager")
"""Dynamo's back ends that leave kernels as they are."""

REDUCED: Final = {"float32": "fp32", "bfloat16": "bf16"}
"""PyTorch's types to those of ``reduce_dtype``."""


def script_changes(settings: Mapping[str, Any]) -> list[str]:
    """Return the settings that a training script's constants make.

    Examples
    --------
    >>> script_changes({"ATTENTION": "eager", "COMPILED": True})
    ['attention=unfused', 'compiled=true']
    """
    kernel = KERNELS.get(str(settings.get("ATTENTION")), DEFAULT_KERNEL)
    changes = [f"attention={kernel}"] if kernel != DEFAULT_KERNEL else []
    changes += ["adapter_dropout=true"] if settings.get("LORA_DROPOUT") else []
    return [*changes, "compiled=true"] if settings.get("COMPILED") is True else changes


def say_own_adapters(sheet: Sheet, settings: Mapping[str, Any]) -> None:
    """Say the adapters that a training script's constants make."""
    if settings.get("LORA_RANK"):
        sheet.say("method", "qlora" if settings.get("QUANTISED") else "lora")
        sheet.say("lora_rank", settings["LORA_RANK"])
        targets = settings.get("LORA_TARGETS")
        if isinstance(targets, list | tuple):
            sheet.say("lora_targets", "+".join(targets))


def compiled_by(sheet: Sheet, *keys: str) -> list[str]:
    """Return the setting that a back end of Dynamo makes, where a key names one that compiles."""
    backend = sheet.take(*keys)
    return [] if backend is None or str(backend).lower() in NOT_COMPILED else ["compiled=true"]


def reduced_in(dtype: object, usual: str) -> list[str]:
    """Return the setting of a type that gradients are reduced in, other than the usual one.

    Examples
    --------
    >>> reduced_in("bfloat16", "fp32"), reduced_in("bf16", "bf16"), reduced_in(None, "bf16")
    (['reduce_dtype=bf16'], [], [])
    """
    name = REDUCED.get(str(dtype), str(dtype))
    return [f"reduce_dtype={name}"] if name in ("fp32", "fp16", "bf16") and name != usual else []
