"""How Hugging Face's Trainer is laid out: by a DeepSpeed file, by FSDP, by the launcher, or as plain DDP."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from planner.dataclasses import dataclass, field, replace
from planner.errors import Problem
from planner.inputs.yaml_file import parse_yaml, read_json, read_text
from planner.runtimes.deepspeed.reading import deepspeed
from planner.runtimes.deepspeed.reading.deepspeed_sums import deepspeed_world
from planner.runtimes.fsdp.reading import accelerate
from planner.runtimes.fsdp.reading.accelerate_sums import FLAT
from planner.runtimes.fsdp.reading.wrapping import WHOLE, WRAPPED
from planner.runtimes.imports.passed_over import tell
from planner.runtimes.imports.places import find_beside
from planner.runtimes.imports.sheet import Imported, Sheet
from planner.runtimes.libraries.reading import trainer
from planner.runtimes.megatron_lm.reading.megatron_names import known_model

PRESET: Final = re.compile(
    r"(?:default-)?(?:deepspeed_|ds_)?z(?:ero)?_?([0-3])(?:_bf16)?(?:_((?:cpu)?offload(?:_all|_params)?))?(?:_config)?"
)
"""Names of the DeepSpeed files that LLaMA-Factory, Axolotl, ms-swift, xtuner and TRL ship: ``zero2``,
``ds_z3_offload_config``, ``deepspeed_zero3_offload``, ``zero3_bf16_cpuoffload_params``."""

WORDS: Final = {
    "full_shard": 3,
    "shard_grad_op": 2,
    "hybrid_shard": 3,
    "hybrid_shard_zero2": 2,
    "no_shard": 0,
}
"""Words of ``--fsdp`` (transformers/training_args.py) and the ZeRO stage of each."""

PROCESSES: Final = "number of processes"
LAYOUT: Final = "layout"
AUTO: Final = "left to the trainer (auto)"
SHARED: Final = ("micro_batch", "accumulation", "precision")
"""What both the Trainer's arguments and a DeepSpeed file may say; the Trainer starts only if they agree."""


@dataclass(frozen=True)
class TrainerLaunch:
    """On what a training starts."""

    gpus: int | None = None
    """Accelerators in all."""
    config: Path | None = None
    """An Accelerate YAML."""
    flags: Mapping[str, str] = field(default_factory=dict)
    """Arguments of the launcher."""
    open: bool = False
    """Whether a launcher that nobody knows may lay it out: the file alone does not say."""
    spread: bool = False
    """Whether each process has several devices, over which its layers are spread."""
    missing: str = ""
    """The name of an Accelerate YAML that is not there."""


OF_OUR_FILES: Final = (
    *("optimizer-offered", "precision-offered", "model-in-transformers"),
    *("state-dtype-offered", "master-dtype-offered", "gradient-dtype-offered"),
    *("cp-method-offered", "method-offered", "adapted-layers-are-named"),
)
"""Rules that say what the planner's own script has; libraries have more (transformers, training_args.py)."""


def laid_out(
    sheet: Sheet, tree: Mapping[str, Any], path: Path, launch: TrainerLaunch, model: str | None
) -> Imported:
    """Return what the arguments on the sheet say, with the layout that they or the launcher name."""
    given = tree.get("deepspeed")
    sheet.instead["deepspeed"] = "zero"
    sheet.seen.update(("deepspeed", "fsdp", "cut_cross_entropy"))
    trainer.kernels(sheet)
    runtime, inner = "fsdp", None
    if given not in (None, "", "none", False):
        sheet.seen.update(key for key in sheet.values if key.split(".")[0] == "deepspeed")
        inner, runtime = _deepspeed(sheet, given, path), "deepspeed"
        inner = None if inner is None else _sized(inner, model)
    elif _fsdp_asked(sheet):
        _fsdp_file(sheet, path)
        _fsdp(sheet)
    elif launch.config is not None:
        inner = _accelerated(launch.config)
        runtime = inner.runtime
    elif launch.missing:
        sheet.instead[LAYOUT] = "zero"
        expected = f"an Accelerate YAML, found from the folders above {path.name}; or --zero N"
        sheet.fault(LAYOUT, f"{launch.missing[:120]}, which is not there", expected)
    elif launch.open:
        sheet.instead[LAYOUT] = "zero"
        sheet.fault(
            LAYOUT, "nothing", "the launch script, which names deepspeed or an Accelerate YAML; or --zero N"
        )
    elif named := launch.flags.get("--deepspeed_config_file", launch.flags.get("--deepspeed-config-file")):
        inner, runtime = _deepspeed(sheet, named, path), "deepspeed"
    elif not _launched(sheet, launch.flags):
        sheet.say("zero", 0)
        sheet.notes.append("neither deepspeed nor fsdp: each process has the whole model (DDP)")
    else:
        runtime = "deepspeed" if "--use_deepspeed" in launch.flags else "fsdp"
    inner = _numbers(sheet, inner, launch)
    workers = sheet.whole("ray_num_workers")
    sheet.say("gpus", workers if launch.gpus is None else launch.gpus, "ray_num_workers")
    said = "gpus" in sheet.options or (inner is not None and "gpus" in inner.options)
    if not said:
        sheet.fault(PROCESSES, "nothing", "how many accelerators start it: --gpus N")
        sheet.instead[PROCESSES] = "gpus"
    found = replace(sheet.imported(runtime, model_name=model), lifted=OF_OUR_FILES)
    return found if inner is None else deepspeed_world(_joined(found, inner, str(path)), str(path))


def _numbers(sheet: Sheet, inner: Imported | None, launch: TrainerLaunch) -> Imported | None:
    """Say the launcher's numbers where the arguments leave them open; else Accelerate's give way to theirs.

    transformers/training_args.py: ``fp16`` and ``bf16`` set ACCELERATE_MIXED_PRECISION, over what the
    launcher set.
    """
    theirs = inner.options.get("precision") if inner else None
    theirs = theirs or launch.flags.get("--mixed_precision", launch.flags.get("--mixed-precision"))
    if sheet.places.get("precision") == trainer.UNSAID and theirs in ("bf16", "fp16", "fp8"):
        sheet.say("precision", theirs, "--mixed_precision")
    if inner is None or inner.runtime != "fsdp":
        return inner
    return replace(inner, options={key: value for key, value in inner.options.items() if key != "precision"})


def _joined(found: Imported, inner: Imported, where: str) -> Imported:
    """Return the arguments with what the file that they name says of the layout."""
    ours = dict(found.options)
    faults = list(found.faults)
    for name in SHARED:
        theirs = inner.options.get(name)
        unsaid = name == "precision" and theirs == "fp32"
        if theirs is not None and name in ours and theirs != ours[name] and not unsaid:
            place = inner.places.get(name, name)
            expected = f"{ours[name]}, as the arguments say, or auto"
            faults.append((name, Problem(f"{where}: {place}", theirs, expected)))
    full = "full" in (ours.get("recompute"), inner.options.get("recompute"))
    options = dict(inner.options) | ours | ({"recompute": "full"} if full else {})
    left = [key for key in inner.unknown if "offload_param" not in key]
    if len(left) < len(inner.unknown):
        expected = (
            "weights on the device: weights in host memory are not priced; --offload optimizer without them"
        )
        faults.append(("offload", Problem(f"{where}: offload_param", "weights in host memory", expected)))
    return replace(
        found,
        options=options,
        places={**inner.places, **found.places},
        changes=(*inner.changes, *found.changes),
        unknown=(*found.unknown, *left),
        notes=(*found.notes, *inner.notes),
        faults=(*faults, *inner.faults),
    )


def _sized(inner: Imported, model: str | None) -> Imported:
    """Return a DeepSpeed file with the buffers that the Trainer gives it where it has ``auto``.

    The hidden size squared, and nine tenths of it. [element] Source: transformers/integrations/deepspeed.py,
    ``trainer_config_finalize``.
    """
    auto = " ".join(note for note in inner.notes if note.startswith(AUTO))
    notes = tuple(note for note in inner.notes if not note.startswith(AUTO))
    known = known_model(model)
    sizes: list[str] = []
    if known is not None and "zero_optimization.reduce_bucket_size" in auto:
        sizes.append(f"bucket_elements={known.hidden**2}")
    if known is not None and "stage3_prefetch_bucket_size" in auto and inner.options.get("zero") == "3":
        sizes.append(f"prefetch_elements={int(0.9 * known.hidden**2)}")
    return replace(inner, notes=notes, changes=(*inner.changes, *sizes))


def _deepspeed(sheet: Sheet, given: object, path: Path) -> Imported | None:
    """Return what a DeepSpeed section, file or preset says."""
    if isinstance(given, Mapping):
        return deepspeed.from_json(given, {}, str(path))
    name = str(given)
    file = find_beside(Path(name), path)
    if file is not None:
        sheet.notes.append(f"deepspeed: read {file}")
        return deepspeed.from_json(read_json(file), {}, str(file))
    preset = PRESET.fullmatch(Path(name).stem)
    if preset is None:
        expected = f"a DeepSpeed JSON, found from the folders above {path.name}; or --zero N"
        sheet.fault("deepspeed", repr(name[:120]), expected)
        return None
    sheet.notes.append(
        f"deepspeed: {name} by its name: ZeRO {preset[1]}" + (" with offload" if preset[2] else "")
    )
    section = _preset(int(preset[1]), preset[2] or "", UNLAPPED.fullmatch(Path(name).name) is None)
    return deepspeed.from_json({"zero_optimization": section}, {}, str(path))


UNLAPPED: Final = re.compile(r"ds_z.*|zero[0-3](?:_offload)?")
"""Names of LLaMA-Factory's and ms-swift's files, which leave communication without overlap."""


def _preset(stage: int, hosted: str, overlap: bool) -> dict[str, Any]:
    """Return the section of a file that a library ships, by what its name says of it."""
    section: dict[str, Any] = {"stage": stage, "overlap_comm": overlap}
    if hosted and not hosted.endswith("_params"):
        section["offload_optimizer"] = {"device": "cpu"}
    if hosted and stage == 3:
        section["offload_param"] = {"device": "cpu"}
    return section


def _fsdp_asked(sheet: Sheet) -> bool:
    value = sheet.values.get("fsdp")
    asked = value not in (None, "", [], False) and str(value).lower() not in ("false", "none")
    return asked or any(key.startswith("fsdp_config.") for key in sheet.values)


def _fsdp_file(sheet: Sheet, path: Path) -> None:
    """Add what the JSON says that ``fsdp_config`` names; one that is not there is a fault."""
    named = sheet.take("fsdp_config")
    if not isinstance(named, str):
        return
    file = find_beside(Path(named), path)
    if file is None:
        sheet.instead["fsdp_config"] = "zero"
        expected = f"a JSON found from the folders above {path.name}; or --zero N"
        sheet.fault("fsdp_config", repr(named[:120]), expected)
        return
    sheet.values = {**sheet.values, **{f"fsdp_config.{key}": value for key, value in read_json(file).items()}}
    sheet.notes.append(f"fsdp_config: read {file}")


def _of(sheet: Sheet, name: str) -> tuple[Any, str]:
    """Return a value of FSDP's section and its key, with or without the prefix that older files have."""
    keys = (f"fsdp_config.{name}", f"fsdp_config.fsdp_{name}", f"fsdp_{name}")
    return sheet.take(*keys), next((key for key in keys if key in sheet.values), keys[0])


def _fsdp(sheet: Sheet) -> None:
    value = sheet.take("fsdp")
    words = [str(word).lower() for word in (value if isinstance(value, list) else str(value or "").split())]
    strategy, key = _of(sheet, "sharding_strategy")
    again, again_key = _of(sheet, "reshard_after_forward")
    named = (
        str(strategy).lower()
        if strategy is not None
        else next((word for word in words if word in WORDS), "full_shard")
    )
    numbered = accelerate.STRATEGIES.get(named.upper())
    stage = {"true": "3", "false": "2"}.get(str(again).lower(), None if again is None else str(again))
    if strategy is None and stage is not None and stage not in ("2", "3"):
        stage = accelerate.STRATEGIES.get(stage.upper(), stage)
    sheet.say(
        "zero",
        stage if stage in ("2", "3") and not named.startswith("no") else numbered or named,
        key,
        again_key,
    )
    version, _ = _of(sheet, "version")
    sheet.changes += FLAT if str(version) == "1" else ()
    if named.startswith("hybrid"):
        sheet.notes.append(f"{named}: shards over a node; say how many with --zero-shards")
    hosted, place = _of(sheet, "offload_params")
    if hosted is None:
        hosted, place = _of(sheet, "cpu_offload")
    if "offload" in words or str(hosted).lower() == "true":
        sheet.say("offload", "weights", place if hosted is not None else "fsdp")
    again_all, place = _of(sheet, "activation_checkpointing")
    if str(again_all).lower() == "true":
        sheet.say("recompute", "full", place)
    wrapped = any(
        key.endswith(("auto_wrap_policy", "layer_cls_to_wrap", "min_num_params")) for key in sheet.values
    )
    if words and "auto_wrap" not in words and not wrapped:
        sheet.notes.append(f"fsdp without auto_wrap: {WHOLE}")
    tell(sheet, WRAPPED)
    sheet.seen.update(key for key in sheet.values if _PLAIN_FSDP.fullmatch(key))


_PLAIN_FSDP: Final = re.compile(
    r"(?:fsdp_config\.)?(?:fsdp_)?(?:version|auto_wrap_policy|transformer_layer_cls_to_wrap|min_num_params|limit_all_gathers"
    r"|state_dict_type|final_state_dict_type|cpu_ram_efficient_loading|sync_module_states|use_orig_params|xla.*"
    r"|backward_prefetch.*|forward_prefetch|cpu_offload_pin_memory)"
)
"""Keys of FSDP's section that decide neither layout nor what is kept in memory."""


def _accelerated(config: Path) -> Imported:
    """Return what the Accelerate YAML of the launcher says of the layout."""
    tree = parse_yaml(read_text(config), str(config))
    found = accelerate.from_yaml(tree, {}, {}, str(config))
    named = accelerate.config_file(tree)
    file = find_beside(Path(named), config) if named else None
    if named and file is None:
        fault = Problem(f"{config}: {accelerate.CONFIG_FILE}", named, "a DeepSpeed JSON; or --zero N")
        return replace(found, faults=(*found.faults, ("zero", fault)))
    if file is not None:
        found = accelerate.with_deepspeed(found, deepspeed.from_json(read_json(file), {}, str(file)), file)
    return replace(found, notes=(f"read {config}", *found.notes))


def _launched(sheet: Sheet, flags: Mapping[str, str]) -> bool:
    """Say the layout that flags of ``accelerate launch`` ask for; return whether they do."""
    if "--use_deepspeed" in flags:
        stage = flags.get("--zero_stage", "2")
        sheet.say("zero", stage)
        if flags.get("--offload_optimizer_device", "none") != "none":
            sheet.say("offload", "optimizer")
        return True
    if "--use_fsdp" in flags:
        name = flags.get("--fsdp_sharding_strategy", "FULL_SHARD").upper()
        again = flags.get("--fsdp_reshard_after_forward", "").lower()
        sheet.say("zero", {"false": "2"}.get(again) or accelerate.STRATEGIES.get(name, name))
        return True
    return False


def own_dtypes(found: Imported) -> dict[str, str]:
    """Return the dtypes of a model that is loaded in bf16 and trained whole, without a float32 copy."""
    options = found.options
    alone = found.runtime == "fsdp" and options.get("zero") == "0" and "method" not in options
    if not alone or options.get("precision") != "bf16":
        return {}
    kinds = trainer.own_dtypes(options)
    return {f"{kind}_dtype": "bf16" for kind in kinds if f"{kind}_dtype" not in options}


def with_own_dtypes(found: Imported) -> Imported:
    """Return what was found for a library that loads weights in bf16 and trains them so."""
    own = own_dtypes(found)
    if not own:
        return found
    note = "weights loaded in bf16 and trained so, without a float32 copy"
    return replace(found, options=dict(found.options) | own, notes=(*found.notes, note))
