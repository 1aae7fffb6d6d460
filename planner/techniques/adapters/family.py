"""Which linear layers a library's adapters sit on, and in which numbers copies beside them learn."""

from __future__ import annotations

from planner.dataclasses import dataclass


@dataclass(frozen=True)
class AdapterLibrary:
    """Whose adapters, and whose linear layers under them."""

    name: str
    """As in ``--set adapters=NAME``."""
    cite: str
    """Where it was read."""
    separate: bool = False
    """Whether queries, keys and values, and the halves of a gated feed-forward, are linear layers of their
    own, with an adapter each."""
    casts_copies: bool = False
    """Whether a copy of embedding and head that learns beside adapters is cast to fp32 as they are; if not it
    keeps 16 bits, with its gradient and moments, where nothing is sharded."""
    aliases: tuple[str, ...] = ()
    """Other names."""
