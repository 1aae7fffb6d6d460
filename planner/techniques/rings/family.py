"""What an implementation of ring attention does beside the method's own messages."""

from __future__ import annotations

from planner.dataclasses import dataclass


@dataclass(frozen=True)
class RingAttention:
    """Whose code runs attention whose keys and values come from other ranks."""

    name: str
    """As in ``--set ring_attention=NAME``."""
    cite: str
    """Where it was read."""
    fp32_gradients: bool = False
    """Whether gradients of keys and values are passed on in fp32, and once round the whole ring."""
    merges_each_step: bool = False
    """Whether the result of each step on another rank's keys is merged before the next step starts, so that
    stitching grows with their number, and ``cp_slowdown`` is that of two ranks."""
    aliases: tuple[str, ...] = ()
    """Other names."""
