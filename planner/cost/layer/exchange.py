"""What one kind of communication of a layer takes and sends."""

from __future__ import annotations

from planner.dataclasses import dataclass
from planner.numeric import Num

ACTIVATION_BYTES = 2.0
"""Activations travel in 16 bit. [byte]"""


@dataclass(frozen=True)
class Exchange:
    """One kind of communication of one layer and micro-batch."""

    forward: Num = 0.0
    backward: Num = 0.0
    """Exposed time of each pass. [s]"""
    forward_sent: Num = 0.0
    backward_sent: Num = 0.0
    """Bytes that one rank sends in each pass. [byte]"""

    def __add__(self, other: Exchange) -> Exchange:
        if other is NO_EXCHANGE:
            return self
        if self is NO_EXCHANGE:
            return other
        return Exchange(
            self.forward + other.forward,
            self.backward + other.backward,
            self.forward_sent + other.forward_sent,
            self.backward_sent + other.backward_sent,
        )


NO_EXCHANGE = Exchange()
"""Nothing is sent."""
