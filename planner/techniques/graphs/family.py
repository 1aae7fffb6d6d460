"""What a CUDA graph holds, and what the host no longer launches for it."""

from __future__ import annotations

from typing import Final

from planner.dataclasses import dataclass


@dataclass(frozen=True)
class GraphScope:
    """A part of a step that runs as CUDA graphs."""

    name: str
    """As in ``--set graphed=NAME``."""
    cite: str
    """Where it was read."""
    modules: tuple[str, ...] = ()
    """Modules of a layer that its graph holds; none where all passes are one."""
    norms: tuple[str, ...] = ()
    """Norms that it holds besides."""
    routes: bool = False
    """Whether it holds what comes before the dispatcher: router, and what sorts tokens."""
    attends: bool = False
    """Whether it holds attention, so that the host launches half of a layer."""
    whole: bool = False
    """Whether all passes are one graph."""
    aliases: tuple[str, ...] = ()
    """Other names."""


NO_GRAPHS: Final = GraphScope("", "")
"""Every kernel launched by the host."""
