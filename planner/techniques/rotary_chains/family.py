"""How a rotary embedding turns that is no kernel of its own."""

from __future__ import annotations

from typing import Literal

from planner.dataclasses import dataclass
from planner.formulas.elementwise import Traffic


@dataclass(frozen=True)
class RotaryChain:
    """Whose operators turn queries and keys where none of them is fused."""

    name: str
    """As in ``--set rotary_chain=NAME``."""
    cite: str
    """Where it was read."""
    traffic: Traffic
    """Bytes that it moves for an element of queries or keys. [byte]"""
    keeps: bool = False
    """Whether it keeps what it turned, in 16 bit, beside the products' results."""
    joins: Literal["never", "parts", "always"] = "never"
    """When the turned part of a head is put beside the rest, so that attention's output is copied: where a
    part of each head turns, or always."""
    aliases: tuple[str, ...] = ()
    """Other names."""
