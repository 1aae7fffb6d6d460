"""The YAML that Megatron-Bridge saves of a run, or changes of a recipe in the same words.

References
----------
.. [1] Megatron-Bridge 067f987d, training/config.py, ``ConfigContainer.to_yaml``: every field of every
   section, a class or function as ``_target_`` with ``_call_: false``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from planner.dataclasses import replace
from planner.errors import Problem
from planner.runtimes.imports.file_format import FileFormat, Source
from planner.runtimes.imports.python_fields import Fields
from planner.runtimes.imports.sheet import Imported
from planner.runtimes.megatron_bridge.reading.bridge import ROOT, read_fields

LENGTHS: Final = ("train_iters", "train_samples", "global_batch_size", "micro_batch_size")
"""Fields of a run's length and batch, one of which its section of training has."""

DEGREES: Final = {
    "tp": "tensor_model_parallel_size", "pp": "pipeline_model_parallel_size", "cp": "context_parallel_size",
    "vpp": "virtual_pipeline_model_parallel_size", "ep": "expert_model_parallel_size",
}  # fmt: skip
"""Degrees that a recipe has values of its own for."""

BACKEND: Final = "model.moe_flex_dispatcher_backend"

LOW: Final = {
    "delayed": "bf16_with_fp8_delayed_scaling_mixed", "tensorwise": "bf16_with_fp8_current_scaling_mixed",
    "blockwise": "bf16_with_fp8_subchannel_scaling_mixed", "mxfp8": "bf16_with_mxfp8_mixed",
}  # fmt: skip
"""Recipes of mixed precision by their scales."""


def fits(source: Source) -> bool:
    """Return whether a YAML has Megatron-Bridge's sections of a model and of its training."""
    model, train = source.tree.get("model"), source.tree.get("train")
    known = isinstance(model, Mapping) and "tensor_model_parallel_size" in model
    return known and isinstance(train, Mapping) and not set(LENGTHS).isdisjoint(train)


def read(source: Source) -> Imported:
    """Return what the YAML says; a degree that changes leave to their recipe is a fault."""
    whole = str(source.tree.get("_target_", "")).endswith(".ConfigContainer")
    said = _fields(source.tree, whole)
    found = read_fields(said, source)
    if whole:
        return replace(found, unknown=tuple(key for key in found.unknown if _tells(said, key)))
    piped, place = found.options.get("pp", "1") != "1", f"{source.where}: model"
    left = [option for option in DEGREES if f"{ROOT}model.{DEGREES[option]}" not in said]
    faults = tuple(
        (option, Problem(f"{place}.{DEGREES[option]}", "nothing", f"it, or --{option} N: {OWN}"))
        for option in left
        if piped or option != "vpp"
    )
    note = "changes of a recipe: what the recipe says beside them is not known"
    return replace(found, faults=(*found.faults, *faults), notes=(*found.notes, note))


OWN: Final = "its recipe decides"


def _tells(said: Fields, key: str) -> bool:
    """Return whether a field that is not understood has a value that may matter."""
    values = [value for place, value in said.items() if place.endswith(f".{key}")]
    return any(value not in OFF and f"{key}={value}" not in _usual() for value in values)


OFF: Final[tuple[Any, ...]] = (None, False, 0, "", [], {})
"""Values of a field that switch nothing on."""


@cache
def _usual() -> frozenset[str]:
    """Return the fields that decide no price, each with the value that it has where nobody sets it."""
    text = Path(__file__).with_name("bridge_usual.txt").read_text(encoding="utf-8")
    return frozenset(line for line in text.splitlines() if not line.startswith("#"))


def _fields(tree: Mapping[str, Any], whole: bool) -> Fields:
    """Return the fields of all sections, as those of a Python file that makes the same container.

    A backend of experts' messages that is null is one that nobody asks.
    """
    said: Fields = {}
    for section, part in tree.items():
        if not isinstance(part, Mapping):
            said[f"{ROOT}{section}"] = part
            continue
        target = str(part.get("_target_") or "").rpartition(".")[2]
        said |= {f"{ROOT}{section}": target} if target else {}
        said |= {f"{ROOT}{section}.{key}": _plain(value) for key, value in part.items() if key != "_target_"}
    if said.get(f"{ROOT}{BACKEND}", "") is None:
        del said[f"{ROOT}{BACKEND}"]
    overlap = tree.get("comm_overlap")
    for key, value in overlap.items() if isinstance(overlap, Mapping) else ():
        if value is not None:  # training/comm_overlap.py, ``CommOverlapConfig.setup``, sets it in both
            said.pop(f"{ROOT}model.{key}", None)
            said.pop(f"{ROOT}ddp.{key}", None)
    if whole and said.get(f"{ROOT}model.num_moe_experts") is None:
        said = {key: value for key, value in said.items() if key.rpartition(".")[2] not in OF_EXPERTS}
    if said.get(f"{ROOT}mixed_precision") == "MixedPrecisionConfig":
        said[f"{ROOT}mixed_precision."] = _recipe(tree["mixed_precision"])
    return said


OF_EXPERTS: Final = ("expert_tensor_parallel_size", "expert_model_parallel_size")
"""Degrees that a model without experts has as well, and that split nothing of it."""


def _plain(value: Any) -> Any:
    """Return a class or function by its name, a set as a list, and any other value as it is."""
    if isinstance(value, Mapping) and value and not any(value.values()):
        return list(value)
    if not isinstance(value, Mapping) or "_target_" not in value:
        return value
    return f".{value['_name_']}" if "_name_" in value else value["_target_"]


def _recipe(part: Mapping[str, Any]) -> str:
    """Return the name of a recipe of mixed precision."""
    if part.get("fp4"):
        return "bf16_with_nvfp4_mixed"
    if part.get("fp8"):
        return LOW.get(str(part.get("fp8_recipe")), str(part.get("fp8_recipe")))
    return "fp16_mixed" if part.get("fp16") else "bf16_mixed"


ENTRY: Final = FileFormat("a Megatron-Bridge .yaml", (".yaml", ".yml"), fits, read)
