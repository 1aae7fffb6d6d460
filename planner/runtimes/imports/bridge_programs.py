"""Commands that start a recipe of Megatron-Bridge by its name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

LAUNCHER: Final = re.compile(
    r"(?:.*/)?(?:run_recipe|run_script|setup_experiment|launch_with_nemo_run)\.py|(?:.*/)?training/train\.sh"
)


def place(words: tuple[str, ...]) -> int | None:
    """Return where a launcher of Megatron-Bridge stands that is told a recipe, None if there is none."""
    told = ("--recipe", "--model", "-mr", "--model_recipe_name")
    if not any(word.partition("=")[0] in told for word in words):
        return None
    return next((at for at, word in enumerate(words) if LAUNCHER.fullmatch(word)), None)


def kind(
    words: tuple[str, ...], at: int, before: Mapping[str, str], flags: Mapping[str, str]
) -> tuple[str, str | None]:
    """Return the kind of such a command; it names no file of its own."""
    return "bridge-recipe", None
