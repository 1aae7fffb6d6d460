"""How a layer that is recomputed whole runs again."""

from __future__ import annotations

from planner.dataclasses import dataclass


@dataclass(frozen=True)
class Checkpointing:
    """One implementation of activation checkpointing."""

    name: str
    """As in ``--set checkpointing=NAME``."""
    cite: str
    """Where it was read."""
    stops_early: bool = False
    """Whether it stops before the last product of a layer, where backward does not need its result."""
    gathers: bool = False
    """Whether it calls the layer's sharded unit again, and so gathers its weights a third time; where the
    unit holds the checkpoint, backward's gather serves both."""
    repeats_methods: bool = False
    """Whether it repeats whole layers even where the context method has checkpoints of its own, behind
    attention."""
    aliases: tuple[str, ...] = ()
    """Other names."""
