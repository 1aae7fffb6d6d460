"""Recipes of Megatron-Bridge and NeMo 2.0 by name, as fields of sections: what the tables beside hold."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from planner.dataclasses import dataclass
from planner.runtimes.megatron_bridge.sections import GATHERS, RECIPES
from planner.runtimes.megatron_lm.table import DEGREE_FIELDS, VIRTUAL

Value = bool | int | float | str

PLACES: Final[Mapping[str, str]] = {
    **{name: f"model.{field}" for name, field in DEGREE_FIELDS.items()},
    "vp": f"model.{VIRTUAL}",
    "sp": "model.sequence_parallel",
    "seq": "model.seq_length",
    "global": "train.global_batch_size",
    "micro": "train.micro_batch_size",
    "grad32": "mixed_precision.grad_reduce_in_fp32",
    "zero1": "ddp.use_distributed_optimizer",
    "lora_dim": "peft.dim",
    "lora_targets": "peft.target_modules",
    "images": "dataset.num_images",
    "image_size": "dataset.image_size",
}
"""Short keys of the table, and the fields that they stand for."""

DDP: Final = ("overlap_", "use_megatron_fsdp", "data_parallel_sharding", "num_distributed_optimizer")
OVERLAP: Final = ("overlap_moe_expert_parallel_comm", "delay_wgrad_compute", "tp_comm_overlap")
OPTIMIZER: Final = ("optimizer", "use_precision_aware", "exp_avg", "main_params")
MIXED: Final = ("fp8_param_gather", "fp4_param_gather", "fp8_dot_product_attention")
LISTS: Final = ("lora_targets", "recompute_modules", "cp_comm_type", "cuda_graph_scope", "image_size")
ON: Final = ("grad32", "zero1", "overlap_grad_reduce", "overlap_param_gather")


@dataclass(frozen=True)
class BridgeRecipe:
    """One recipe."""

    name: str
    """Its function."""
    model: str
    """The model of the zoo."""
    fields: Mapping[str, Any]
    """Field of a ``ConfigContainer``, with its section, to its value."""
    gpus: int | None = None
    """Accelerators of a benchmark's recipe, whose batch grows with more of them."""


@cache
def _lines(table: str = "bridge_recipes.txt") -> dict[str, str]:
    text = Path(__file__).with_name(table).read_text(encoding="utf-8")
    lines = [line.split(" ", 1) for line in text.splitlines() if line and not line.startswith("#")]
    return dict((name, rest) for name, rest in lines)


def recipe_names() -> list[str]:
    """Return the names of all recipes that have a price."""
    lines = _lines()
    return [name.removesuffix("!") for name in lines if not _why(lines, lines[name])]


def why_unpriced(name: str) -> str:
    """Return why a recipe that is known has no price; empty of any other.

    Examples
    --------
    >>> why_unpriced("wan_14b_pretrain_config")
    'it trains a diffusion transformer, which Megatron-Bridge has no price for'
    """
    lines = _lines()
    return _why(lines, lines.get(name, lines.get(f"{name}!", "")))


def _why(lines: Mapping[str, str], line: str) -> str:
    if line.startswith("= "):
        line = lines.get(line[2:], lines.get(f"{line[2:]}!", ""))
    return line[2:] if line.startswith("? ") else ""


def known_recipe(name: str) -> BridgeRecipe | None:
    """Return a recipe by its function's name, None where it is not in the table.

    Examples
    --------
    >>> recipe = known_recipe("llama3_8b_pretrain_config")
    >>> recipe.model, recipe.fields["model.context_parallel_size"], recipe.gpus
    ('llama3-8b', 2, None)
    """
    lines = _lines()
    line = lines.get(name, lines.get(f"{name}!"))
    if line is None or line.startswith("? "):
        return None
    if line.startswith("= "):
        return known_recipe(line[2:])
    model, *words = line.split()
    size = re.search(r"_(\d+)gpu_", name) if f"{name}!" in lines else None
    return BridgeRecipe(name, model, _fields(words), int(size[1]) if size else None)


def nemo_recipe(name: str, kind: str) -> BridgeRecipe | None:
    """Return a recipe of NeMo 2.0 (``pretrain``, ``sft`` or ``lora``), None where it is not in the table.

    Examples
    --------
    >>> recipe = nemo_recipe("llama3_70b", "pretrain")
    >>> recipe.model, recipe.fields["model.virtual_pipeline_model_parallel_size"], recipe.fields["nodes"]
    ('llama3-70b', 5, 1)
    """
    lines = _lines("nemo_recipes.txt")
    line = lines.get(f"{name}:{kind}", "")
    line = lines[line[2:]] if line.startswith("= ") else line
    model, *words = line.split() or [""]
    return BridgeRecipe(f"{name} ({kind})", model, _fields(words)) if line else None


def nemo_names() -> list[str]:
    """Return the names of NeMo's recipes."""
    return sorted({name.partition(":")[0] for name in _lines("nemo_recipes.txt")})


def _fields(words: list[str]) -> dict[str, Any]:
    said: dict[str, Any] = dict.fromkeys(ON, True)
    for word in words:
        key, _, text = word.partition("=")
        said[key] = text.split("+") if key in LISTS else plain(text)
    fields = {_place(key): value for key, value in said.items() if key != "precision"}
    fields["mixed_precision"] = recipe = RECIPES[str(said["precision"])]
    if recipe in GATHERS:
        fields.setdefault(f"mixed_precision.{GATHERS[recipe]}", False)
    if "lora_dim" in said:
        fields["peft"] = "LoRA"
    return fields


def _place(key: str) -> str:
    if key in PLACES or key in ("nodes", "ranks"):
        return PLACES.get(key, key)
    sections = {"comm_overlap": OVERLAP, "ddp": DDP, "optimizer": OPTIMIZER, "mixed_precision": MIXED}
    found = next((name for name, starts in sections.items() if key.startswith(starts)), "model")
    return f"{found}.{key}"


def plain(text: str) -> Value:
    """Return a value as it is written.

    Examples
    --------
    >>> plain("8"), plain("true"), plain("Et|tL")
    (8, True, 'Et|tL')
    """
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    return int(text) if re.fullmatch(r"-?\d{1,18}", text) else text
