"""Words and numbers of a nanotron YAML that decide no price and that its classes would still refuse.

Read in nanotron 2411b022, src/nanotron/config/config.py and models_config.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from planner.runtimes._imports._sheet import Sheet

WHOLE: Final = ("general.seed", "checkpoints.checkpoint_interval", "tokens.train_steps")
LEVELS: Final = ("debug", "info", "warning", "error", "critical", "passive")
WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "logging.log_level": LEVELS,
    "logging.log_level_replica": LEVELS,
    "optimizer.learning_rate_scheduler.lr_warmup_style": ("linear", "constant"),
    "optimizer.learning_rate_scheduler.lr_decay_style": ("linear", "cosine", "1-sqrt"),
}
"""nanotron, config/config.py: words that its classes take."""

STARTS: Final = (
    ({"std"}, {"scaling_method"}),
    ({"use_mup"}, set[str]()),
    ({"path"}, set[str]()),
)
"""nanotron, config/models_config.py: fields of each way to start weights, and those with a default."""


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
    if said and sum(way <= said <= way | more for way, more in STARTS) != 1:
        sheet.fault(place, ", ".join(sorted(said)), "std, use_mup or path, and one of them")
