"""What layers under tensor and sequence parallelism keep, gather and tell."""

from __future__ import annotations

from planner.dataclasses import dataclass


@dataclass(frozen=True)
class TensorLibrary:
    """Whose layers run under tensor and sequence parallelism."""

    name: str
    """As in ``--set tensor_library=NAME``."""
    cite: str
    """Where it was read."""
    regathers: bool = True
    """Whether sequence parallelism keeps inputs sharded and gathers them again in backward; if not, they are
    kept whole."""
    low_bit_gathers: bool = True
    """Whether sequence-parallel inputs and gradients are cast before they are gathered, and travel in low
    bits; by rows they cannot."""
    told_reductions: bool = False
    """Whether the bytes of tensor parallelism hold those of small reductions, whose time is not priced: three
    numbers of each token in a loss over divided logits, and gradients of norms that are split along the
    sequence."""
    aliases: tuple[str, ...] = ()
    """Other names."""
