"""A command that starts a recipe of Megatron-Bridge by its name, with what it sets otherwise."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from planner.dataclasses import replace
from planner.errors import InputError, Problem, nearest
from planner.inputs.load import load_model
from planner.inputs.workload import Workload
from planner.runtimes.imports.command_flags import flag_values
from planner.runtimes.imports.command_line import Training
from planner.runtimes.imports.model import with_record
from planner.runtimes.imports.sheet import Imported
from planner.runtimes.imports.zoo import names_of_shape
from planner.runtimes.megatron_bridge.reading import core_fields
from planner.runtimes.megatron_bridge.reading.bridge import (
    FP8_RECIPE,
    ROOT,
    adapters,
    as_fields,
    bridge_training,
    lm_flags,
    section_fields,
    with_masters,
)
from planner.runtimes.megatron_bridge.reading.bridge_benchmarks import (
    after_selectors,
    benchmark_recipe,
    stem_of,
)
from planner.runtimes.megatron_bridge.reading.bridge_sums import bridge_sums
from planner.runtimes.megatron_bridge.reading.bridge_vision import is_seeing, shows_images, with_recipe_images
from planner.runtimes.megatron_bridge.reading.recipe_table import (
    BridgeRecipe,
    known_recipe,
    recipe_names,
    why_unpriced,
)
from planner.runtimes.megatron_bridge.reading.recipe_words import FIELDS, Words, words_of
from planner.runtimes.megatron_bridge.sections import GATHERS, RECIPES
from planner.runtimes.megatron_lm.architecture import known_architecture
from planner.runtimes.megatron_lm.flags import shape_flags
from planner.runtimes.megatron_lm.reading.megatron import from_script
from planner.units import is_whole

MODES: Final = {"pretrain": "pretrain", "sft": "sft", "lora": "peft"}
PRICED: Final = ("model", "train", "ddp", "optimizer", "comm_overlap", "mixed_precision", "peft", "dataset")
"""Sections of which a field that is not known is a fault."""

OTHERS: Final = (
    *("scheduler", "logger", "checkpoint", "validation", "rng", "dist", "profiling", "tokenizer", "env_vars"),
    *("ft", "straggler", "nvrx_straggler", "rerun_state_machine", "tensor_inspect", "inprocess_restart"),
)
"""Sections that decide no price."""

FREE: Final = re.compile(
    r"dataset\.(?!seq_length).*|train\.(?!(?:global|micro)_batch_size|rampup).*|peft\.(?:dropout.*|alpha|lora_.*)"
    r"|ddp\.(?:check_for_.*|average_in_collective|bucket_size|align_param_gather|suggested_.*|pad_buckets_.*)"
    r"|optimizer\.(?:lr|min_lr|weight_decay|adam_.*|clip_grad|.*_mult)"
)
"""Fields of priced sections that decide neither layout nor memory."""

LISTED: Final = re.compile(
    r"comm_overlap\.(?:tp_comm_.*|overlap_moe_.*|delay_wgrad_.*|defer_.*|wgrad_.*|batch_p2p_.*|overlap_p2p_.*)"
    r"|model\.(?:cuda_graph_.*|moe_shared_expert_overlap|transformer_impl|moe_.*_fusion|moe_router_fusion|.*_num_sms)"
    r"|mixed_precision\.fp8_.*|ddp\.nccl_ub"
)
"""Fields that may change speed: those that are no settings are told as not understood."""


def read_command(training: Training, path: Path, vocab: int | None) -> Imported:
    """Return what a launcher's command says, by the recipe that it names.

    Raises
    ------
    InputError
        If the recipe is not known, or a word is none of the launcher's.
    """
    where = str(path)
    words = words_of(training.words[1:], where)
    benchmark = stem_of(words) is not None
    recipe = _recipe(words, where)
    if words.problems:
        raise InputError(words.problems)
    nodes, ranks = _machine(words, training, benchmark)
    fields, notes = _fields(recipe, words, where, benchmark)
    gpus = nodes * ranks if nodes and ranks else None
    notes += after_selectors(words, recipe, fields) if benchmark else []
    notes += _weak_scaled(recipe, words, fields, gpus, where)
    found, record = read_fields(recipe, fields, replace(training, nodes=nodes, ranks=ranks), where)
    unknown = tuple(
        key
        for key in fields
        if LISTED.fullmatch(key)
        and fields[key] not in (None, False, "none")
        and (key, found.options.get("precision")) != (FP8_RECIPE, "bf16")
        and key.rpartition(".")[2] not in core_fields.SETTING_FIELDS
    )
    notes = [f"recipe {recipe.name} of Megatron-Bridge, as of 2026-08-22: {recipe.model}", *notes]
    found = replace(found, notes=(*notes, *found.notes), unknown=unknown)
    if record is None and not found.faults and "model.num_layers" in fields:
        raise InputError(Problem(f"{where}: model.num_layers", str(fields["model.num_layers"]), "1 or more"))
    if record is None or recipe.model in names_of_shape(record, where) or is_seeing(record, recipe.model):
        return with_recipe_images(replace(found, model_name=recipe.model), fields, recipe.model, where)
    if shows_images(fields):
        expected = f"the layers of {recipe.model}, whose encoder the recipe has"
        raise InputError(Problem(f"{where}: model", "another shape", expected, "another recipe"))
    return with_record(found, record, path, "model.vocab_size")


def _recipe(words: Words, where: str) -> BridgeRecipe:
    name = words.first("--recipe")
    stem, mode = words.first("--model"), words.first("--mode") or "pretrain"
    if name is None and stem is not None:
        name = f"{stem}_{MODES.get(mode, mode)}_config"
    found = known_recipe(name) if name else None
    if name is None:
        name, found = benchmark_recipe(words)
    if found is not None and mode in ("lora", "sft", "pretrain"):
        return found
    if why := why_unpriced(name or ""):
        raise InputError(Problem(f"{where}: recipe", repr(name), f"a recipe that has a price: {why}"))
    expected = (
        f"one of the {len(recipe_names())} recipes for text that are known; else its degrees: "
        "planner estimate MODEL --runtime megatron-bridge --tp ... --global-batch ..."
    )
    raise InputError(
        Problem(
            f"{where}: recipe",
            repr((name if found is None else mode)[:120]),
            expected,
            nearest(name, recipe_names()),
        )
    )


def _machine(words: Words, training: Training, benchmark: bool) -> tuple[int | None, int | None]:
    def number(*names: str) -> int | None:
        text = words.first(*names)
        return int(text) if text is not None and is_whole(text) and 0 < int(text) < 10**7 else None

    ranks = number("-gn", "--gpus_per_node", "--gpus-per-node")
    if benchmark:
        whole = number("-ng", "--num_gpus")
        return (whole // ranks, ranks) if whole and ranks and whole % ranks == 0 else (1, whole)
    return number("--nodes", "-N") or training.nodes, ranks or training.ranks


def _fields(
    recipe: BridgeRecipe, words: Words, where: str, benchmark: bool
) -> tuple[dict[str, Any], list[str]]:
    """Return the fields of the recipe with those that the command sets otherwise, and notes."""
    fields = dict(recipe.fields)
    said = dict(words.fields)
    flags = {FIELDS[flag]: _typed(text) for flag, text in words.flags.items() if flag in FIELDS}
    if benchmark and flags.get("model.virtual_pipeline_model_parallel_size") == -1:
        del flags["model.virtual_pipeline_model_parallel_size"]
    if benchmark and "model.tensor_model_parallel_size" in flags:
        flags["model.sequence_parallel"] = flags["model.tensor_model_parallel_size"] != 1
    said = {**said, **flags} if benchmark else {**flags, **said}
    if LONG in said:
        said[LENGTH] = said.pop(LONG)
    _several(words, said)
    _checked(said, where, None if benchmark else said.get(LENGTH, fields.get("model.seq_length")))
    _joined(said)
    fields_before = dict(fields)
    if "mixed_precision" in said:
        fields["mixed_precision.grad_reduce_in_fp32"] = said["mixed_precision"] != "fp16_mixed"
        for name in GATHERS.values():
            fields.pop(f"mixed_precision.{name}", None)
    fields.update(said)
    changed = [
        f"{key} {fields_before[key]} to {value}"
        for key, value in said.items()
        if key in fields_before and fields_before[key] != value
    ]
    return fields, [f"changed of the recipe: {', '.join(changed)}"] if changed else []


LENGTH: Final = "dataset.seq_length"
LONG: Final = "dataset.sequence_length"
"""The same by the name that the class of datasets has it (training/config.py, ``GPTDatasetConfig``)."""


def _checked(said: Mapping[str, Any], where: str, length: object) -> None:
    """Refuse fields that are not known, and those that the runner sets by another.

    ``length``: tokens of a sequence by the dataset, None where the model's own count.
    """
    problems = [fault for key in said if (fault := _unknown(key, where)) is not None]
    if length is not None and str(said.get("model.seq_length", length)) != str(length):
        expected = "dataset.seq_length, which decides: the runner sets model.seq_length by it"
        problems.append(Problem(f"{where}: model.seq_length", str(said["model.seq_length"]), expected))
    recipes = said.get("mixed_precision", "bf16_mixed")
    if recipes not in RECIPES.values():
        problems.append(
            Problem(f"{where}: mixed_precision", repr(recipes), f"one of {', '.join(RECIPES.values())}")
        )
    if problems:
        raise InputError(problems)


def _joined(said: dict[str, Any]) -> None:
    """Set the fields that follow from others which are said."""
    for name in ("overlap_grad_reduce", "overlap_param_gather"):
        if f"comm_overlap.{name}" in said:
            said[f"ddp.{name}"] = said[f"comm_overlap.{name}"]
    if "optimizer.use_distributed_optimizer" in said:
        said["ddp.use_distributed_optimizer"] = said["optimizer.use_distributed_optimizer"]
    if "dataset.seq_length" in said:
        said["model.seq_length"] = said["dataset.seq_length"]


def _several(words: Words, said: dict[str, Any]) -> None:
    """Add the fields of flags that set more than one."""
    layers, modules = words.first("-rl", "--recompute_num_layers"), words.first("--recompute_modules")
    if layers is not None:
        said |= {"model.recompute_granularity": "full", "model.recompute_method": "block"}
        said["model.recompute_num_layers"] = _typed(layers)
    if modules is not None:
        said |= {"model.recompute_granularity": "selective"}
        said["model.recompute_modules"] = re.split(r"[\s,]+", modules.strip())
    _graphs_and_dispatcher(words, said)
    hosted = _typed(words.first("-ol", "--activation_offload_layers") or "0")
    if hosted:
        said |= {"model.cpu_offloading": True, "model.cpu_offloading_num_layers": hosted}
    if _on(words.first("--use_megatron_fsdp")):
        said |= {"ddp.use_megatron_fsdp": True, "ddp.data_parallel_sharding_strategy": "optim_grads_params"}
    if _on(words.first("--moe_a2a_overlap")):
        said |= {
            "comm_overlap.overlap_moe_expert_parallel_comm": True,
            "comm_overlap.delay_wgrad_compute": True,
            "model.moe_shared_expert_overlap": False,
        }


def _graphs_and_dispatcher(words: Words, said: dict[str, Any]) -> None:
    """Add what is captured as graphs, who sends tokens to experts, and how many a rank takes."""
    graphs, scope = words.first("--cuda_graph_impl"), words.first("--cuda_graph_scope")
    if graphs is not None:
        said["model.cuda_graph_impl"] = graphs
    if graphs != "none" and scope is not None:
        said["model.cuda_graph_modules"] = scope.split(",")
    backend = words.first("--moe_flex_dispatcher_backend")
    if backend == "None":
        said["model.moe_token_dispatcher_type"] = "alltoall"
    elif backend is not None:
        said |= {"model.moe_token_dispatcher_type": "flex", "model.moe_flex_dispatcher_backend": backend}
        said["model.moe_shared_expert_overlap"] = False
    if _on(words.first("--nccl_ub")):
        said["ddp.nccl_ub"] = True
    if _on(words.first("--use_tokendrop")):
        said |= {"model.moe_expert_capacity_factor": 1.0, "model.moe_pad_expert_input_to_capacity": True}


def _on(text: str | None) -> bool:
    return text is not None and text.lower() not in ("false", "0", "no")


def _typed(text: str) -> Any:
    if text == "None":
        return None
    return int(text) if re.fullmatch(r"-?\d{1,18}", text) else text


def _unknown(key: str, where: str) -> Problem | None:
    section, dot, name = key.partition(".")
    if section in OTHERS or FREE.fullmatch(key) or LISTED.fullmatch(key) or key == "mixed_precision":
        return None
    if section not in PRICED or not dot:
        near = nearest(section, [*PRICED, *OTHERS])
        return Problem(f"{where}: {key}", "a section that is not known", f"one of {', '.join(PRICED)}", near)
    tables = (
        core_fields.SAME,
        core_fields.OTHER,
        core_fields.SWITCHES,
        core_fields.OFF,
        core_fields.DTYPE_FIELDS,
    )
    known = any(name in table for table in tables) or core_fields.WITHOUT_EFFECT.fullmatch(name)
    if known or key in ("dataset.seq_length", "peft.dim", "peft.target_modules", "peft.a2a_experimental"):
        return None
    names = [name for table in tables for name in table]
    expected = "a field whose effect is known; without it, or what it does as an option of planner estimate"
    return Problem(f"{where}: {key}", "a field that is not known", expected, nearest(name, names))


def _weak_scaled(
    recipe: BridgeRecipe, words: Words, fields: dict[str, Any], gpus: int | None, where: str
) -> list[str]:
    """Grow the batch of a benchmark's recipe with its data-parallel ranks, as the runner does."""
    given = any(key in words.fields for key in ("train.global_batch_size", "train"))
    given |= words.first("-gb", "--global_batch_size") is not None
    if recipe.gpus is None or given or gpus is None:
        return []
    before, now = recipe.gpus // _split(recipe.fields), gpus // max(1, _split(fields))
    batch, key = int(recipe.fields["train.global_batch_size"]), "train.global_batch_size"
    if before == now or not now:
        return []
    if batch * now % before:
        found = f"{batch} for {before} data-parallel ranks, and here are {now}"
        raise InputError(Problem(f"{where}: {key}", found, f"{key}=N, since no whole batch follows"))
    fields[key] = batch * now // before
    return [
        f"{key}: {batch} of {before} data-parallel ranks, so {fields[key]} of {now}, as the runner scales it"
    ]


def _split(fields: Mapping[str, Any]) -> int:
    total = 1
    for name in ("tensor", "pipeline"):
        total *= _degree(fields.get(f"model.{name}_model_parallel_size"))
    return total * _degree(fields.get("model.context_parallel_size"))


def _degree(value: object) -> int:
    return value if type(value) is int and value > 0 else 1


def read_fields(
    recipe: BridgeRecipe, fields: Mapping[str, Any], training: Training, where: str
) -> tuple[Imported, dict[str, Any] | None]:
    """Return what the fields of a recipe say, and the model's shape where it may be no model of the zoo."""
    said = {f"{ROOT}{key}": value for key, value in fields.items()}
    sections = section_fields(said)
    sections.pop("max_position_embeddings", None)
    model = load_model(recipe.model)
    arch, obstacles = known_architecture(model)
    length = fields.get("model.seq_length")
    if obstacles or type(length) is not int or not 2 <= length < 10**9:
        own: dict[str, str] = {"--position-embedding-type": "rope"}
        named = model
    else:
        work = Workload(seq_len=length, global_batch=1)
        own, named = flag_values(shape_flags(model, work, arch)), None
        own |= {"--vocab-size": str(model.vocab)}
    own.pop("--mtp-num-layers", None)
    sharded = "fsdp_dtensor" if fields.get("ddp.use_megatron_fsdp") is True else None
    flags = {**own, **lm_flags(sections, sharded)}
    found, record = from_script(bridge_training(flags, training), where, named)
    found = as_fields(found, ())
    found = replace(
        found, options=adapters(said, found), changes=(*found.changes, *core_fields.set_traits(sections))
    )
    found = with_masters(said, found)
    own_fields = {key: value for key, value in said.items() if not key.endswith("dataset.seq_length")}
    return bridge_sums(own_fields, ROOT, found, where), None if named is not None else record
