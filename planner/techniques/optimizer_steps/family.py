"""What an optimizer's step holds beside weights, gradients and states."""

from __future__ import annotations

from planner.dataclasses import dataclass


@dataclass(frozen=True)
class OptimizerStep:
    """Whose code runs an optimizer's step, whatever the optimizer."""

    name: str
    """As in ``--set optimizer_step=NAME``."""
    cite: str
    """Where it was read."""
    casts: bool = False
    """Whether it holds an fp32 copy of gradients that are kept in fewer bits, and a 16-bit one of weights
    that rest in low bits alone."""
    step_bytes: float = 0.0
    """Bytes for each weight that a rank steps, in buffers for which no freed activation has room. A runtime's
    trait of that name starts from it. [byte]"""
    aliases: tuple[str, ...] = ()
    """Other names."""
