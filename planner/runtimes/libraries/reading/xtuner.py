"""An xtuner config, Python of mmengine, read without being run: what is assigned at its top."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from planner.dataclasses import replace
from planner.runtimes.imports.hub import model_named
from planner.runtimes.imports.literals import statements
from planner.runtimes.imports.sheet import Imported, Sheet
from planner.runtimes.libraries.reading import trainer
from planner.runtimes.libraries.reading.adapters import PEFT_DEFAULT, say_adapter
from planner.runtimes.libraries.reading.trainer_layout import TrainerLaunch, laid_out

MODEL: Final = "pretrained_model_name_or_path"
KINDS: Final = {"AdamW": "adamw", "PagedAdamW32bit": "adamw", "PagedAdamW": "adamw", "SGD": "sgd"}
PRICED: Final = ("SupervisedFinetune",)
UNKNOWN: Final = object()
MOST_DEPTH: Final = 40


def is_one(text: str) -> bool:
    """Return whether a Python file is a config of xtuner."""
    return "xtuner" in text and MODEL in text and "accumulative_counts" in text


def assigned(text: str) -> dict[str, Any]:
    r"""Return what a module assigns at its top: plain data, names of it, and ``dict(...)`` as a mapping.

    Examples
    --------
    >>> assigned("n = 2\nn *= 3\nmodel = dict(type=Net, size=n, on=True)")
    {'n': 6, 'model': {'type': 'Net', 'size': 6, 'on': True}}
    """
    found: dict[str, Any] = {}
    for node in statements(text):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = _value(node.value, found)
        elif (
            isinstance(node, ast.AugAssign)
            and isinstance(node.target, ast.Name)
            and isinstance(node.op, ast.Mult)
        ):
            old, times = found.get(node.target.id), _value(node.value, found)
            if type(old) is int and type(times) is int and abs(old) < 10**9 and abs(times) < 10**9:
                found[node.target.id] = old * times
    return found


def _value(node: ast.expr, known: Mapping[str, Any], depth: int = 0) -> Any:
    """Return a value: of a class its name, of anything that had to be run ``UNKNOWN``."""
    if depth > MOST_DEPTH:
        return UNKNOWN
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return known.get(node.id, node.id)
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.List | ast.Tuple):
        return [_value(item, known, depth + 1) for item in node.elts]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict":
        return {word.arg: _value(word.value, known, depth + 1) for word in node.keywords if word.arg}
    return UNKNOWN


def from_text(text: str, path: Path, launch: TrainerLaunch, deepspeed: str | None) -> Imported:
    """Return what a config says, with the DeepSpeed file or preset of the command that starts it."""
    found = assigned(text)
    model = found.get("model")
    model = model if isinstance(model, Mapping) else {}
    values = {
        key: value for key, value in found.items() if isinstance(value, str | int | float | bool | None)
    }
    sheet = Sheet(str(path), values | ({"deepspeed": deepspeed} if deepspeed else {}))
    kind = str(model.get("type"))
    if kind not in PRICED:
        sheet.fault(
            "model", repr(kind)[:60], "SupervisedFinetune: vision and preference training is not priced"
        )
    trainer.batch(sheet, "batch_size", 1, "accumulative_counts")
    packed = bool(found.get("pack_to_max_length"))
    trainer.length(sheet, "max_length", None, packed)
    _numbers(sheet, found)
    off = found.get("activation_checkpointing") is False or model.get("use_activation_checkpointing") is False
    sheet.say("recompute", "none" if off else "full")
    _method(sheet, model)
    ranks = sheet.degree("sequence_parallel_size")
    if ranks and ranks > 1:
        sheet.say("cp", ranks, "sequence_parallel_size")
        sheet.say("cp_method", "all-to-all", "sequence_parallel_size")
    name = model_named(sheet, path, MODEL, "llm_name_or_path")
    sheet.seen.update(sheet.values)
    if (
        "method" in sheet.options and launch.open
    ):  # its launcher's default; weights trained whole ask for more
        launch = replace(launch, open=False)
        sheet.notes.append("as `xtuner train FILE` starts it; with --deepspeed of stage N: --zero N")
    return laid_out(sheet, {"deepspeed": deepspeed} if deepspeed else {}, path, launch, name)


def _numbers(sheet: Sheet, found: Mapping[str, Any]) -> None:
    """Say the optimizer and the numbers: mixed precision of mmengine, float16 unless its wrapper says."""
    wrapper = found.get("optim_wrapper")
    wrapper = wrapper if isinstance(wrapper, Mapping) else {}
    name = str(sheet.take("optim_type") or "AdamW")
    sheet.instead["optim_type"] = "optimizer"
    if name not in KINDS:
        sheet.fault(
            "optim_type", repr(name), f"one of {', '.join(KINDS)}; or --optimizer NAME for a like one"
        )
    else:
        sheet.say("optimizer", KINDS[name], "optim_type")
    kind = str(wrapper.get("dtype", "float16"))
    sheet.say("precision", {"float16": "fp16", "bfloat16": "bf16"}.get(kind, kind), "optim_wrapper.dtype")


def _method(sheet: Sheet, model: Mapping[str, Any]) -> None:
    """Say the adapters, and the base that they stand on."""
    adapter, llm = model.get("lora"), model.get("llm")
    quantised = llm.get("quantization_config") if isinstance(llm, Mapping) else None
    if not isinstance(adapter, Mapping):
        return
    four = isinstance(quantised, Mapping) and quantised.get("load_in_4bit") is True
    if isinstance(quantised, Mapping) and not four:
        key = "quantization_config"
        sheet.instead[key] = "method"
        sheet.fault(
            key, "no 4-bit weights", "load_in_4bit, which is QLoRA; or --method lora with a base of 16 bits"
        )
    inner = Sheet(
        sheet.where,
        {"r": adapter.get("r", 8), **{key: adapter.get(key) for key in ("target_modules", "lora_dropout")}},
    )
    every = ("all",) if "target_modules" not in adapter else PEFT_DEFAULT
    say_adapter(inner, 4 if four else 16, ("r", 8), ("target_modules", every))
    for name, value in inner.options.items():
        sheet.say(name, value, f"model.lora.{inner.places.get(name, 'type')}")
    sheet.notes += inner.notes
    sheet.changes += inner.changes
    sheet.problems |= inner.problems
