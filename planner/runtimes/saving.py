"""What a run is told of its checkpoints and of failures, as a runtime's files say it."""

from __future__ import annotations

from planner.dataclasses import dataclass, replace
from planner.runtimes.family import Command


@dataclass(frozen=True)
class Saving:
    """What a run is told of its checkpoints."""

    steps: int
    """From one to the next. [-]"""
    behind: bool
    """Whether they are written while training goes on."""
    recovery: str
    """How the job goes on after a failure."""
    near_steps: int | None = None
    """From one copy in another node's memory to the next, where such are kept. [-]"""
    per_node: int = 8
    """Accelerators of a node. [-]"""
    gpus: int = 8
    """Accelerators. [-]"""


def adding(
    command: Command,
    flags: tuple[str, ...] = (),
    environment: dict[str, str] | None = None,
    notes: tuple[str, ...] = (),
) -> Command:
    """Return a command with more arguments of a real run, more variables and more notes."""
    return replace(
        command,
        production=(*command.production, *flags),
        environment={**command.environment, **(environment or {})},
        notes=(*command.notes, *notes),
    )


IN_PROCESS_NOTES = (
    "In-process restart needs nvidia-resiliency-ext, PyTorch from 2.5.1 and NCCL from 2.26.2, and goes on in "
    "the same processes: torchrun ends all of them where one dies, so use ft_launcher for lost ranks.",
    "It goes on with as many ranks as before: ask for spare nodes, and set its active world size to the "
    "ranks of the plan, for lost nodes to be replaced.",
)
"""What a user must know of in-process restart (nvidia-resiliency-ext; Megatron-LM d98e8a64,
``megatron/training/inprocess_restart.py``; Megatron-Bridge 067f987d, ``docs/training/resiliency.md``)."""

IN_PROCESS_VARIABLES = {"TORCH_CPP_LOG_LEVEL": "error", "TORCH_NCCL_RETHROW_CUDA_ERRORS": "0"}
"""Variables that in-process restart asks for, beside those that the files set anyway."""
