"""What a call of the attention kernel copies and keeps around it."""

from __future__ import annotations

from planner.dataclasses import dataclass


@dataclass(frozen=True)
class AttentionCode:
    """Whose code calls the attention kernel."""

    name: str
    """As in ``--set attention_code=NAME``."""
    cite: str
    """Where it was read."""
    copies: bool = False
    """Whether keys and values are repeated to all query heads, and the output copied, before they are
    kept."""
    rescales_sinks: bool = False
    """Whether attention sinks scale the kernel's result, which is kept before and after it."""
    aliases: tuple[str, ...] = ()
    """Other names."""
