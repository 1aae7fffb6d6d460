"""What measured collectives say of a link: the share of its rate, and its latency."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from planner.dataclasses import dataclass
from planner.formulas.collective_curves import BUS_FACTOR

LARGE_BYTES: Final = 2.0**27
"""Buffers from which a collective counts as bound by the link, where there are any. [byte]"""

SMALL_BYTES: Final = 2.0**15
"""Buffers up to which its time is latency alone. [byte]"""

PREFERRED: Final = ("all_gather", "reduce_scatter", "all_reduce", "all_to_all")
"""Operations by how plainly they show the link: an all-reduce may be summed inside the switch."""


@dataclass(frozen=True)
class Sample:
    """One timed collective."""

    operation: str
    """A key of ``BUS_FACTOR``."""
    ranks: int
    nodes: int
    """Who took part, and on how many nodes. [-]"""
    nbytes: float
    """Full buffer as nccl-tests counts it. [byte]"""
    seconds: float
    """Elapsed. [s]"""

    @property
    def bus_rate(self) -> float:
        """Bus bandwidth. [byte/s]"""
        crossing = BUS_FACTOR[self.operation] * (self.ranks - 1) / self.ranks
        return crossing * self.nbytes / self.seconds

    @property
    def hops(self) -> float:
        """Messages in a row of a ring. [-]"""
        return BUS_FACTOR[self.operation] * (self.ranks - 1)


@dataclass(frozen=True)
class Link:
    """A tier as collectives see it."""

    bus_rate: float
    """Bus bandwidth of the large buffers. [byte/s]"""
    latency: float | None
    """Of one hop, from the smallest buffers; None where none was small. [s]"""
    sample: Sample
    """The one that gave the rate."""


def link_of(samples: Iterable[Sample]) -> Link | None:
    """Return what the largest group's most telling operation says; None where nothing was measured."""
    table = [sample for sample in samples if sample.ranks > 1 and sample.seconds > 0 and sample.nbytes > 0]
    if not table:
        return None
    most = max(sample.ranks for sample in table)
    widest = [sample for sample in table if sample.ranks == most]
    large = [sample for sample in widest if sample.nbytes >= LARGE_BYTES] or _largest(widest)
    operation = next(name for name in PREFERRED if any(one.operation == name for one in large))
    best = max((one for one in large if one.operation == operation), key=lambda one: one.nbytes)
    small = [one for one in widest if one.nbytes <= SMALL_BYTES and one.operation == operation]
    latency = min((one.seconds / one.hops for one in small), default=None)
    return Link(best.bus_rate, latency, best)


def _largest(samples: Sequence[Sample]) -> list[Sample]:
    top = max(sample.nbytes for sample in samples)
    return [sample for sample in samples if sample.nbytes == top]
