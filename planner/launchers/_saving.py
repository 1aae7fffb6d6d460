"""How often the launch files save, whether training goes on meanwhile, and what they do after a failure."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from planner.dataclasses import replace
from planner.runtimes.family import Command, Runtime
from planner.runtimes.saving import Saving
from planner.techniques.recovery import RECOVERIES

RESTARTS: Final = 20
"""Times that a job starts again by itself after a failure, where its user does not say otherwise. [-]"""

NOT_IN_FILES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "in-memory": "a service beside the runtime keeps copies in other nodes; these files start none",
        "in-process": "restarts in the process are Megatron's; these files start the job anew",
        "elastic": "a service beside the runtime goes on with fewer nodes; these files start none",
        "torchft": "replica groups start one by one beside torchft's lighthouse; these files start one job",
    }
)
"""Recoveries that launch files alone do not make, and why, where a runtime does not say them."""

SAID: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "restart": ("RESTARTS",),
        "in-memory": ("--replication",),
        "in-process": ("--inprocess-restart", "inprocess_restart="),
        "torchft": ("fault_tolerance=",),
    }
)
"""Recovery to words of which one is in the files that make it."""


def with_saving(command: Command, runtime: Runtime, saving: Saving | None) -> Command:
    """Return a command that saves as often as asked, where its user does not say otherwise."""
    if saving is None:
        return command
    notes = [f"A checkpoint each {saving.steps:,} steps, for recovery by {saving.recovery}."]
    if saving.behind and runtime.saves is None:
        notes.append(f"Priced with saves behind training; these files of {runtime.name} do not turn them on.")
    if runtime.saves is not None:
        command = runtime.saves(command, saving)
    defaults = {"SAVE_INTERVAL": str(saving.steps), "RESTARTS": str(RESTARTS)}
    if not RECOVERIES[saving.recovery].runner:
        notes.append(f"No runner is known to have {saving.recovery}: these files start from a checkpoint.")
    elif saving.recovery in NOT_IN_FILES and not is_said(command, saving.recovery):
        notes.append(f"Recovery by {saving.recovery}: {NOT_IN_FILES[saving.recovery]}.")
    return replace(
        command,
        defaults={**command.defaults, **defaults},
        restarts=True,
        notes=(*command.notes, *notes),
    )


def is_said(command: Command, recovery: str) -> bool:
    """Whether the files of a command make a recovery."""
    texts = (*command.real, *(command.files or {}).values())
    return any(word in text for word in SAID.get(recovery, ()) for text in texts)
