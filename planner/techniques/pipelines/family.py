"""What messages between stages occupy, and whether stages end a step together."""

from __future__ import annotations

from planner.dataclasses import dataclass


@dataclass(frozen=True)
class PipelineCode:
    """Whose code runs a pipeline's stages, whatever their schedule."""

    name: str
    """As in ``--set pipeline_code=NAME``."""
    cite: str
    """Where it was read."""
    scatters: bool = False
    """Whether tensor-parallel ranks that hold a message between stages whole send a part each, and gather it
    on arrival; with sequence parallelism they hold parts anyway."""
    occupies: bool = True
    """Whether a message between stages occupies its sender and receiver."""
    ends_apart: bool = False
    """Whether a stage goes on to its next step when its own passes are done."""
    aliases: tuple[str, ...] = ()
    """Other names."""
