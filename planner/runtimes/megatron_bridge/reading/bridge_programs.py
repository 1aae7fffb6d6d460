"""Commands that start a recipe of Megatron-Bridge by its name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

LAUNCHER: Final = re.compile(
    r"(?:.*/)?(?:run_recipe|run_script|setup_experiment|launch_with_nemo_run)\.py|(?:.*/)?training/train\.sh"
)

SELECTORS: Final = (
    ("-mr", "--model_recipe_name", "--model_size"), ("-g", "--gpu"), ("-ng", "--num_gpus")
)  # fmt: skip
"""Flags with which a copy of the benchmark's launcher is told by any name."""


def place(words: tuple[str, ...]) -> int | None:
    """Return where a launcher of Megatron-Bridge stands that is told a recipe, None if there is none."""
    said = {word.partition("=")[0] for word in words}
    if all(said & set(flags) for flags in SELECTORS):
        return next((at for at, word in enumerate(words) if word.endswith(".py")), None)
    if not said & {"--recipe", "--model", "-mr", "--model_recipe_name"}:
        return None
    return next((at for at, word in enumerate(words) if LAUNCHER.fullmatch(word)), None)


def kind(
    words: tuple[str, ...], at: int, before: Mapping[str, str], flags: Mapping[str, str]
) -> tuple[str, str | None]:
    """Return the kind of such a command; it names no file of its own."""
    return "bridge-recipe", None
