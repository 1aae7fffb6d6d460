"""Words and numbers of a nanotron YAML that decide no price and that its classes would still refuse.

Read in nanotron 2411b022, src/nanotron/config/config.py and models_config.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from planner.runtimes.imports.command_line import Training
from planner.runtimes.imports.field_kinds import field_kinds, misfit
from planner.runtimes.imports.script_arguments import unread_arguments
from planner.runtimes.imports.sheet import Sheet

LEVELS: Final = ("debug", "info", "warning", "error", "critical", "passive")
WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "logging.log_level": LEVELS,
    "logging.log_level_replica": LEVELS,
    "optimizer.learning_rate_scheduler.lr_warmup_style": ("linear", "constant"),
    "optimizer.learning_rate_scheduler.lr_decay_style": ("linear", "cosine", "1-sqrt"),
}
"""nanotron, config/config.py: words that its classes take."""

_GROUPED: Final = re.compile(r"\d{1,3}(?:_\d{3}){1,4}")
MOVED: Final = ("adam_eps", "adam_beta1", "adam_beta2", "torch_adam_is_fused")
"""Keys of ``optimizer`` until nanotron 0.3, now those of its ``optimizer_factory``."""

STARTS: Final = (
    ({"std"}, {"scaling_method"}),
    ({"use_mup"}, set[str]()),
    ({"path"}, set[str]()),
)
"""nanotron, config/models_config.py: fields of each way to start weights, and those with a default."""

SCALING: Final = "model_config.rope_scaling"
UNSCALED: Final = (
    "rope_scaling: nanotron keeps the field, and none of its code reads it: positions are not scaled"
)


OWN: Final = {
    "micro_batch_size": "micro_batch", "batch_accumulation_per_replica": "global_batch",
    "sequence_length": "seq_len", "tp": "tp", "pp": "pp", "cp": "cp", "ep": "ep", "dp": "gpus",
}  # fmt: skip
"""Arguments that a training script of one's own may have, named as nanotron's keys, and the options that say
the same: nanotron's ``run_train.py`` takes none, and what another makes of them stands in its code."""


def say_start(sheet: Sheet, starter: Training) -> None:
    """Say the ranks of a node; an argument that would change what the YAML says is a fault."""
    sheet.say("ranks", starter.ranks if (starter.nodes or 1) > 1 else None)
    for flag, value in starter.flags.items():
        option = OWN.get(flag.lstrip("-").replace("-", "_"))
        if option is not None:
            word = f"--{option}".replace("_", "-")
            told = (
                f"no such argument, as for nanotron's run_train.py; {word} N for what the script makes of it"
            )
            sheet.fault(flag, repr(value[:40]), told)
            sheet.instead[flag] = option
    sheet.notes += unread_arguments(starter.flags, (flag for flag in starter.flags if _own(flag)))


def _own(flag: str) -> bool:
    return flag.lstrip("-").replace("-", "_") in OWN


def check_words(sheet: Sheet) -> None:
    """Note a fault for each value that nanotron's classes refuse."""
    _typed(sheet)
    for key, words in WORDS.items():
        value = sheet.values.get(key)
        if isinstance(value, str) and value not in words:
            sheet.fault(key, repr(value), ", ".join(words))
    asynchronous = "parallelism.tp_linear_async_communication"
    if sheet.values.get(asynchronous) is True and not _scatters(sheet):
        sheet.fault(asynchronous, "true with tp_mode ALL_REDUCE", "false, or tp_mode REDUCE_SCATTER")
    stages = sheet.values.get("data_stages")
    if isinstance(stages, list) and not any(_starts(stage) for stage in stages):
        sheet.fault("data_stages", "no stage from step 1", "a stage with start_training_step: 1")
    for stage in stages if isinstance(stages, list) else ():
        if isinstance(stage, Mapping) and not isinstance(stage.get("name"), str):
            sheet.fault("data_stages.name", _shown(stage.get("name")), "text")
        place = stage.get("data") if isinstance(stage, Mapping) else None
        data = place.get("dataset") if isinstance(place, Mapping) else None
        source = data.get("hf_dataset_or_datasets", "") if isinstance(data, Mapping) else ""
        if not isinstance(source, str | list | Mapping):
            sheet.fault("data_stages.data.dataset.hf_dataset_or_datasets", _shown(source), "text or a list")
    _initialised(sheet)


def _typed(sheet: Sheet) -> None:
    """Note a fault for each value of another kind than its field's, and for two kinds of model at once.

    A field that a section lacks is a fault where the section decides a price, and else not understood.
    """
    for key, value in sheet.values.items():
        section, _, name = key.rpartition(".")
        kind = field_kinds("nanotron_fields.txt").get(section, {}).get(name)
        if section in CLOSED and kind is None:
            sheet.fault(key, "no key of nanotron", "one that it has")
        elif kind and (wrong := misfit(kind, value)):
            sheet.fault(key, _shown(value), wrong)
    kinds = [key for key, value in sheet.values.items() if value and re.search(r"\.is_\w+_config$", key)]
    if len(kinds) > 1:
        sheet.fault(kinds[0], f"{kinds[1].rpartition('.')[2]} beside it", "one kind of model")
    if "data_stages" in sheet.values and sheet.values["data_stages"] is None:
        sheet.fault("data_stages", "nothing", "a stage with start_training_step: 1")


CLOSED: Final = ("optimizer.learning_rate_scheduler", "optimizer.optimizer_factory")
"""Sections below those that decide a price, whose keys decide none."""


def is_foreign(key: str) -> bool:
    """Return whether a key is none of a section whose keys are known."""
    section, _, name = key.rpartition(".")
    known = field_kinds("nanotron_fields.txt").get(section)
    return known is not None and name not in known


def _shown(value: object) -> str:
    return "nothing" if value is None else repr(value)


def _scatters(sheet: Sheet) -> bool:
    return str(sheet.values.get("parallelism.tp_mode") or "ALL_REDUCE").upper() == "REDUCE_SCATTER"


def _starts(stage: object) -> bool:
    """Whether a stage of data starts with the run."""
    return isinstance(stage, Mapping) and stage.get("start_training_step") == 1


def _initialised(sheet: Sheet) -> None:
    """Check that weights start in one of nanotron's three ways: at random, by mup, or from a checkpoint."""
    place = "model.init_method"
    said = {key.partition(f"{place}.")[2] for key in sheet.values if key.startswith(f"{place}.")}
    if sum(way <= said <= way | more for way, more in STARTS) != 1:
        found = ", ".join(sorted(said)) or "nothing"
        sheet.fault(place, found, "std, use_mup or path, and one of them")


def modern(tree: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return a YAML of a release before 0.4 as the newest has it, and what to note of it.

    Until then Adam's numbers stood in ``optimizer`` itself, and the data in ``data``.

    Examples
    --------
    >>> modern({"optimizer": {"adam_beta1": 0.9, "zero_stage": 1}})[0]["optimizer"]
    {'zero_stage': 1, 'optimizer_factory': {'name': 'adamW', 'adam_beta1': 0.9}}
    """
    optimizer = tree.get("optimizer")
    old = isinstance(optimizer, Mapping) and "adam_beta1" in optimizer
    if not isinstance(optimizer, Mapping) or not old or "optimizer_factory" in optimizer:
        return dict(tree), ()
    whole = {"data_stages" if key == "data" else key: value for key, value in tree.items()}
    kept = {key: value for key, value in optimizer.items() if key not in MOVED}
    factory = {"name": "adamW"} | {key: optimizer[key] for key in MOVED if key in optimizer}
    whole["optimizer"] = kept | {"optimizer_factory": factory}
    return whole, ("a file of a nanotron before 0.4: read as the newest would have it",)


def grouped(value: Any) -> Any:
    """Return a number whose digits are in groups (``70_010``, YAML 1.1's) as one."""
    return int(value) if isinstance(value, str) and _GROUPED.fullmatch(value) else value


def unscaled(sheet: Sheet) -> None:
    """Note that positions are not scaled: only src/nanotron/config/models_config.py has the field."""
    scaled = {key for key, value in sheet.values.items() if value is not None and SCALING in key}
    sheet.notes += [UNSCALED] if scaled else []
    sheet.seen |= scaled
