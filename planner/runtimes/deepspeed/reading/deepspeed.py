"""A DeepSpeed JSON as the options of a plan."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from planner.dataclasses import replace
from planner.errors import Problem
from planner.runtimes.deepspeed.offloads import WHOLE_GROUP, offload_named
from planner.runtimes.deepspeed.reading.deepspeed_fields import TABLE, check_sections
from planner.runtimes.deepspeed.reading.deepspeed_schema import DEEPSPEED
from planner.runtimes.deepspeed.reading.deepspeed_sums import deepspeed_sums, deepspeed_world
from planner.runtimes.deepspeed.table import (
    ELEMENTS,
    EXPERTS,
    HOST_CHECKPOINTS,
    OPTIONS,
    OVERLAP,
    PRECISIONS,
    REDUCED,
    SECONDARY,
    SIZES,
    SWITCHES,
)
from planner.runtimes.deepspeed.tiles import TILES
from planner.runtimes.imports.field_kinds import field_kinds
from planner.runtimes.imports.file_format import FileFormat, Source, beside
from planner.runtimes.imports.hub_settings import reduced_in, say_own_adapters, script_changes
from planner.runtimes.imports.literals import flat, literals
from planner.runtimes.imports.model import started, with_config
from planner.runtimes.imports.passed_over import above, off, on, passed_over, tell
from planner.runtimes.imports.schemas import check_kinds
from planner.runtimes.imports.script_arguments import unread_arguments
from planner.runtimes.imports.sheet import Imported, Sheet
from planner.runtimes.megatron_lm.reading.megatron_offload import shared_offload
from planner.runtimes.settings import word

OPTIMIZERS: Final = {
    "adamw": "adamw",
    "adam": "adamw",
    "fusedadam": "adamw",
    "sgd": "sgd",
    "muon": "muon",
    "lion": "lion",
}

WITHOUT_EFFECT: Final = re.compile(
    r"gradient_clipping|steps_per_print|wall_clock_breakdown|prescale_gradients|dump_state|memory_breakdown"
    r"|zero_allow_untested_optimizer|zero_force_ds_cpu_optimizer|disable_allgather"
    r"|communication_data_type|gradient_predivide_factor"
    r"|_\w*|(?:scheduler|optimizer\.params|flops_profiler|tensorboard|wandb|csv_monitor|comms_(?:logger|config)|checkpoint"
    r"|monitor_config|aio|data_efficiency|elasticity|autotuning|compile|timers|zero_optimization\.log_trace_cache_warnings"
    r"|pipeline)\..*"
    r"|(?:fp16|bf16)\.(?!enabled).*"
    r"|zero_optimization\.(?:reduce_scatter|contiguous_gradients|allgather_partitions|.*bucket_size|round_robin.*"
    r"|sub_group_size|stage3_.*|ignore_unused_parameters|zero_quantized_.*|load_from_fp32_weights|elastic_.*)"
    r"|zero_optimization\.offload_optimizer\.(?!device|ratio).*"
)
"""Keys that decide neither layout nor what is kept in memory."""


ZERO: Final = r"zero_optimization\."
TOLD: Final = (
    passed_over(f"{ZERO}reduce_scatter", off, "gradients are priced as reduced and scattered"),
    passed_over(f"{ZERO}contiguous_gradients", off, "gradients are priced as copied into one buffer"),
    passed_over(f"{ZERO}zero_quantized_nontrainable_weights", on, "frozen weights are priced as sent whole"),
    passed_over(
        f"{ZERO}stage3_param_persistence_threshold",
        above(1e6),
        "priced as if biases and norms alone stay whole",
    ),
    passed_over(r"compile\.deepcompile", on, "priced without, a little slower"),
    passed_over(r"data_efficiency\.enabled", on, "priced with whole sequences, and with every layer on them"),
    passed_over(r"fp16\.fp16_master_weights_and_grads", on, "priced with master weights in float32"),
    passed_over(f"{ZERO}offload_optimizer\\.super_offload", on, "priced as DeepSpeed's other offload"),
)
"""What is not priced; nothing in it decides the layout."""


def _named(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings by their usual names; DeepSpeed takes those of stage 3 without its prefix as well."""
    place = "zero_optimization."
    third = [name for name in field_kinds(TABLE)["zero_optimization"] if "3_" in name]
    whole = {f"{place}{name.removeprefix('stage3_')}": f"{place}{name}" for name in third}
    return {whole.get(key, key): value for key, value in values.items()}


def from_json(tree: Mapping[str, Any], settings: Mapping[str, Any], where: str) -> Imported:
    """Return what a DeepSpeed JSON says, with the constants of the training script beside it.

    Raises `InputError` with every fault of the file.
    """
    sheet = Sheet(where, _named(flat(tree)))
    auto = [key for key, value in sheet.values.items() if value == "auto"]
    if auto:
        sheet.seen.update(auto)
        sheet.notes.append(f"left to the trainer (auto): {', '.join(auto)}; say them as options")
    _batch(sheet)
    _zero(sheet)
    _zeropp(sheet)
    _sizes(sheet)
    _degrees(sheet)
    _foreign_degrees(sheet)
    _kinds(sheet)
    _script(sheet, settings)
    check_kinds(sheet, DEEPSPEED)
    check_sections(sheet)
    deepspeed_sums(sheet)
    tell(sheet, TOLD)
    sheet.ignore(WITHOUT_EFFECT)
    return sheet.imported("deepspeed")


def _batch(sheet: Sheet) -> None:
    """Say the batch: of a whole one alone each rank has a share, in one pass."""
    batch = ("micro_batch", "accumulation", "global_batch")
    for option in batch:
        key = OPTIONS[option].path
        sheet.say(option, sheet.whole(key), key)
    if {*sheet.options} & {*batch} == {"global_batch"}:
        sheet.say("accumulation", 1, OPTIONS["accumulation"].path)


def _zero(sheet: Sheet) -> None:
    key = OPTIONS["zero"].path
    stage = sheet.whole(key)
    sheet.say("zero", 0 if stage is None else stage, key)
    shards = sheet.whole("zero_optimization.mics_shard_size")
    if shards and shards > 0:
        sheet.say("zero_shards", shards, "zero_optimization.mics_shard_size")
    _offload(sheet)
    said = sheet.take(OVERLAP.path)
    say_overlap(sheet, said, 0 if stage is None else stage)


UNSAID: Final = "no overlap_comm, which is off below ZeRO-3: priced without overlap of data parallelism"


def say_overlap(sheet: Sheet, said: Any, stage: int) -> None:
    """Say that communication overlaps nothing: off, or unsaid below stage 3.

    Source: DeepSpeed, deepspeed/runtime/zero/config.py, ``overlap_comm_valid``.
    """
    if stage and (said is False or (said is None and stage < 3)):
        sheet.changes.append("overlap_comm=false")
        told = "overlap_comm is false: priced without overlap of data parallelism"
        sheet.notes.append(UNSAID if said is None else told)


KEPT_IN_MEMORY: Final = 1_000_000_000
"""Weights of a rank that stay in host memory beside its disk: DeepSpeed's own ``max_in_cpu``. [element]"""


def _offload(sheet: Sheet) -> None:
    section = "zero_optimization.offload_"
    known = say_offload(sheet, f"{section}optimizer.device", f"{section}param.device")
    share = sheet.take(f"{section}optimizer.ratio")
    if known:
        sheet.seen.update(key for key in sheet.values if key.startswith(f"{section}param"))
    kept = sheet.values.get(f"{section}param.max_in_cpu", KEPT_IN_MEMORY)
    if sheet.values.get(f"{section}param.device") == "nvme" and kept != 0:
        sheet.notes.append(
            f"{section}param.max_in_cpu {kept}: weights are priced as all on disk; so many of a rank stay "
            "in host memory: --offload weights-optimizer-nvme, or weights, where a rank has no more"
        )
    if share in (None, 1, 1.0):
        return
    key, size = f"{section}optimizer.ratio", sheet.values.get("zero_optimization.sub_group_size")
    if sheet.options.get("offload") != "optimizer":
        sheet.notes.append(f"{key} {share} with offload {sheet.options.get('offload')}: priced as all of it")
        return
    sheet.say("offload", shared_offload("optimizer", share), key)
    if not isinstance(size, int | float) or size >= WHOLE_GROUP:
        sheet.notes.append(
            f"{key} {share}: whole groups of sub_group_size ({WHOLE_GROUP:,} by default) parameters count, "
            "so that a rank with one group steps it on the host whatever the ratio"
        )


def say_offload(sheet: Sheet, states: str, weights: str) -> bool:
    """Say where two keys put optimizer states and weights; return whether some offload has both there.

    Where none has, the key of the weights is left over, and told.
    """
    devices = [str(sheet.values.get(key) or "none").replace("auto", "none") for key in (states, weights)]
    name = offload_named(*devices)
    sheet.seen.add(states)
    if name is None:
        return False
    sheet.seen.add(weights)
    if name != "none":
        sheet.say("offload", name, states, weights)
    return True


def _zeropp(sheet: Sheet) -> None:
    """Say what of ZeRO++ is on; below ZeRO-3 its keys do nothing."""
    if sheet.options.get("zero") != "3":
        return
    names = [trait for trait, key in SWITCHES.items() if sheet.has(key.path)]
    sheet.changes += [f"{name}=true" for name in names]
    shards = sheet.whole(SECONDARY.path)
    if shards and shards > 1:
        sheet.changes.append("secondary_shards=true")
        sheet.notes.append(f"{SECONDARY.name} {shards}: priced as the ranks of a node")


def _sizes(sheet: Sheet) -> None:
    """Say the sizes of buffers that are not DeepSpeed's own; ZeRO-3 alone has all but the first."""
    third = sheet.options.get("zero") == "3"
    for trait, key in SIZES.items():
        size = sheet.values.get(key.path)
        if not isinstance(size, int | float) or isinstance(size, bool) or not 0 < size < 1e15:
            continue
        if size != ELEMENTS[trait] and (third or trait == "bucket_elements"):
            sheet.changes.append(f"{trait}={word(float(size))}")


def _degrees(sheet: Sheet) -> None:
    tensor, sequence, expert = (OPTIONS[name].path for name in ("tp", "cp", "ep"))
    sheet.say("tp", sheet.whole(tensor), tensor)
    ranks = sheet.degree(sequence)
    if ranks and ranks > 1:
        sheet.say("cp", ranks, sequence)
        sheet.say("cp_method", "all-to-all", sequence)
    experts = sheet.degree(expert)
    inner = sheet.degree("expert_parallel.expert_tensor_parallel_size")
    if sheet.has(EXPERTS):
        sheet.say("ep", experts, expert)
        sheet.say("etp", inner, "expert_parallel.expert_tensor_parallel_size")


def _foreign_degrees(sheet: Sheet) -> None:
    """Make faults of degrees in other programs' words, such as GPT-NeoX's: they decide the layout."""
    for key, value in sheet.values.items():
        match = FOREIGN.fullmatch(key)
        if match and key not in sheet.seen and value not in (None, 0, 1, "1"):
            option = "pp" if match[1].startswith("pipe") else "tp"
            sheet.instead[key] = option
            sheet.fault(key, str(value)[:40], f"no degree of another program's file: --{option} N says it")


FOREIGN: Final = re.compile(r"(pipe|pipeline|model|tensor)[-_](?:model[-_])?parallel[-_](?:size|degree)")


def _kinds(sheet: Sheet) -> None:
    half, brain = sheet.has(PRECISIONS["fp16"]), sheet.has(PRECISIONS["bf16"], "bfloat16.enabled")
    precision = "bf16" if brain else "fp16" if half else "fp32"
    said = "auto" in map(sheet.values.get, PRECISIONS.values())
    sheet.say("precision", None if said else precision, *PRECISIONS.values())
    gradient = sheet.take(OPTIONS["gradient_dtype"].path)
    if gradient not in (None, precision):
        sheet.say("gradient_dtype", gradient, OPTIONS["gradient_dtype"].path)
    if precision != "fp32" and not said:
        sheet.changes += reduced_in(sheet.take(REDUCED.path), precision)
    kind = sheet.take("optimizer.type")
    if kind is not None:
        sheet.say("optimizer", OPTIMIZERS.get(str(kind).lower(), str(kind).lower()), "optimizer.type")
    if sheet.take(HOST_CHECKPOINTS.path) is True:
        sheet.changes.append("host_checkpoints=true")
    section = [key for key in sheet.values if key.startswith("activation_checkpointing.")]
    if section:
        sheet.seen.update(section)
        sheet.notes.append(
            "activation_checkpointing tunes it; whether layers are recomputed says --recompute"
        )


def _script(sheet: Sheet, settings: Mapping[str, Any]) -> None:
    """Say what the training script beside the JSON decides."""
    sheet.say("seq_len", settings.get("SEQ_LEN"))
    sheet.changes += script_changes(settings)
    sheet.changes += [
        f"{trait}={settings[name]}" for name, trait in TILES.items() if settings.get(name, 1) != 1
    ]
    if settings.get("RECOMPUTE"):
        sheet.say("recompute", "full")
    stages = settings.get("STAGE_LAYERS")
    if isinstance(stages, tuple | list) and len(stages) > 1:
        sheet.say("pp", len(stages))
        sheet.say("stage_layers", ",".join(map(str, stages)))
    elif any(key.startswith("pipeline.") for key in sheet.values) and stages is None:
        sheet.notes.append("a pipeline section: how many stages there are says the script, or --pp")
    say_own_adapters(sheet, settings)


def fits(source: Source) -> bool:
    """Return whether a JSON has one of the keys that DeepSpeed asks for."""
    return bool(
        {"zero_optimization", "train_micro_batch_size_per_gpu", "train_batch_size"} & set(source.tree)
    )


def read(source: Source) -> Imported:
    """Return what a JSON says, with the command that starts it and the constants of its training script."""
    found = from_json(source.tree, literals(beside(source.path, "train.py")), source.where)
    if not {"train_batch_size", "train_micro_batch_size_per_gpu"} & set(source.tree):
        key = "train_micro_batch_size_per_gpu"
        fault = Problem(f"{source.path}: {key}", "nothing", "it, train_batch_size, or --micro-batch")
        found = replace(found, faults=(*found.faults, ("micro_batch", fault)))
    elif {"train_batch_size", "gradient_accumulation_steps"}.isdisjoint(source.tree):
        found = replace(found, options={"accumulation": "1", **found.options})
    if source.starter is not None:
        found = replace(found, notes=(*found.notes, *unread_arguments(source.starter.flags)))
    return with_config(deepspeed_world(started(found, source.starter), source.where), source.path)


ENTRY: Final = FileFormat("a DeepSpeed .json", (".json",), fits, read)
