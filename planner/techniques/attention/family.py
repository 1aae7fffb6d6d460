"""How a kernel of attention compares with the accelerator's best, and what it leaves in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from planner.dataclasses import dataclass, field


class Slowdown(NamedTuple):
    """Time of a kernel over that of the accelerator's best, forward and backward. [-]"""

    forward: float
    backward: float


@dataclass(frozen=True)
class AttentionKernel:
    """One kind of kernel for the core of attention."""

    name: str
    """As in ``--set attention=NAME``."""
    cite: str
    """Where its speed was read."""
    slowdown: Slowdown = Slowdown(1.0, 1.0)
    """Its time over the best one's, where scores stay on the chip. [-]"""
    slowdown_on: Mapping[str, Slowdown] = field(default_factory=dict)
    """The same on architectures whose best has instructions that it does not use. [-]"""
    keeps_scores: bool = False
    """Whether the matrix of scores goes through memory, and waits there for backward."""
    joins_softmax: bool = False
    """Whether one kernel scales, masks and normalises scores, where heads of sequences come by fours."""
    narrow_as_wide: bool = False
    """Whether it is as fast for each FLOP at narrow heads as at those of 128, for which its slowdown."""
    counts_buffers: bool = False
    """Whether what its backward needs at once is known."""
    ordered_rates: tuple[float, float] | None = None
    """What it approaches on Blackwell's datacentre chips, forward and backward, where sums have to come in
    one order; None of one that has no such order. [FLOP/s]"""
    aliases: tuple[str, ...] = ()
    """Other names."""

    def slower(self, arch: str) -> Slowdown:
        """Return its time over that of the best on an architecture. [-]

        A machine that was measured through PyTorch has the curve of what PyTorch chooses, and none is named:
        runtimes on PyTorch's own attention take that time, and no kernel is known to be faster.
        """
        return self.slowdown_on.get(arch, self.slowdown)
