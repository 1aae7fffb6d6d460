"""A Primus YAML: Megatron's or torchtitan's names under ``modules.pre_trainer.overrides``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from planner.dataclasses import dataclass
from planner.errors import InputError, Problem
from planner.inputs.bounded import is_file
from planner.inputs.yaml_file import parse_yaml, read_text
from planner.runtimes.imports.environment import filled
from planner.runtimes.imports.literals import flat
from planner.runtimes.imports.places import find_beside

TRAINERS: Final = ("pre_trainer", "sft_trainer", "post_trainer", "trainer")
FRAMEWORKS: Final = ("megatron", "torchtitan")
MOST_PARENTS: Final = 12
"""How deep ``extends`` is followed."""

MEGATRON: Final[dict[str, Any]] = {"bf16": True, "use_distributed_optimizer": True}
"""Primus' own defaults where its configs/modules/megatron is not beside the file (trainer_base.yaml)."""

OWN: Final = re.compile(
    r"(?:stderr_|file_)?sink_level|disable_.*|log_.*|use_rocm.*|enable_primus_turbo|use_turbo_.*|turbo_.*|.*_sink_level"
    r"|auto_continue_train|mlflow.*|trainable|dump_.*|moe_use_legacy_grouped_gemm|moe_use_fused_.*|patch_.*|name|framework"
    r"|torch_profiler_.*|use_pytorch_profiler|work_.*|extends|mock_dataset.*|no_fp8_weight_transpose_cache|model_type"
    r"|moe_router_force_load_balancing|wall_clock.*|enable_turbo.*|(?:train|valid|test)_data_path|ddp_.*|num_workers"
    r"|profile_.*|spec|original_max_position_embeddings|layernorm_epsilon|use_sink_attention.*|sink_.*|pp_warmup|dump_pp_data"
)
"""Primus' own arguments that decide neither layout nor memory."""


UNPRICED: Final[Mapping[str, str]] = {
    "patch_zero_bubble": "schedule",
    "patch_primus_pipeline": "schedule",
    "decoder_pipeline_manual_split_list": "stage_layers",
    "recompute_layer_ids": "recompute",
    "offload": "offload",
    "cpu_offload": "offload",
}
"""Settings of Primus alone that decide layout or memory, and the option that says each of them."""


def is_one(tree: Mapping[str, Any]) -> bool:
    """Return whether a file has a module of Primus."""
    modules = tree.get("modules")
    return isinstance(modules, Mapping) and any(isinstance(modules.get(name), Mapping) for name in TRAINERS)


@dataclass(frozen=True)
class PrimusSettings:
    """What the trainer of a file is told."""

    framework: str
    """``megatron`` or ``torchtitan``."""
    values: dict[str, Any]
    """All settings."""
    own: frozenset[str]
    """Those that the file itself has."""
    notes: tuple[str, ...]
    """What was read and what is missing."""


def settings(tree: Mapping[str, Any], path: Path) -> PrimusSettings:
    """Return what the trainer of a file is told.

    Settings are those of the module's file, of the model's, and of the overrides, the later first.

    Raises `InputError` if another framework or trainer runs it.
    """
    modules = tree["modules"]
    name = next(name for name in TRAINERS if isinstance(modules.get(name), Mapping))
    module = filled(dict(modules[name]))
    framework = str(module.get("framework", ""))
    if framework not in FRAMEWORKS:
        raise InputError(
            Problem(f"{path}: modules.{name}.framework", repr(framework), " or ".join(FRAMEWORKS))
        )
    if (own := module.get("trainer_class")) is not None:
        expected = "Primus' usual trainer: what its own ones train is not read"
        raise InputError(Problem(f"{path}: modules.{name}.trainer_class", repr(str(own)[:60]), expected))
    whole: dict[str, Any] = dict(MEGATRON) if framework == "megatron" else {}
    notes = []
    for kind, key in (("modules", "config"), ("models", "model")):
        named = module.get(key)
        if not isinstance(named, str):
            continue
        file = find_beside(Path("primus/configs") / kind / framework / named, path)
        if file is None:
            notes.append(
                f"{key}: {named} of Primus is not above this file"
                + ("" if kind == "models" else ", so Megatron's defaults")
            )
        else:
            whole = merged(whole, extended(file))
            notes.append(f"{key}: read {file}")
    overrides = module.get("overrides")
    overrides = overrides if isinstance(overrides, Mapping) else {}
    return PrimusSettings(framework, merged(whole, overrides), frozenset(flat(overrides)), tuple(notes))


def model_word(tree: Mapping[str, Any]) -> str | None:
    """Return the model that the trainer names, without the ending of its file."""
    for name in TRAINERS:
        module = tree["modules"].get(name)
        if isinstance(module, Mapping) and isinstance(module.get("model"), str):
            return str(filled(module["model"])).removesuffix(".yaml").rpartition("/")[2]
    return None


def extended(path: Path, depth: int = 0) -> dict[str, Any]:
    """Return a file with all that it extends, itself last."""
    tree = filled(dict(parse_yaml(read_text(path), str(path))))
    parents = tree.pop("extends", None) or []
    whole: dict[str, Any] = {}
    for parent in parents if isinstance(parents, list) and depth < MOST_PARENTS else []:
        other = path.parent / str(parent)
        if is_file(other):
            whole = merged(whole, extended(other, depth + 1))
    return merged(whole, tree)


def merged(low: Mapping[str, Any], high: Mapping[str, Any]) -> dict[str, Any]:
    """Return two trees as one; of what both say the second counts.

    Examples
    --------
    >>> merged({"a": {"b": 1, "c": 2}}, {"a": {"b": 3}})
    {'a': {'b': 3, 'c': 2}}
    """
    whole = dict(low)
    for key, value in high.items():
        old = whole.get(key)
        whole[key] = merged(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return whole
