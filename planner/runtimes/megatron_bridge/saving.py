"""How the file for Megatron-Bridge says checkpoints behind training, and restarts in the process."""

from __future__ import annotations

from planner.dataclasses import replace
from planner.errors import UnsupportedPlan
from planner.runtimes.family import Command
from planner.runtimes.saving import IN_PROCESS_NOTES, IN_PROCESS_VARIABLES, Saving, adding

NAME = "train.py"
CHECKPOINT = "        checkpoint=CheckpointConfig(\n"
IMPORT = "    GPTDatasetConfig,\n"
RESTART = "        inprocess_restart=InProcessRestartConfig(enabled=True, granularity='node'),\n"
SMOKE = "    config.checkpoint.save = config.checkpoint.load = config.checkpoint.save_interval = None\n"


def saves(command: Command, saving: Saving) -> Command:
    """Return a command whose file saves and goes on as asked, as far as Megatron-Bridge can.

    References
    ----------
    .. [1] NVIDIA, Megatron-Bridge 067f987d, ``src/megatron/bridge/training/config.py``: ``CheckpointConfig``,
       whose asynchronous saves need a folder, and ``InProcessRestartConfig``.
    """
    if saving.behind:
        behind = f"{CHECKPOINT}            async_save=True,\n"
        off = f"{SMOKE}    config.checkpoint.async_save = False\n"
        command = _changed(command, {CHECKPOINT: behind, SMOKE: off})
    if saving.recovery == "in-process":
        off = f"{SMOKE}    config.inprocess_restart = None\n"
        changes = {
            IMPORT: f"{IMPORT}    InProcessRestartConfig,\n",
            CHECKPOINT: RESTART + CHECKPOINT,
            SMOKE: off,
        }
        command = adding(_changed(command, changes), (), IN_PROCESS_VARIABLES, IN_PROCESS_NOTES)
    return command


def _changed(command: Command, changes: dict[str, str]) -> Command:
    files = dict(command.files or {})
    for old, new in changes.items():
        if old not in files[NAME]:
            raise UnsupportedPlan(f"the file of the plan has no {old.strip()!r} to replace")
        files[NAME] = files[NAME].replace(old, new, 1)
    return replace(command, files=files)
