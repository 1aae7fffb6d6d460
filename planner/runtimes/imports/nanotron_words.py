"""Words and numbers of a nanotron YAML that decide no price and that its classes would still refuse.

Read in nanotron 2411b022, src/nanotron/config/config.py and models_config.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from planner.runtimes.imports._sheet import Sheet

WHOLE: Final = ("general.seed", "checkpoints.checkpoint_interval", "tokens.train_steps")
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


def check_words(sheet: Sheet) -> None:
    """Note a fault for each value that nanotron's classes refuse."""
    for key in WHOLE:
        value = sheet.values.get(key)
        if value is not None and type(value) is not int:
            sheet.fault(key, repr(value), "a whole number")
    for key, words in WORDS.items():
        value = sheet.values.get(key)
        if value is not None and value not in words:
            sheet.fault(key, repr(value), ", ".join(words))
    asynchronous = "parallelism.tp_linear_async_communication"
    if sheet.values.get(asynchronous) is True and not _scatters(sheet):
        sheet.fault(asynchronous, "true with tp_mode ALL_REDUCE", "false, or tp_mode REDUCE_SCATTER")
    stages = sheet.values.get("data_stages")
    if isinstance(stages, list) and not any(_starts(stage) for stage in stages):
        sheet.fault("data_stages", "no stage from step 1", "a stage with start_training_step: 1")
    _initialised(sheet)


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
