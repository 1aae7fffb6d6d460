"""Files that can be read: configurations in the order they are tried, and commands of scripts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from planner.runtimes.deepspeed.reading import deepspeed
from planner.runtimes.fsdp.reading import accelerate, accelerate_script
from planner.runtimes.imports import saved_plan
from planner.runtimes.imports.command_line import Training
from planner.runtimes.imports.file_format import FileFormat
from planner.runtimes.imports.sheet import Imported
from planner.runtimes.libraries.reading import trainer_files
from planner.runtimes.megatron_bridge.reading import bridge, bridge_launch, bridge_yaml, nemo, nemo_python
from planner.runtimes.megatron_lm.reading import megatron, megatron_files, neox
from planner.runtimes.nanotron.reading import nanotron
from planner.runtimes.torchtitan.reading import torchtitan, torchtitan_flags

FORMATS: Final[tuple[FileFormat, ...]] = (
    deepspeed.ENTRY,
    torchtitan.ENTRY,
    *megatron_files.ENTRIES,
    neox.ENTRY,
    *trainer_files.ENTRIES,
    accelerate.ENTRY,
    nanotron.ENTRY,
    nemo.ENTRY,
    bridge_yaml.ENTRY,
    saved_plan.ENTRY,
    bridge.ENTRY,
    nemo_python.ENTRY,
    torchtitan_flags.ENTRY,
    accelerate_script.ENTRY,
)
"""Of two formats with one suffix the first that fits reads the file."""

COMMANDS: Final[Mapping[str, Callable[[Training, Path, int | None], Imported]]] = {
    "megatron-lm": megatron.read_command,
    "gpt-neox": neox.read_command,
    "torchtitan": torchtitan_flags.read_command,
    "bridge-recipe": bridge_launch.read_command,
    **dict.fromkeys((*trainer_files.LIBRARIES, "hf-trainer", "xtuner"), trainer_files.read_command),
}
"""Readers of a command that names no configuration, by ``Training.kind``: (training, script, vocabulary)."""

KINDS: Final = ", ".join(["a shell script", *(entry.title for entry in FORMATS[:-1])]) + (
    f" or {FORMATS[-1].title}"
)


def suffixes() -> set[str]:
    """Return the endings of all configurations."""
    return {suffix for entry in FORMATS for suffix in entry.suffixes}
