"""An Accelerate YAML as the options of a plan."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from planner.dataclasses import replace
from planner.errors import InputError, Problem
from planner.inputs.yaml_file import read_json
from planner.runtimes.deepspeed.reading import deepspeed
from planner.runtimes.deepspeed.reading.deepspeed import say_offload, say_overlap
from planner.runtimes.deepspeed.reading.deepspeed_sums import deepspeed_world
from planner.runtimes.fsdp.reading.accelerate_schema import ACCELERATE, LAUNCH_KEYS
from planner.runtimes.fsdp.reading.accelerate_sums import accelerate_sums
from planner.runtimes.fsdp.reading.wrapping import WRAPPED
from planner.runtimes.fsdp.table import COMPILED, FLAGS, OPTIONS, SHARDS, SIZES
from planner.runtimes.imports.command_flags import flag_values
from planner.runtimes.imports.file_format import FileFormat, Source, beside
from planner.runtimes.imports.hub_settings import compiled_by, reduced_in, say_own_adapters, script_changes
from planner.runtimes.imports.literals import flat, literals
from planner.runtimes.imports.model import with_config
from planner.runtimes.imports.passed_over import tell
from planner.runtimes.imports.places import find_beside
from planner.runtimes.imports.schemas import check_closed, check_kinds
from planner.runtimes.imports.script_arguments import unread_arguments
from planner.runtimes.imports.sheet import Imported, Sheet
from planner.runtimes.libraries.reading import trainer

STRATEGIES: Final = {
    "FULL_SHARD": "3", "1": "3", "SHARD_GRAD_OP": "2", "2": "2", "NO_SHARD": "0", "3": "0",
    "HYBRID_SHARD": "3", "4": "3", "HYBRID_SHARD_ZERO2": "2", "5": "2",
}  # fmt: skip
"""FSDP 1's sharding strategies by name and number, and the ZeRO stage of each."""

RUNTIMES: Final = {"DEEPSPEED": "deepspeed", "MEGATRON_LM": "megatron-lm"}

CONFIG_FILE: Final = "deepspeed_config.deepspeed_config_file"
LAUNCHED: Final = ("gpus", "precision", "micro_batch", "accumulation", "seq_len", "recompute")
"""What the launch of a DeepSpeed job decides where its JSON leaves it open."""

WITHOUT_EFFECT: Final = re.compile(
    r"compute_environment|debug|downcast_bf16|machine_rank|main_.*|num_machines|rdzv_backend|same_network|tpu_.*"
    r"|use_cpu|gpu_ids|enable_cpu_affinity|deepspeed_config\.(?:zero3_.*|deepspeed_multinode_launcher)"
    r"|dynamo_config\.dynamo_use_regional_compilation"
    r"|fsdp_config\.(?:fsdp_version|fsdp_auto_wrap_policy|fsdp_transformer_layer_cls_to_wrap|fsdp_min_num_params"
    r"|fsdp_state_dict_type|fsdp_cpu_ram_efficient_loading|fsdp_sync_module_states|fsdp_use_orig_params"
    r"|fsdp_backward_prefetch.*|fsdp_forward_prefetch)"
)
"""Keys that decide neither layout nor what is kept in memory."""


def launch_flags(text: str) -> dict[str, str]:
    """Return the flags of the script in a comment such as ``# accelerate launch ... train.py ...``."""
    for line in text.splitlines():
        if line.startswith("#") and "accelerate launch" in line:
            try:
                words = shlex.split(line.lstrip("# "))
            except ValueError:
                return {}
            scripts = [place for place, word in enumerate(words) if word.endswith(".py")]
            return flag_values(words[scripts[0] + 1 :]) if scripts else {}
    return {}


def from_yaml(
    tree: Mapping[str, Any], flags: Mapping[str, str], settings: Mapping[str, Any], where: str
) -> Imported:
    """Return what an Accelerate YAML says, with the flags and the constants of the training script.

    Raises `InputError` with every fault of the file.
    """
    sheet = Sheet(where, flat(tree))
    kind = str(sheet.take("distributed_type") or "NO").upper()
    sheet.say("gpus", sheet.whole(OPTIONS["gpus"].path), OPTIONS["gpus"].path)
    given = "mixed_precision" in sheet.values  # null is what its launcher takes for "no"
    precision = sheet.take("mixed_precision")
    word = ("no" if given else None) if precision is None else str(precision).lower()
    sheet.say("precision", "fp32" if word in ("no", "false") else word, "mixed_precision")
    if kind == "DEEPSPEED":
        _deepspeed(sheet)
    elif kind == "MEGATRON_LM":
        _megatron(sheet)
    else:
        _fsdp(sheet, kind == "FSDP")
    _script(sheet, flags, settings)
    check_kinds(sheet, ACCELERATE)
    check_closed(sheet, "", LAUNCH_KEYS)
    accelerate_sums(sheet)
    tell(sheet, WRAPPED)
    sheet.ignore(WITHOUT_EFFECT)
    return sheet.imported(RUNTIMES.get(kind, "fsdp"))


def _fsdp(sheet: Sheet, sharded: bool) -> None:
    sizes = {axis: sheet.whole(key) for axis, key in SIZES.items()}
    for name in ("tp", "cp"):
        sheet.say(name, sizes[name], OPTIONS[name].path)
    strategy = OPTIONS["cp_method"]
    method = sheet.take(strategy.path)
    if sizes["sp"] and sizes["sp"] > 1:
        sheet.say("cp", sizes["sp"], SIZES["sp"])
        sheet.say("cp_method", "all-to-all", SIZES["sp"])
    elif method is not None and (sizes["cp"] or 1) > 1:
        sheet.say("cp_method", strategy.meant(method) or method, strategy.path)
    if not sharded:
        sheet.say("zero", 0, "distributed_type")
        return
    reshard, plan = OPTIONS["zero"], f"{SHARDS}.fsdp_sharding_strategy"
    again = sheet.take(reshard.path)
    sharding = str(sheet.take(plan) or ("FULL_SHARD" if again is None else again)).upper()
    stage = reshard.meant(sharding) or STRATEGIES.get(sharding, sharding)
    sheet.say("zero", stage, reshard.path, plan)
    if sizes["dp_shard"] and (sizes["dp_replicate"] or 1) > 1:
        sheet.say("zero_shards", sizes["dp_shard"] * (sizes["cp"] or 1), SIZES["dp_shard"])
    elif sharding.startswith("HYBRID"):
        sheet.notes.append(f"{sharding}: shards over a node; say how many with --zero-shards")
    for name, word in (("recompute", "full"), ("offload", "weights")):
        if sheet.has(key := OPTIONS[name].path):
            sheet.say(name, word, key)


def _deepspeed(sheet: Sheet) -> None:
    stage = sheet.whole("deepspeed_config.zero_stage")
    sheet.say("zero", 2 if stage is None else stage, "deepspeed_config.zero_stage")
    if "deepspeed_config.deepspeed_config_file" not in sheet.values:  # which goes before the section
        say_overlap(sheet, None, 2 if stage is None else stage)
    say_offload(sheet, "deepspeed_config.offload_optimizer_device", "deepspeed_config.offload_param_device")
    ranks = sheet.whole(SIZES["sp"])
    if ranks and ranks > 1:
        sheet.say("cp", ranks, SIZES["sp"])
        sheet.say("cp_method", "all-to-all", SIZES["sp"])
    steps = sheet.whole("deepspeed_config.gradient_accumulation_steps")
    sheet.say("accumulation", steps, "deepspeed_config.gradient_accumulation_steps")


def config_file(tree: Mapping[str, Any]) -> str | None:
    """Return the DeepSpeed JSON that a YAML names, where DeepSpeed is what it starts."""
    section = tree.get("deepspeed_config")
    started = str(tree.get("distributed_type", "")).upper() == "DEEPSPEED" and isinstance(section, Mapping)
    named = section.get("deepspeed_config_file") if isinstance(section, Mapping) and started else None
    return None if named in (None, "", "none") else str(named)


def with_deepspeed(found: Imported, inner: Imported, config: Path) -> Imported:
    """Return what a YAML and its DeepSpeed JSON say: the JSON, with what the launch alone decides.

    Accelerate refuses a ``deepspeed_config`` that says again what the JSON says, and fills in what the JSON
    leaves to it, so that of the YAML only accelerators, precision and the script's arguments are left.
    """
    left = {name: found.options[name] for name in LAUNCHED if name in found.options}
    half = "precision" in inner.options and inner.options["precision"] != "fp32"
    options = {**left, **inner.options} | (
        {} if half or "precision" not in left else {"precision": left["precision"]}
    )
    options |= {name: left[name] for name in ("gpus",) if name in left}
    again = [key for key in found.places.values() if key.startswith("deepspeed_config.")]
    notes = [f"deepspeed_config_file: read {config}"]
    notes += [f"{config.name} goes before {', '.join(again)}"] if again else []
    return replace(
        inner,
        options=options,
        places={**inner.places, **{name: found.places[name] for name in options if name in found.places}},
        unknown=(*(key for key in found.unknown if key != CONFIG_FILE), *inner.unknown),
        notes=(*found.notes, *notes, *inner.notes),
        faults=(*found.faults, *inner.faults),
    )


def _megatron(sheet: Sheet) -> None:
    for option, name in (
        ("tp", "tp_degree"), ("pp", "pp_degree"), ("cp", "context_parallel_size"),
        ("ep", "expert_model_parallel_size"), ("accumulation", "num_micro_batches"),
    ):  # fmt: skip
        key = f"megatron_lm_config.megatron_lm_{name}"
        sheet.say(option, sheet.whole(key), key)
    place = "megatron_lm_config.megatron_lm_"
    if sheet.has(f"{place}sequence_parallelism"):
        sheet.say("sequence_parallel", "true", f"{place}sequence_parallelism")
    sheet.say("recompute", sheet.take(f"{place}recompute_granularity"), f"{place}recompute_granularity")
    sheet.say("zero", 1 if sheet.has(f"{place}use_distributed_optimizer") else 0, "distributed_type")


SCRIPT: Final = {**FLAGS, "seq_len": "--max_seq_length"}
"""Arguments of any training script, as transformers names them."""

AGAIN: Final = "--gradient_checkpointing"


def _script(sheet: Sheet, flags: Mapping[str, str], settings: Mapping[str, Any]) -> None:
    """Say what the training script and its arguments decide."""
    for option, flag in SCRIPT.items():
        sheet.say(option, flags.get(flag))
    sheet.notes += unread_arguments(flags, (*SCRIPT.values(), AGAIN))
    sheet.say("seq_len", settings.get("SEQ_LEN"))
    sheet.say("optimizer", settings.get("OPTIMIZER"))
    if settings.get("WEIGHT_DTYPE") == "bfloat16" and not settings.get("LORA_RANK"):
        sheet.say("precision", "bf16")
        trainer.own_bfloat16(sheet)
    sheet.changes += script_changes(settings)
    sheet.changes += reduced_in(settings.get("REDUCE_DTYPE"), "fp32")
    sheet.changes += compiled_by(sheet, COMPILED.path)
    if settings.get("RECOMPUTE") or str(flags.get(AGAIN, "false")).lower() in ("", "true"):
        sheet.say("recompute", "full")
    say_own_adapters(sheet, settings)


def fits(source: Source) -> bool:
    """Return whether a YAML has one of the keys that Accelerate always writes."""
    return "distributed_type" in source.tree or "num_processes" in source.tree


def read(source: Source) -> Imported:
    """Return what a YAML says, with the DeepSpeed JSON that it names and the script that it starts.

    Raises `InputError` if the JSON is not there.
    """
    path, tree = source.path, source.tree
    flags = dict(source.starter.flags) if source.starter else launch_flags(source.text)
    constants = literals(beside(path, "train.py"))
    found = from_yaml(tree, flags, constants, source.where)
    named = config_file(tree)
    if named is None:
        return with_config(found, path)
    config = find_beside(Path(named), path)
    if config is None:
        expected = "a DeepSpeed JSON, found from the folders above this file"
        raise InputError(Problem(f"{path}: {CONFIG_FILE}", named, expected))
    inner = deepspeed.from_json(read_json(config), constants, str(config))
    return with_config(deepspeed_world(with_deepspeed(found, inner, config), str(config)), path)


ENTRY: Final = FileFormat("an Accelerate .yaml", (".yaml", ".yml"), fits, read)
