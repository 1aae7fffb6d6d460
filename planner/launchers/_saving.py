"""How often the launch files save, and whether training goes on meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from planner.runtimes._family import Command


@dataclass(frozen=True)
class Saving:
    """What a run is told of its checkpoints.

    Parameters
    ----------
    steps : int
        From one to the next. [-]
    behind : bool
        Whether they are written while training goes on.
    recovery : str
        How the job goes on after a failure.
    """

    steps: int
    behind: bool
    recovery: str


BEHIND: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "megatron-lm": ("--async-save", "--use-persistent-ckpt-worker"),
        "torchtitan": ("--checkpoint.async_mode", "async_with_pinned_mem"),
    }
)
"""Runtime to the arguments with which it writes checkpoints while training goes on.

References
----------
.. [1] NVIDIA, Megatron-LM d98e8a64, ``megatron/training/arguments.py``: asynchronous saves of distributed
   checkpoints need the persistent worker.
.. [2] torchtitan b5bcd76c, ``torchtitan/components/checkpointer/dcp.py``: ``async_mode``.
"""

NOT_IN_FILES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "in-memory": "a service beside the runtime keeps copies in other nodes; these files start none",
        "elastic": "a service beside the runtime goes on with fewer nodes; these files start none",
        "torchft": "replica groups start one by one beside torchft's lighthouse; these files start one job",
    }
)
"""Recoveries that launch files alone do not make, and why."""


def with_saving(command: Command, runtime: str, saving: Saving | None) -> Command:
    """Return a command that saves as often as asked, where its user does not say otherwise."""
    if saving is None:
        return command
    notes = [f"A checkpoint each {saving.steps:,} steps, for recovery by {saving.recovery}."]
    flags = BEHIND.get(runtime, ()) if saving.behind else ()
    if saving.behind and not flags:
        notes.append(f"Priced with saves behind training; these files of {runtime} do not turn them on.")
    if saving.recovery in NOT_IN_FILES:
        notes.append(f"Recovery by {saving.recovery}: {NOT_IN_FILES[saving.recovery]}.")
    return replace(
        command,
        defaults={**command.defaults, "SAVE_INTERVAL": str(saving.steps)},
        production=(*command.production, *flags),
        notes=(*command.notes, *notes),
    )
