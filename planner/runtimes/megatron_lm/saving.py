"""How Megatron-LM's arguments say checkpoints behind training, copies in memory, restarts in the process."""

from __future__ import annotations

from typing import Final

from planner.dataclasses import replace
from planner.runtimes.family import Command
from planner.runtimes.saving import IN_PROCESS_NOTES, IN_PROCESS_VARIABLES, Saving, adding

LOCAL: Final = "/dev/shm/checkpoints"
"""Where copies are kept where nobody says otherwise: memory of the node."""

COPIES: Final = 2
"""Nodes that hold each copy: its own and another one (``--replication-factor``). [-]"""


def saves(command: Command, saving: Saving) -> Command:
    """Return a command that saves and goes on as asked, as far as Megatron-LM can.

    References
    ----------
    .. [1] NVIDIA, Megatron-LM d98e8a64, ``megatron/training/arguments.py`` and
       ``megatron/training/config/training_config.py``: asynchronous saves of distributed checkpoints need the
       persistent worker; local checkpoints, and their replicas, need nvidia-resiliency-ext.
    """
    if saving.behind:
        command = adding(command, ("--async-save", "--use-persistent-ckpt-worker"))
    if saving.recovery == "in-process":
        flags = ("--inprocess-restart", "--inprocess-granularity", "node")
        return adding(command, flags, IN_PROCESS_VARIABLES, IN_PROCESS_NOTES)
    if saving.recovery == "in-memory" and saving.near_steps is not None:
        return _with_copies(command, saving, saving.near_steps)
    return command


def _with_copies(command: Command, saving: Saving, steps: int) -> Command:
    """Return a command whose nodes keep each other's checkpoints in memory."""
    if "fsdp_dtensor" in command.real:
        return adding(command, notes=("Copies in memory: Megatron-FSDP has no local checkpoints.",))
    if saving.gpus % (saving.per_node * COPIES):
        return adding(command, notes=("Copies in memory: they go in pairs of nodes, and these are odd.",))
    flags = (
        *("--non-persistent-ckpt-type", "local", "--non-persistent-save-interval", str(steps)),
        *("--non-persistent-local-ckpt-dir", "${LOCAL_DIR}", "--replication"),
        *("--replication-jump", str(saving.per_node), "--replication-factor", str(COPIES)),
    )
    note = (
        "Copies in memory are Megatron-LM's local checkpoints with replicas and need nvidia-resiliency-ext; "
        "a start anew finds them on nodes that kept their memory."
    )
    command = adding(command, flags, notes=(note,))
    return replace(command, defaults={**command.defaults, "LOCAL_DIR": LOCAL})
