"""How torchtitan's arguments say checkpoints behind training."""

from __future__ import annotations

from planner.runtimes.family import Command
from planner.runtimes.saving import Saving, adding


def saves(command: Command, saving: Saving) -> Command:
    """Return a command that saves as asked.

    References
    ----------
    .. [1] torchtitan b5bcd76c, ``torchtitan/components/checkpointer/dcp.py``: ``async_mode``.
    """
    flags = ("--checkpoint.async_mode", "async_with_pinned_mem") if saving.behind else ()
    return adding(command, flags)
