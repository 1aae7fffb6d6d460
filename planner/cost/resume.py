"""A job that goes on under another plan: whether its checkpoint loads, what moves, how long that takes."""

from __future__ import annotations

from functools import cached_property
from typing import Final

from planner.cost.estimate import Estimate
from planner.cost.traffic.migration import Move, move_between
from planner.dataclasses import dataclass
from planner.runtimes.resume import Saved, Verdict, verdict

UNIVERSAL: Final = 12.0
"""Bytes of a parameter in a converted checkpoint: fp32 weight and both moments (arXiv:2406.18820). [byte]"""


@dataclass(frozen=True)
class Resume:
    """A job that goes on under another plan."""

    old: Estimate
    new: Estimate
    """The plans."""
    storage: float | None = None
    """At which checkpoints are read and written. [byte/s]"""
    reshardable: bool = False
    """Whether Megatron's optimizer was told to save whole tensors."""
    left: int | None = None
    """Accelerators of the old plan that still hold their part; all if not given. [-]"""

    @cached_property
    def verdict(self) -> Verdict:
        """Whether the checkpoint loads, and with which tool."""
        sides = [Saved(one.plan, one.job, one.runtime) for one in (self.old, self.new)]
        return verdict(sides[0], sides[1], self.reshardable)

    @cached_property
    def move(self) -> Move | None:
        """What moves from rank to rank where nobody goes through storage; None for other models."""
        if any(one.rule in ("model", "method") for one in self.verdict.faults):
            return None
        return move_between(self.old, self.new, self.left)

    @property
    def state_bytes(self) -> float:
        """The whole checkpoint. [byte]"""
        case = self.old.case
        return self.old.job.model.params * (case.weight_bytes + case.optimizer_bytes)

    @property
    def storage_seconds(self) -> float | None:
        """Time to read the checkpoint, converted before where it must be; None without a rate. [s]"""
        if self.storage is None:
            return None
        converted = 2 * UNIVERSAL * self.old.job.model.params if self.verdict.converts else 0.0
        return (self.state_bytes + converted) / self.storage

    @property
    def direct_seconds(self) -> float | None:
        """Time of the move from rank to rank; None where some is gone and storage has no rate. [s]"""
        pool = self.new.job.hardware.pool
        if self.move is None:
            return None
        gone = float(self.move.parts[:, 3].sum())
        if gone and self.storage is None:
            return None
        fast = float(pool.node.scaleup.tier.bandwidth)
        return self.move.seconds(fast, pool.nic_bandwidth or fast, self.storage or 1.0)
