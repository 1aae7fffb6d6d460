"""What an implementation of experts multiplies, keeps and cuts."""

from __future__ import annotations

from planner.dataclasses import dataclass


@dataclass(frozen=True)
class ExpertCode:
    """Whose code runs a layer's experts."""

    name: str
    """As in ``--set experts=NAME``."""
    cite: str
    """Where it was read."""
    result_bytes: float = 0.0
    """Bytes kept of an element of what experts make, without expert parallelism: 2 where it is multiplied by
    a score after the products, 4 where the result is kept too. A runtime's trait ``expert_result_bytes``
    starts from it. [byte]"""
    kept_apart: bool = False
    """Whether that is so under expert parallelism too: what came back from other ranks is multiplied."""
    stacked: bool = False
    """Whether a layer's experts are one parameter, which engines that cut by rows cut by whole experts, the
    last shards padded."""
    every: bool = False
    """Whether each expert runs on all tokens, times zero where it was not chosen."""
    aliases: tuple[str, ...] = ()
    """Other names."""
