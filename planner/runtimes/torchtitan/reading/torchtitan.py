"""A torchtitan TOML, or its newer command line, as the options of a plan."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from planner.dataclasses import replace
from planner.inputs.load import load_model
from planner.runtimes.imports.file_format import FileFormat, Source, beside
from planner.runtimes.imports.literals import flat, literals
from planner.runtimes.imports.model import with_record
from planner.runtimes.imports.sheet import Imported, Sheet
from planner.runtimes.torchtitan.reading.titan_flavors import flavored
from planner.runtimes.torchtitan.reading.titan_schema import check_tokens, check_values
from planner.runtimes.torchtitan.reading.torchtitan_module import module_record
from planner.runtimes.torchtitan.reading.torchtitan_sums import torchtitan_sums
from planner.runtimes.torchtitan.schedules import ASYNC_EXPOSED, SCHEDULES
from planner.runtimes.torchtitan.table import DEGREES, REPLICAS, SHARDS
from planner.units import is_whole

OURS: Final = {entry.name.lower(): name for name, entry in SCHEDULES.items()}
METHODS: Final = {"allgather": "all-gather", "alltoall": "ring"}
ZOO: Final = {
    ("llama2", "7b"): "llama2-7b", ("llama2", "13b"): "llama2-13b", ("llama2", "70b"): "llama2-70b",
    ("llama3", "8b"): "llama3-8b", ("llama3", "70b"): "llama3-70b", ("llama3", "405b"): "llama3.1-405b",
    ("deepseek_v3", "671b"): "deepseek-v3", ("qwen3", "8b"): "qwen3-8b", ("qwen3", "32b"): "qwen3-32b",
    ("qwen3", "30b-a3b"): "qwen3-30b-a3b", ("qwen3", "235b-a22b"): "qwen3-235b-a22b",
    ("deepseek_v3", "16b"): "deepseek-v2-lite", ("llama4", "17bx16e"): "llama4-scout",
    ("llama4", "17bx128e"): "llama4-maverick", ("qwen3", "0.6b"): "qwen3-0.6b",
    ("qwen3", "1.7b"): "qwen3-1.7b", ("qwen3", "4b"): "qwen3-4b", ("qwen3", "14b"): "qwen3-14b",
    ("gpt_oss", "20b"): "gpt-oss-20b", ("gpt_oss", "120b"): "gpt-oss-120b",
}  # fmt: skip
"""torchtitan's families and flavors that the zoo has."""

WITHOUT_EFFECT: Final = re.compile(
    r"(?:job|profiling|profiler|metrics|checkpoint|lr_scheduler|comm|experimental|validation|fault_tolerance"
    r"|debug|memory_estimation|dataloader|quantize|float8|mx|flux_dataloader|encoder)\..*"
    r"|optimizer\.(?!name).*|model\.(?:hf_assets_path|tokenizer_path|print_after_conversion|norm_type)"
    r"|hf_assets_path|training\.(?:warmup_steps|data_parallel_type|fp8_linear|gc_freq)"
    r"|dump_folder|module|config|loss\..*|activation_checkpoint\.(?!mode|selective).*"
    r"|training\.no_disable_cuda_graphs|training\.(?:dataset|dataset_path|max_norm|steps|seed|deterministic|gc_.*|img_size|classifier_free_guidance_prob|test_mode|mixed_precision_reduce"
    r"|disable_cuda_graphs)"
    r"|parallelism\.(?:context_parallel_load_balancer|disable_loss_parallel)"
    r"|compile\.components"
)
"""Keys that decide neither layout nor shape."""

P: Final = "parallelism."
TOML_RELEASE: Final = "0.2.2"
"""The last release whose job configs are TOML."""

MOVED: Final = {
    "training.compile": "compile.enable",
    "training.data_parallel_degree": f"{P}{SHARDS}",
    "experimental.enable_async_tensor_parallel": f"{P}enable_async_tensor_parallel",
    **{
        f"{section}.{name}": f"{P}{name}"
        for section in ("training", "experimental")
        for name in (
            *(REPLICAS, SHARDS, *(DEGREES[option] for option in ("tp", "cp", "pp"))),
            *("pipeline_parallel_schedule", "fsdp_reshard_after_forward", "context_parallel_rotate_method"),
        )
    },
}
"""Keys of job configs of 2024 to those of today; a fork that has them: eminorhan/frontier-torchtitan."""

USUAL: Final[Mapping[str, Any]] = {
    "training.seq_len": 2048, "training.local_batch_size": 8, "compile.enable": False,
    "activation_checkpoint.mode": "selective", "activation_checkpoint.selective_ac_option": "2",
}  # fmt: skip
"""What a job config leaves to torchtitan and a price rests on (0.2.2, torchtitan/config/job_config.py; the
same in releases of 2024, torchtitan/config_manager.py)."""

TOLD: Final = {
    "training.seq_len": "2,048 tokens",
    "training.local_batch_size": "8 sequences of a rank",
    "activation_checkpoint.mode": "selective",
}
"""How a note says those of them that decide most."""


def from_toml(tree: Mapping[str, Any], gpus: int | None, where: str, layers: int | None = None) -> Imported:
    """Return what the job config of a release up to 0.2.2 says, of a model of its own with its layers.

    Raises `InputError` with every fault of the file.
    """
    values = flat(tree)
    old = {key: new for key, new in MOVED.items() if key in values and new not in values}
    sheet = Sheet(where, _with_usual({old.get(key, key): value for key, value in values.items()}))
    told = [f"no {key}: {text}" for key, text in TOLD.items() if key not in values and key in sheet.values]
    sheet.notes += [f"{', '.join(told)}, torchtitan's own"] if told else []
    if degrees := [key for key in old if key.endswith("degree")]:
        sheet.notes.append(f"{', '.join(degrees)}: of releases of 2024, read as those of {P[:-1]}")
    sheet.say("gpus", gpus)
    name, flavor = sheet.take("model.name"), sheet.take("model.flavor")
    sheet.copy("seq_len", "training.seq_len")
    local, batch = (
        sheet.whole("training.local_batch_size", "training.batch_size"),
        sheet.whole("training.global_batch_size"),
    )
    mesh(sheet, gpus)
    piece = sheet.whole(f"{P}pipeline_parallel_microbatch_size")
    piped = sheet.options.get("pp", "1") != "1"
    sheet.say(
        "micro_batch",
        (piece or 1) if piped else local,
        f"{P}pipeline_parallel_microbatch_size",
        "training.local_batch_size",
    )
    if batch is not None and batch > 0:
        sheet.say("global_batch", batch, "training.global_batch_size")
    elif local is not None:
        sheet.say("accumulation", local // (piece or 1) if piped else 1, "training.local_batch_size")
    stages(sheet, sheet.take(f"{P}module_fqns_per_model_part"))
    if int(sheet.options["tp"]) > 1:
        sheet.say("sequence_parallel", "true", f"{P}{DEGREES['tp']}")
    rest(sheet, sheet.take("activation_checkpoint.mode"))
    option = sheet.take("activation_checkpoint.selective_ac_option")
    known = ZOO.get((str(name).lower(), str(flavor).lower()))
    if option not in (None, "op") and sheet.options.get("recompute") == "selective":
        layers = load_model(known).num_layers if known else layers
        _every_nth(sheet, str(option), layers)
    return done(sheet, known)


def _with_usual(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys with torchtitan's own values for those that a job config leaves out."""
    named = "training.batch_size" in values
    return {key: value for key, value in USUAL.items() if not (named and key.endswith("batch_size"))} | {
        key: value for key, value in values.items() if value is not None
    }


def overriding(tree: Mapping[str, Any], flags: Mapping[str, str]) -> dict[str, Any]:
    """Return a job config with the arguments of the command that go before it.

    Examples
    --------
    >>> overriding({"training": {"steps": 5}}, {"--training.seq-len": "4096", "--compile.enable": ""})
    {'training': {'steps': 5, 'seq_len': 4096}, 'compile': {'enable': True}}
    """
    merged = {key: dict(value) if isinstance(value, Mapping) else value for key, value in tree.items()}
    for flag, text in flags.items():
        section, dot, name = flag.lstrip("-").replace("-", "_").partition(".")
        if not flag.startswith("--") or (section, name) == ("job", "config_file"):
            continue
        value = _typed(text)
        if dot and name.startswith("no_") and value is True:
            name, value = name.removeprefix("no_"), False
        if not dot:
            merged.setdefault(section, value)
        elif isinstance(merged.setdefault(section, {}), dict):
            merged[section][name] = value.split(",") if name == "converters" else value
    return merged


def _typed(text: str) -> Any:
    """Return the value of an argument: a whole number, true or false, else its text."""
    words = {"": True, "true": True, "false": False}
    return int(text) if is_whole(text.removeprefix("-")) else words.get(text.lower(), text)


def _every_nth(sheet: Sheet, option: str, layers: int | None) -> None:
    """Say recompute of every nth layer."""
    if layers and is_whole(option) and 0 < int(option) <= layers:
        count = layers // int(option)
        sheet.say("recompute", f"full:{count}", "activation_checkpoint.selective_ac_option")
    else:
        sheet.notes.append(f"selective_ac_option {option}: priced as selective by operator")


def mesh(sheet: Sheet, gpus: int | None) -> None:
    """Say the degrees, with what is left of the accelerators for the shards."""
    said = {option: sheet.whole(f"{P}{DEGREES[option]}") for option in ("tp", "cp", "pp", "ep")}
    degrees = {option: 1 if degree is None else degree for option, degree in said.items()}
    for option, degree in degrees.items():
        sheet.say(option, degree, f"{P}{DEGREES[option]}")
    inner = f"{P}{DEGREES['etp']}"
    sheet.say("etp", sheet.whole(inner), inner)
    copies = sheet.whole(f"{P}{REPLICAS}") or 1
    shard = sheet.whole(f"{P}{SHARDS}")
    others = degrees["tp"] * degrees["cp"] * degrees["pp"] * copies
    if shard is None or shard < 0:
        shard = gpus // others if gpus and others > 0 and gpus % others == 0 else None
    again = str(sheet.take(f"{P}fsdp_reshard_after_forward") or "default")
    never = again == "never" or (again == "default" and degrees["pp"] > 1)
    key = f"{P}{SHARDS}"
    if shard is not None:
        sheet.say("dp", shard * copies, key)
        shards = shard * degrees["cp"]
        sheet.say("zero", 2 if never else 3 if shards > 1 else 0, f"{P}fsdp_reshard_after_forward", key)
        if never or shards > 1:
            sheet.say("zero_shards", shards, key)
    else:
        sheet.say("zero", 2 if never else 3, f"{P}fsdp_reshard_after_forward", key)
    method = sheet.take(f"{P}context_parallel_rotate_method")
    if degrees["cp"] > 1:
        sheet.say(
            "cp_method", METHODS.get(str(method or "allgather"), method), f"{P}context_parallel_rotate_method"
        )


def stages(sheet: Sheet, parts: Any) -> None:
    """Say the schedule, its micro-batches and the layers of each virtual stage."""
    schedule = sheet.take(f"{P}pipeline_parallel_schedule")
    pp = int(sheet.options.get("pp", "1"))
    if pp <= 1:
        return
    name = str(schedule or "1F1B")
    known = OURS.get(name.lower().removeprefix("schedule"))
    sheet.say("schedule", known or name, f"{P}pipeline_parallel_schedule")
    if isinstance(parts, Sequence) and not isinstance(parts, str) and len(parts) > 1:
        split = [sum(str(module).startswith("layers.") for module in part) for part in parts]
        sheet.say("vpp", max(1, len(split) // pp))
        sheet.say("stage_layers", ",".join(map(str, split)), f"{P}module_fqns_per_model_part")
    elif known is not None and SCHEDULES[known].least_chunks > 1:
        sheet.say("vpp", 2, f"{P}pipeline_parallel_schedule")
        sheet.notes.append(f"{name} without named stages: two on each rank, as torchtitan cuts them")


def rest(sheet: Sheet, mode: Any) -> None:
    """Say recompute, optimizer, precision and what else decides a price."""
    sheet.say("recompute", mode or "none", "activation_checkpoint.mode")
    kind = sheet.take("optimizer.name")
    sheet.say("optimizer", str(kind).lower() if kind is not None else None, "optimizer.name")
    number = str(sheet.take("training.mixed_precision_param") or "bfloat16")
    precision = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}.get(number, number)
    converters = sheet.take("model.converters") or []
    low = {"float8": "fp8", "quantize.linear.float8": "fp8", "mx": "mxfp8", "quantize.linear.mx": "mxfp8"}
    for converter in converters if isinstance(converters, list) else [converters]:
        precision = low.get(str(converter), precision)
    if sheet.has("float8.enable_float8_linear", "training.enable_float8_linear"):
        precision = "fp8"
    sheet.say("precision", precision, "model.converters", "training.mixed_precision_param")
    if str(sheet.take("training.dtype") or "float32") == "bfloat16":
        for kind in ("state", "master", "gradient"):
            sheet.say(f"{kind}_dtype", "bf16", "training.dtype")
    recipe = sheet.take("quantize.linear.float8.recipe_name", "float8.recipe_name")
    if precision == "fp8" and str(recipe or "tensorwise") == "tensorwise":
        sheet.changes.append("float8_scales=tensor")
    whole = f"{P}enable_async_tensor_parallel"
    if sheet.has(whole) or sheet.has("compile.enable_async_tensor_parallel"):
        sheet.changes.append(f"tp_exposed={ASYNC_EXPOSED}")
    if str(sheet.take(f"{P}expert_parallel_comm_backend")) in ("deepep", "hybridep"):
        sheet.changes.append("dispatcher=fused")
    enabled, off = sheet.take("compile.enable"), sheet.has("compile.no_enable")
    splits = sheet.options.get("schedule") in {
        name for name, entry in SCHEDULES.items() if entry.splits_backward
    }
    exact = sheet.has("debug.deterministic", "training.deterministic")
    switched = {"compiled=false": (enabled is False or off) and not splits, "deterministic=true": exact}
    sheet.changes += [change for change, wanted in switched.items() if wanted]
    if sheet.has("training.enable_cpu_offload"):
        sheet.say("offload", "weights", "training.enable_cpu_offload")


def done(sheet: Sheet, known: str | None) -> Imported:
    """Check the values and sums of a sheet, and return what it says."""
    check_values(sheet)
    tp, cp = (int(sheet.options.get(name, "1")) for name in ("tp", "cp"))
    check_tokens(sheet, tp, cp, sheet.options.get("sequence_parallel") == "true")
    torchtitan_sums(sheet)
    sheet.ignore(WITHOUT_EFFECT)
    return sheet.imported("torchtitan", model_name=known)


def plain(found: Imported) -> Imported:
    """Return what was found, with a model of the zoo less the prediction layers that torchtitan lacks."""
    model = load_model(found.model_name) if found.model_name else None
    if model is None or model.prediction is None:
        return found
    bare = model.model_copy(update={"prediction": None, "aliases": ()})
    return replace(found, model=bare, model_name=None)


def split_experts(found: Imported) -> Imported:
    """Return what was found, with experts that tensor parallelism splits where no expert parallelism does.

    torchtitan 0.2, models/llama4/infra/parallelize.py, ``apply_moe_ep_tp``: without a mesh of experts that of
    tensor parallelism shards them, whatever ``expert_tensor_parallel_degree`` says.
    """
    tp, ep, within = (found.options.get(name, "1") for name in ("tp", "ep", "etp"))
    model = found.model or (load_model(found.model_name) if found.model_name else None)
    if model is None or not model.expert_kinds or (ep, within) != ("1", "1") or tp == "1":
        return found
    key = f"{P}{DEGREES['etp']}"
    return replace(found, options={**found.options, "etp": tp}, places={**found.places, "etp": key})


def read(source: Source) -> Imported:
    """Return what a job config says, with the model that its own module registers."""
    custom = source.tree.get("experimental", {})
    module = custom.get("custom_import", "") if isinstance(custom, Mapping) else ""
    started = source.starter.flags if source.starter and source.starter.kind == "torchtitan" else {}
    tree, known = flavored(overriding(source.tree, started))
    record = module_record(literals(beside(source.path, f"{module}.py")).get("MODEL")) or known
    order = record.get("layers") if record is not None else None
    layers = len(order) if isinstance(order, list) else None
    found = from_toml(tree, source.starter.gpus if source.starter else None, source.where, layers)
    whole = (*found.changes, "loss_chunks=1")  # these releases have the loss in one part
    found = plain(replace(found, changes=whole))
    old = found.options.get("cp_method") == "ring" or found.options.get("recompute", "").startswith("full:")
    if old or "float8_scales=tensor" in found.changes:  # the newest release has none, and reads no TOML
        found = replace(found, runtime=f"torchtitan@{TOML_RELEASE}")
    if found.model_name is not None or known:  # what torchtitan registers by itself is in torchtitan
        found = replace(found, lifted=(*found.lifted, "model-in-torchtitan"))
    found = split_experts(with_record(found, record, source.path, "MODEL"))
    if found.model is None and found.model_name is None:
        model = tree.get("model")
        words = [str(model.get(key)) for key in ("name", "flavor")] if isinstance(model, Mapping) else []
        note = (
            f"{' '.join(words) or 'nothing'} in model, which no registry that is known has; name it as MODEL"
        )
        found = replace(found, notes=(*found.notes, note))
    return found


TABLES: Final = frozenset(
    {"job", "training", "parallelism", "activation_checkpoint", "experimental", "model"}
)
"""Tables of which a job config has one."""


def is_one(source: Source) -> bool:
    """Return whether a file has a table of a job config."""
    return not TABLES.isdisjoint(source.tree) and "build-system" not in source.tree


ENTRY: Final = FileFormat("a torchtitan .toml", (".toml",), is_one, read)
