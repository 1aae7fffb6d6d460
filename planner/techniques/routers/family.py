"""What an implementation of a router launches and keeps."""

from __future__ import annotations

from planner.dataclasses import dataclass


@dataclass(frozen=True)
class RouterCode:
    """Whose code scores tokens and chooses their experts."""

    name: str
    """As in ``--set router=NAME``."""
    cite: str
    """Where it was read."""
    chained: bool = False
    """Whether scores, choices and balancing loss are chains of PyTorch's, beside the operations that a
    runtime's host time of a layer counts."""
    reads_fp32: bool = False
    """Whether it reads a copy of its tokens that was cast to fp32, and keeps it for backward."""
    aliases: tuple[str, ...] = ()
    """Other names."""
